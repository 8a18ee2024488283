// C[m][n] = sum over k of A B, batched, for what no tensor core path takes: any type, any order of
// the operands' elements, with an epilogue (epilogue.cuh). Needs elements.cuh, quick.cuh,
// accumulators.cuh, columns.cuh, epilogue.cuh and tile_walk.cuh before it; with Groups
// row_groups.cuh, and b's batch is the group then.
//
// Acc is the type of products and sums: float where the epilogue reduces. Operands is a struct that
// the generator writes:
//   __device__ Acc a(int batch, int m, int k) const;
//   __device__ Acc b(int batch, int k, int n) const;
// The epilogue takes Acc (&v)[8] in place of float (&v)[8]. Launch: kThreads threads, a block for
// each tile of kTile x kTile of each batch. A row's partials count tiles of kTile.
//
// Traffic: as for sm_80. Bound by the multiplications, which do not use tensor cores.

template <typename Acc, class Operands, class Epilogue, class Groups = NoGroups>
struct ContractAny {
  static constexpr int kTile = 64, kDepth = 16, kThreads = 256;
  static constexpr int kTileRows = kTile, kTileColumns = kTile;
  static constexpr u32 kSharedBytes = 0;  // none of it dynamic
  typedef typename Epilogue::Rows Rows;
  typedef typename Epilogue::Columns Columns;
  static_assert(kTile == ContractShape::kStripRows, "a tile is one strip of its columns");

  static __device__ __forceinline__ void run(const ContractShape& shape, const Operands& operands,
                                             const Epilogue& epilogue, const Groups& groups = {}) {
    __shared__ Acc a[kDepth][kTile + 1];
    __shared__ Acc b[kDepth][kTile + 1];
    const TileWalk walk = groups.walk(shape, kTile, kTile);
    if (Groups::kHere && blockIdx.x >= walk.total) return;
    int tile;
    const TileRows rows = groups.locate(walk, shape, kTile, blockIdx.x, &tile);
    const int batch = rows.batch, m0 = rows.first, n0 = tile * kTile,
              depth = rows.none ? 0 : shape.k;
    const int row = threadIdx.x / 8, column = threadIdx.x % 8 * 8;
    Acc acc[2][8] = {};
    for (int k0 = 0; k0 < depth; k0 += kDepth) {
#pragma unroll
      for (int i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
        const int line = i / kDepth, k = i % kDepth;
        const bool inside = k0 + k < shape.k;
        a[k][line] = inside && m0 + line < rows.end ? operands.a(batch, m0 + line, k0 + k) : Acc(0);
        b[k][line] =
            inside && n0 + line < shape.n ? operands.b(rows.matrix, k0 + k, n0 + line) : Acc(0);
      }
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Acc x = a[k][row + 32 * half];
#pragma unroll
          for (int j = 0; j < 8; ++j) acc[half][j] += x * b[k][column + j];
        }
      }
      __syncthreads();
    }
    const int valid = min(8, shape.n - n0 - column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = m0 + row + 32 * half;
      const bool inside = m < rows.end && valid > 0;
      if (inside) epilogue(batch, (i64)m, (i64)(n0 + column), acc[half], valid);
      if constexpr (Rows::kParts > 0) {
        typename Rows::State state = inside ? Rows::of_row(acc[half], valid) : Rows::none();
#pragma unroll
        for (int apart = 1; apart < 8; apart *= 2) state = merge_with_lane<Rows>(state, apart);
        if (column == 0 && m < rows.end) epilogue.row_done(batch, m, tile, state);
      }
    }
    if constexpr (Columns::kParts > 0) {
      reduce_columns(shape, rows, n0, row, column, acc, epilogue);
    }
  }

  static __device__ __forceinline__ void reduce_columns(const ContractShape& shape,
                                                        const TileRows& rows, int n0, int row,
                                                        int column, const Acc (&acc)[2][8],
                                                        const Epilogue& epilogue) {
    typedef typename Columns::State State;
    __shared__ State states[kThreads / 32][kTile];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      State state = Columns::none();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (rows.first + row + 32 * half < rows.end) {
          state = Columns::merge(state, Columns::of(acc[half][j]));
        }
      }
      state = merge_with_lane<Columns>(merge_with_lane<Columns>(state, 8), 16);
      if (threadIdx.x % 32 < 8) states[threadIdx.x / 32][column + j] = state;
    }
    __syncthreads();
    const int n = threadIdx.x;
    if (n >= kTile || n0 + n >= shape.n) return;
    State state = states[0][n];
#pragma unroll
    for (int warp = 1; warp < kThreads / 32; ++warp) {
      state = Columns::merge(state, states[warp][n]);
    }
    epilogue.column_done(rows.batch, rows.first / kTile, n0 + n, state);
  }
};
