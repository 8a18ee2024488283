// c[m] = sum over k of A b, batched: a matrix times a vector, or one vector times another. With an
// epilogue (epilogue.cuh) that folds nothing. Needs elements.cuh, epilogue.cuh and tile_walk.cuh
// before it.
//
// kAlign: every line of A, and b, begins at a multiple of that many elements (8, 4, 2 or 1), and of
// as many bytes in memory. Launch: kThreads threads, a block for each row of each matrix.
//
// Traffic: A once; b stays in the L2. All threads have several loads of 16 bytes in flight.

template <typename Element, int kAlign, class Epilogue>
struct ContractVector {
  static constexpr int kThreads = 512;
  static constexpr int kMost = 16 / sizeof(Element);
  static constexpr int kPack = kAlign < kMost ? kAlign : kMost;

  static __device__ __forceinline__ float sum_of(const Element* a, const Element* b, int k) {
    float sums[kPack] = {};
    const int packs = k / kPack;
#pragma unroll 4
    for (int i = threadIdx.x; i < packs; i += kThreads) {
      const auto x = load_input(reinterpret_cast<const Pack<Element, kPack>*>(a) + i);
      const auto y = load_input(reinterpret_cast<const Pack<Element, kPack>*>(b) + i);
#pragma unroll
      for (int j = 0; j < kPack; ++j) {
        sums[j] = fmaf((float)to_compute(x.v[j]), (float)to_compute(y.v[j]), sums[j]);
      }
    }
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += sums[j];
    for (int i = packs * kPack + threadIdx.x; i < k; i += kThreads) {
      sum = fmaf((float)to_compute(a[i]), (float)to_compute(b[i]), sum);
    }
    return sum;
  }

  static __device__ __forceinline__ void run(const Element* a, const Element* b,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    __shared__ float parts[kThreads / 32];
    const int row = blockIdx.x % shape.m, batch = blockIdx.x / shape.m;
    const int outer = batch / shape.inner, inner = batch % shape.inner;
    a += outer * strides.a_outer + inner * strides.a_inner + row * strides.a_line;
    b += outer * strides.b_outer + inner * strides.b_inner;
    float sum = sum_of(a, b, shape.k);
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      float v[8] = {};
#pragma unroll
      for (int w = 0; w < kThreads / 32; ++w) v[0] += parts[w];
      epilogue(batch, (i64)row, (i64)0, v, 1);
    }
  }
};
