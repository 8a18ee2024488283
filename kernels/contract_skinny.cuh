// C[m][n] = sum over k of A B for at most 64 rows, B lying as [n][k] (a linear layer at decoding, a
// matrix-vector product), with an epilogue (epilogue.cuh) in place of a plain store; sm_80 and
// later. Needs elements.cuh, quick.cuh, accumulators.cuh, epilogue.cuh, tile_walk.cuh and mma.cuh
// before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(256)
//       name(const Element* a, const Element* b, ...) {
//     ContractSkinny<Element, kRowTiles, kColumnTiles, Epilogue>::run(a, b, shape, strides,
//                                                                   Epilogue{...});
//   }
// Element: bf16 or f16. kRowTiles: 1, 2 or 4 of 16 rows. kColumnTiles: 1, 2 or 4 of 8 columns; 1 is
// best unless n is tens of thousands. For more than 16 rows and many columns ContractSm90 is faster
// where there is one. k, lines and batch strides are multiples of 8.
// Launch: 256 threads, kSharedBytes of dynamic shared memory, grid {ceil(n / kTileColumns),
// batches}. A row's partials count tiles of kTileColumns.
//
// Traffic: B dominates; each element of it is read once, from memory straight into the registers
// that the tensor cores read. The order in which k is summed does not matter: a lane loads 16 bytes
// of each line and passes them as whichever part of k the instruction expects from it, for A's
// lines as for B's. A block's eight warps share k and add their sums in shared memory. A is small
// and comes from the L2.

template <typename Element, int kRowTiles, int kColumnTiles, class Epilogue>
struct ContractSkinny {
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTileRows = 16 * kRowTiles;
  static constexpr int kTileColumns = 8 * kColumnTiles;
  static constexpr int kSharedBytes = kWarps * kTileRows * kTileColumns * 4;
  static constexpr int kStep = 32;                       // of k, by one warp
  static constexpr int kAhead = kRowTiles == 4 ? 2 : 4;  // steps that are loaded together
  typedef typename Epilogue::Rows Rows;
  typedef typename Epilogue::Columns Columns;

  // 16 bytes of a line, or zeros.
  static __device__ __forceinline__ uint4 load(const Element* line, int k, bool inside) {
    uint4 bits = {};
    if (inside) bits = load_input(reinterpret_cast<const uint4*>(line + k));
    return bits;
  }

  static __device__ __forceinline__ void run(const Element* a, const Element* b,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) float sums[];  // [warp][row][column]
    const int batch = blockIdx.y, outer = batch / shape.inner, inner = batch % shape.inner;
    a += outer * strides.a_outer + inner * strides.a_inner;
    b += outer * strides.b_outer + inner * strides.b_inner;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int n = blockIdx.x * kTileColumns;
    float acc[kRowTiles][kColumnTiles][4] = {};
    for (int k0 = warp * kStep; k0 < shape.k; k0 += kAhead * kWarps * kStep) {
      uint4 fb[kAhead][kColumnTiles];
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        const int k = k0 + s * kWarps * kStep + lane % 4 * 8;
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
          const int line = n + j * 8 + lane / 4;
          fb[s][j] = load(b + line * strides.b_line, k, k < shape.k && line < shape.n);
        }
      }
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        const int k = k0 + s * kWarps * kStep + lane % 4 * 8;
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          const int line = i * 16 + lane / 4;
          const uint4 upper = load(a + line * strides.a_line, k, k < shape.k && line < shape.m);
          const uint4 lower =
              load(a + (line + 8) * strides.a_line, k, k < shape.k && line + 8 < shape.m);
          const u32 first[4] = {upper.x, lower.x, upper.y, lower.y};
          const u32 second[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
          for (int j = 0; j < kColumnTiles; ++j) {
            multiply(acc[i][j], first, fb[s][j].x, fb[s][j].y, Element{});
            multiply(acc[i][j], second, fb[s][j].z, fb[s][j].w, Element{});
          }
        }
      }
    }
    float* const own = sums + warp * kTileRows * kTileColumns;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = i * 16 + lane / 4 + e / 2 * 8, column = j * 8 + lane % 4 * 2 + e % 2;
          own[row * kTileColumns + column] = acc[i][j][e];
        }
      }
    }
    __syncthreads();
    finish(shape, batch, n, sums, epilogue);
  }

  // A thread stores eight columns of a row.
  static __device__ __forceinline__ void finish(const ContractShape& shape, int batch, int n,
                                                float* sums, const Epilogue& epilogue) {
    constexpr int kPieces = kTileRows * kColumnTiles;
#pragma unroll 1
    for (int piece = threadIdx.x; piece < (kPieces + 31) / 32 * 32; piece += kThreads) {
      const int row = piece / kColumnTiles, column = piece % kColumnTiles * 8;
      const int valid = piece < kPieces ? min(8, shape.n - n - column) : 0;
      const bool inside = row < shape.m && valid > 0;
      typename Rows::State reduced = Rows::none();
      if (inside) {
        float* const at = sums + row * kTileColumns + column;
        float v[8] = {};
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
#pragma unroll
          for (int i = 0; i < 8; ++i) v[i] += at[w * kTileRows * kTileColumns + i];
        }
        epilogue(batch, (i64)row, (i64)n + column, v, valid);
        if constexpr (Rows::kParts > 0) reduced = Rows::of_row(v, valid);
        if constexpr (Columns::kParts > 0) {
#pragma unroll
          for (int i = 0; i < 8; ++i) at[i] = v[i];
        }
      }
      if constexpr (Rows::kParts > 0) {
#pragma unroll
        for (int mask = kColumnTiles / 2; mask >= 1; mask /= 2) {
          reduced = merge_with_lane<Rows>(reduced, mask);
        }
        if (inside && column == 0) epilogue.row_done(batch, row, (int)blockIdx.x, reduced);
      }
    }
    if constexpr (Columns::kParts > 0) {
      __syncthreads();
      if (threadIdx.x < kTileColumns && n + threadIdx.x < shape.n) {
        typename Columns::State state = Columns::none();
        for (int row = 0; row < min(kTileRows, shape.m); ++row) {
          state = Columns::merge(state, Columns::of(sums[row * kTileColumns + threadIdx.x]));
        }
        epilogue.column_done(batch, 0, n + threadIdx.x, state);
      }
    }
  }
};
