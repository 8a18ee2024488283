// C[m][n] = sum over k of A B, batched, where what follows needs whole rows of C, for what
// contract_rows_sm90.cuh does not take: any type, any order of the operands' elements, any chip.
// Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh and tile_walk.cuh
// before it.
//
// Operands is that of contract_any.cuh, of floats; Epilogue that of contract_rows_sm90.cuh. Launch:
// kThreads threads, kTileRows floats of dynamic shared memory for each column of C (a multiple of 8
// of them), and a block for each kTileRows rows of each batch.
//
// Traffic: a block holds kTileRows whole rows of C on chip. It reads its rows of A again for every
// kTileN columns, and all of B: both come from the L2. Bound by the
// multiplications, which do not use tensor cores.

template <class Operands, class Epilogue>
struct ContractRowsAny {
  static constexpr int kTileRows = 32, kTileN = 256, kDepth = 16, kThreads = 256;
  // Dynamic shared memory for whole rows of so many columns.
  static __device__ constexpr u32 shared_bytes(int columns) {
    return kTileRows * ((columns + 7) / 8 * 8) * sizeof(float);
  }
  // Static shared memory, for the operands.
  static constexpr u32 kMostOperandBytes = 20 << 10;
  static_assert(kDepth * (kTileRows + 1 + kTileN + 4) * sizeof(float) <= kMostOperandBytes,
                "operands fit");
  typedef typename Epilogue::Rows Rows;
  typedef typename Rows::State State;

  static __device__ __forceinline__ void run(const ContractShape& shape, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) float held[];  // [kTileRows][columns]
    const int columns = (shape.n + 7) / 8 * 8;
    const int units = (shape.m + kTileRows - 1) / kTileRows;
    const int batch = blockIdx.x / units, m0 = blockIdx.x % units * kTileRows;
    for (int n0 = 0; n0 < shape.n; n0 += kTileN) {
      multiply_tile(shape, operands, batch, m0, n0, columns, held);
    }
    __syncthreads();
    // Eight threads share a row; each takes eight columns at a time.
    const int line = threadIdx.x / 8, m = m0 + line;
    float* const row = held + line * columns;
    State state = Rows::none();
    float v[8], taken[8];
    if (m < shape.m) {
      for (int n = threadIdx.x % 8 * 8; n < shape.n; n += 64) {
        load(row + n, v);
        const int valid = min(8, shape.n - n);
        epilogue.first(batch, (i64)m, (i64)n, v, taken, valid);
        state = Rows::merge(state, Rows::of_row(taken, valid));
        store(row + n, v);
      }
    }
#pragma unroll
    for (int apart = 1; apart < 8; apart *= 2) state = merge_with_lane<Rows>(state, apart);
    if (m >= shape.m) return;
    for (int n = threadIdx.x % 8 * 8; n < shape.n; n += 64) {
      load(row + n, v);
      epilogue.second(batch, (i64)m, (i64)n, v, min(8, shape.n - n), state);
    }
  }

  static __device__ __forceinline__ void load(const float* from, float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = from[i];
  }
  static __device__ __forceinline__ void store(float* to, const float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = v[i];
  }

  // A thread computes four rows of eight columns, four by four so that its loads use all banks. The
  // next operands are loaded while it multiplies.
  static __device__ __forceinline__ void multiply_tile(const ContractShape& shape,
                                                       const Operands& operands, int batch, int m0,
                                                       int n0, int columns, float* held) {
    __shared__ float a[kDepth][kTileRows + 1];
    __shared__ __align__(16) float b[kDepth][kTileN + 4];
    constexpr int kA = kTileRows * kDepth / kThreads, kB = kTileN * kDepth / kThreads;
    float next_a[kA], next_b[kB];
    const auto fetch = [&](int k0) {
      const int line = threadIdx.x / kDepth, k = k0 + threadIdx.x % kDepth;
#pragma unroll
      for (int i = 0; i < kA; ++i) {
        const int m = m0 + line + i * (kThreads / kDepth);
        next_a[i] = k < shape.k && m < shape.m ? operands.a(batch, m, k) : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kB; ++i) {
        const int n = n0 + line + i * (kThreads / kDepth);
        next_b[i] = k < shape.k && n < shape.n ? operands.b(batch, k, n) : 0.0f;
      }
    };
    const int row = threadIdx.x / 32 * 4, column = threadIdx.x % 32 * 4;
    float acc[4][2][4] = {};
    fetch(0);
    for (int k0 = 0; k0 < shape.k; k0 += kDepth) {
      const int line = threadIdx.x / kDepth, depth = threadIdx.x % kDepth;
#pragma unroll
      for (int i = 0; i < kA; ++i) a[depth][line + i * (kThreads / kDepth)] = next_a[i];
#pragma unroll
      for (int i = 0; i < kB; ++i) b[depth][line + i * (kThreads / kDepth)] = next_b[i];
      __syncthreads();
      fetch(k0 + kDepth);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const float4 y = *reinterpret_cast<const float4*>(&b[k][column + 128 * part]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float x = a[k][row + i];
            acc[i][part][0] += x * y.x;
            acc[i][part][1] += x * y.y;
            acc[i][part][2] += x * y.z;
            acc[i][part][3] += x * y.w;
          }
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int n = n0 + column + 128 * part + j;
          if (n < columns) held[(row + i) * columns + n] = acc[i][part][j];
        }
      }
    }
  }
};
