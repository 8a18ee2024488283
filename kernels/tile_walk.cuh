// The shape of a batched contraction C[m][n] = A B, and the order in which its tiles are taken.
// Needs accumulators.cuh before it.

struct ContractShape {
  static constexpr int kStripRows = 64;  // that one partial of a column covers
  int m, n, k;
  int outer, inner;      // batches: outer * inner
  int a_outer, a_inner;  // 1 where A has that batch dimension, 0 where it is broadcast
  int b_outer, b_inner;
  // Clusters' row tiles that are walked together before the next columns of B: their A stays in the
  // L2 while B streams through. 8 for large K, and where B stays there, too; else more.
  int group;
  // Where A's lines are in pieces along k (ContractSm90 alone): elements of one, which is then the
  // extent of the map's first dimension, and the inner batch dimension counts pieces.
  int a_piece;
};

// The strides of operands that are read through pointers, in elements; 0 for a batch dimension that
// is broadcast.
struct ContractStrides {
  i64 a_line, a_inner, a_outer;
  i64 b_line, b_inner, b_outer;
};

// Assigns tiles to clusters. The rows of batches that share B are treated as rows of one matrix, so
// that B is fetched once for all of them.
struct TileWalk {
  int row_units;  // of all batches that share one B
  int units;      // of one batch
  int columns;    // tiles along n
  int batches;    // that do not share B
  int group;
  int total;

  __device__ TileWalk(const ContractShape& s, int unit_rows, int tile_columns) {
    units = (s.m + unit_rows - 1) / unit_rows;
    columns = (s.n + tile_columns - 1) / tile_columns;
    int shared = 1;
    if (!s.b_inner) shared = s.b_outer ? s.inner : s.inner * s.outer;
    row_units = units * shared;
    batches = s.inner * s.outer / shared;
    group = s.group;
    total = row_units * columns * batches;
  }
  __device__ __forceinline__ void locate(int tile, int* batch, int* unit, int* column) const {
    const int each = row_units * columns;
    const int own = tile / each;
    const int rest = tile - own * each;
    const int in_group = group * columns;
    const int groups = rest / in_group;
    const int rows = min(group, row_units - groups * group);
    const int at = rest - groups * in_group;
    *column = at / rows;
    const int row = groups * group + at - *column * rows;
    *batch = own * (row_units / units) + row / units;
    *unit = row % units;
  }
};

// The rows that a tile is of, in which batch, and which matrix of B they are multiplied by.
struct TileRows {
  int batch;
  int first, end;  // all rows before `end` are multiplied by that matrix
  int matrix;
  bool none;  // there is no such matrix: these rows are zero
};

// Each batch has a matrix of its own, or shares one (row_groups.cuh: groups of rows do).
struct NoGroups {
  static constexpr bool kHere = false;

  static __device__ __forceinline__ TileWalk walk(const ContractShape& shape, int unit_rows,
                                                  int tile_columns) {
    return TileWalk(shape, unit_rows, tile_columns);
  }
  static __device__ __forceinline__ TileRows locate(const TileWalk& walk,
                                                    const ContractShape& shape, int unit_rows,
                                                    int tile, int* column) {
    int batch, unit;
    walk.locate(tile, &batch, &unit, column);
    return {batch, unit * unit_rows, shape.m, batch, false};
  }
};

// How the sums of a step of k are added to the tile's.
enum class StepSums {
  kInPlace,  // by the tensor cores, as they multiply
  kScaled,   // apart from them, each step's with its scales: step_scales.cuh
  kExact,    // apart from them, those of 32-bit floats in full: exact_steps.cuh
};
template <StepSums kHow>
struct SumsAre {
  static constexpr StepSums kKind = kHow;
  static constexpr bool kEachColumn = false;  // has a scale of its own
};
typedef SumsAre<StepSums::kInPlace> SumsInPlace;
typedef SumsAre<StepSums::kExact> ExactSums;

// Several products of one A in one launch, with an epilogue each: their columns lie one product
// after the other, those of each rounded up to whole tiles (the shape's n counts them so). A tile
// belongs to one product, which is the same for all threads of a block. This is the epilogue of the
// first, of kCount columns, and Others those of the rest.
struct NoProduct {
  static constexpr int kProducts = 0;
};
template <class First, int kCount, class Others = NoProduct>
struct SideBySide {
  typedef NoReduction Rows;
  typedef NoReduction Columns;
  static constexpr int kProducts = 1 + Others::kProducts;
  First first;
  Others others;
};

// Where a column of tiles lies: its product, its place among that product's tiles, and how many
// columns the product has.
struct TileColumn {
  int product, column, columns;
};

// How a contraction asks for the products of an epilogue: one, unless it is of several.
template <class Epilogue>
struct ProductsOf {
  static constexpr int kProducts = 1;
  template <int kTileColumns>
  static __device__ __forceinline__ TileColumn locate(int column, int columns, int = 0) {
    return {0, column, columns};
  }
  // Calls Contract::finish() with the epilogue of the tile's product and the constant number of its
  // columns.
  template <class Contract, class... More>
  static __device__ __forceinline__ void finish(const Epilogue& epilogue, const TileColumn& tile,
                                                const More&... more) {
    Contract::finish(epilogue, tile, more...);
  }
};
template <class First, int kCount, class Others>
struct ProductsOf<SideBySide<First, kCount, Others>> {
  static constexpr int kProducts = 1 + Others::kProducts;
  template <int kTileColumns>
  static __device__ __forceinline__ TileColumn locate(int column, int columns, int product = 0) {
    constexpr int kTiles = (kCount + kTileColumns - 1) / kTileColumns;
    if constexpr (kProducts > 1) {
      if (column >= kTiles) {
        return ProductsOf<Others>::template locate<kTileColumns>(column - kTiles, columns,
                                                                 product + 1);
      }
    }
    return {product, column, kCount};
  }
  template <class Contract, class... More>
  static __device__ __forceinline__ void finish(const SideBySide<First, kCount, Others>& epilogue,
                                                const TileColumn& tile, const More&... more) {
    if constexpr (kProducts > 1) {
      if (tile.product > 0) {
        const TileColumn next{tile.product - 1, tile.column, tile.columns};
        ProductsOf<Others>::template finish<Contract>(epilogue.others, next, more...);
        return;
      }
    }
    Contract::finish(epilogue.first, TileColumn{0, tile.column, kCount}, more...);
  }
};

// One B for each product, or for each half: which one is known in the code, or the same for all
// threads of a block. Not indexed by a variable, which would move the list to local memory.
template <class B, int kCount>
struct SourcesOfB {
  const B* of[kCount];

  __device__ __forceinline__ const B* at(int product) const {
    const B* found = of[0];
#pragma unroll
    for (int i = 1; i < kCount; ++i) found = product == i ? of[i] : found;
    return found;
  }
};
