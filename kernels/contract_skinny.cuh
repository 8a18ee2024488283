// C[m][n] = sum over k of A B for at most 64 rows, B lying as [n][k] (a linear layer at decoding, a
// matrix-vector product) or computed as it is read, with an epilogue (epilogue.cuh) in place of a
// plain store; sm_80 and later. Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh,
// epilogue.cuh, tile_walk.cuh and mma.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(256)
//       name(const Element* a, const Element* b, ...) {
//     ContractSkinny<Element, kRowTiles, kColumnTiles, StoredWeights<Element>, Epilogue>::run(
//         a, StoredWeights<Element>{b, strides}, shape, strides, Epilogue{...});
//   }
// Element: bf16 or f16. kRowTiles: 1, 2 or 4 of 16 rows. kColumnTiles: 1, 2 or 4 of 8 columns; 1 is
// best for stored weights unless n is tens of thousands. For more than 16 rows and many columns
// ContractSm90 is faster where there is one. k, lines and batch strides are multiples of 8. In
// place of StoredWeights the generator may write a struct that computes them, a prologue:
//   static constexpr int kWide;  // 8, 16 or 32, of which k is a multiple
//   __device__ void operator()(int outer, int inner, int line, int k, bool inside,
//                              u32 (&words)[kWide / 2]) const;
//       elements k..k+kWide-1 of a line, two to a word. Where it is not inside, they may be
//       anything finite that the line has, or 0.
// Launch: 256 threads, kSharedBytes of dynamic shared memory, grid {ceil(n / kTileColumns),
// batches}. A row's partials count tiles of kTileColumns.
//
// Traffic: B dominates; each element of it is read once, from memory straight into the registers
// that the tensor cores read. The order in which k is summed does not matter: a lane takes kWide
// elements of each line, 16 bytes as they are stored, and passes them as whichever part of k the
// instruction expects from it, for A's lines as for B's. A block's eight warps share k and add
// their sums in shared memory. A is small and comes from the L2.

template <typename Element>
struct StoredWeights {
  static constexpr int kWide = 8;
  const Element* from;
  ContractStrides strides;

  __device__ __forceinline__ void operator()(int outer, int inner, int line, int k, bool inside,
                                             u32 (&words)[4]) const {
    const Element* const at =
        from + outer * strides.b_outer + inner * strides.b_inner + line * strides.b_line + k;
    const uint4 bits = load_words(reinterpret_cast<const uint4*>(at), inside);
    words[0] = bits.x, words[1] = bits.y, words[2] = bits.z, words[3] = bits.w;
  }
};

template <typename Element, int kRowTiles, int kColumnTiles, class Weights, class Epilogue>
struct ContractSkinny {
  static constexpr int kWarps = 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTileRows = 16 * kRowTiles;
  static constexpr int kTileColumns = 8 * kColumnTiles;
  static constexpr int kSharedBytes = kWarps * kTileRows * kTileColumns * 4;
  static constexpr int kWide = Weights::kWide;
  static constexpr int kStep = 4 * kWide;                            // of k, by one warp
  static constexpr int kAhead = (kRowTiles == 4 ? 16 : 32) / kWide;  // steps loaded together
  typedef typename Epilogue::Rows Rows;
  typedef typename Epilogue::Columns Columns;

  static __device__ __forceinline__ void run(const Element* a, const Weights& weights,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) float sums[];  // [warp][row][column]
    const int batch = blockIdx.y, outer = batch / shape.inner, inner = batch % shape.inner;
    a += outer * strides.a_outer + inner * strides.a_inner;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int n = blockIdx.x * kTileColumns;
    float acc[kRowTiles][kColumnTiles][4] = {};
    for (int k0 = warp * kStep; k0 < shape.k; k0 += kAhead * kWarps * kStep) {
      u32 fb[kAhead][kColumnTiles][kWide / 2];
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        const int k = k0 + s * kWarps * kStep + lane % 4 * kWide;
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
          const int line = n + j * 8 + lane / 4;
          weights(outer, inner, line, k, k < shape.k && line < shape.n, fb[s][j]);
        }
      }
#pragma unroll
      for (int s = 0; s < kAhead; ++s) {
        const int k = k0 + s * kWarps * kStep + lane % 4 * kWide;
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          // Rows beyond the last are computed from it, and never stored.
          const int line = i * 16 + lane / 4;
          const Element* const above = a + min(line, shape.m - 1) * strides.a_line + k;
          const Element* const below = a + min(line + 8, shape.m - 1) * strides.a_line + k;
#pragma unroll
          for (int c = 0; c < kWide / 8; ++c) {
            const uint4 upper =
                load_words(reinterpret_cast<const uint4*>(above + c * 8), k < shape.k);
            uint4 lower = upper;
            if (i * 16 + 8 < shape.m) {
              lower = load_words(reinterpret_cast<const uint4*>(below + c * 8), k < shape.k);
            }
            const u32 first[4] = {upper.x, lower.x, upper.y, lower.y};
            const u32 second[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
            for (int j = 0; j < kColumnTiles; ++j) {
              const u32(&b)[kWide / 2] = fb[s][j];
              multiply(acc[i][j], first, b[4 * c], b[4 * c + 1], Element{});
              multiply(acc[i][j], second, b[4 * c + 2], b[4 * c + 3], Element{});
            }
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
    finish<kWarps, kThreads>(shape, batch, n, sums, epilogue);
  }

  // A thread of so many stores eight columns of a row, each the sum of so many parts.
  template <int kParts, int kOfThreads>
  static __device__ __forceinline__ void finish(const ContractShape& shape, int batch, int n,
                                                float* sums, const Epilogue& epilogue) {
    constexpr int kPieces = kTileRows * kColumnTiles;
#pragma unroll 1
    for (int piece = threadIdx.x; piece < (kPieces + 31) / 32 * 32; piece += kOfThreads) {
      const int row = piece / kColumnTiles, column = piece % kColumnTiles * 8;
      const int valid = piece < kPieces ? min(8, shape.n - n - column) : 0;
      const bool inside = row < shape.m && valid > 0;
      typename Rows::State reduced = Rows::none();
      if (inside) {
        float* const at = sums + row * kTileColumns + column;
        float v[8] = {};
#pragma unroll
        for (int w = 0; w < kParts; ++w) {
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
        if (inside && column == 0) epilogue.row_done(batch, row, n / kTileColumns, reduced);
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
