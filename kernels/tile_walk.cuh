// The shape of a batched contraction C[m][n] = A B, and the order in which its tiles are taken.

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
