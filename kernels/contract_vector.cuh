// c[m] = sum over k of A b, batched: a matrix times a vector, or one vector times another. With an
// epilogue (epilogue.cuh) that reduces nothing. Needs elements.cuh, quick.cuh, accumulators.cuh,
// columns.cuh, epilogue.cuh and tile_walk.cuh before it.
//
// kAlign: every line of A, and b, begins at a multiple of that many elements (8, 4, 2 or 1), and of
// as many bytes in memory. kLanes: threads that share a row: 8 or 32 if there are enough rows, else
// kThreads. kSplit: blocks that share a row, for few and long ones; more than 1 requires kLanes to
// be kThreads, and `work`: kRowWorkspaceBytes for each row, all zero before the first launch.
// Launch: kThreads threads; ceil(rows / kTileRows) * kSplit blocks, rows those of all batches.
//
// Traffic: A once; b stays in the L2. All threads have several loads of 16 bytes in flight.

template <typename Element, int kAlign, int kLanes, int kSplit, class Epilogue>
struct ContractVector {
  static constexpr int kThreads = kLanes > 32 ? 512 : 256;
  static constexpr int kTileRows = kThreads / kLanes;  // of a block
  static constexpr int kTileColumns = 1;
  static constexpr u32 kSharedBytes = 0;  // none of it dynamic
  // The parts of a row's sum, and how many blocks have left theirs.
  static constexpr u32 kRowWorkspaceBytes = kSplit * sizeof(float) + sizeof(u32);
  static constexpr int kMost = 16 / sizeof(Element);
  static constexpr int kPack = kAlign < kMost ? kAlign : kMost;
  static_assert(kLanes == kThreads || (kLanes <= 32 && kSplit == 1), "only blocks share a row");

  // This thread's part of packs [begin, end), and of the `rest` elements behind them.
  static __device__ __forceinline__ float sum(const Element* a, const Element* b, int begin,
                                              int end, int rest) {
    const int lane = threadIdx.x % kLanes;
    float sums[kPack] = {};
#pragma unroll 4
    for (int i = begin + lane; i < end; i += kLanes) {
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
    for (int i = end * kPack + lane; i < end * kPack + rest; i += kLanes) {
      sum = fmaf((float)to_compute(a[i]), (float)to_compute(b[i]), sum);
    }
    return sum;
  }

  // The sum over a group of lanes; the first has it.
  static __device__ __forceinline__ float sum_over_lanes(float sum) {
    constexpr int kOfWarp = kLanes < 32 ? kLanes : 32;
#pragma unroll
    for (int mask = kOfWarp / 2; mask >= 1; mask /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    }
    if constexpr (kLanes == kThreads) {
      __shared__ float parts[kThreads / 32];
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
      __syncthreads();
      sum = 0;
#pragma unroll
      for (int w = 0; w < kThreads / 32; ++w) sum += parts[w];
    }
    return sum;
  }

  // Whether this block is the last of its row to finish; if so its first warp has the sum of all
  // parts, added in a fixed order.
  static __device__ __forceinline__ bool sum_over_blocks(float& sum, i64 row, i64 rows, int part,
                                                         u8* work) {
    float* const parts = reinterpret_cast<float*>(work) + row * kSplit;
    u32* const arrived = reinterpret_cast<u32*>(work) + rows * kSplit + row;
    __shared__ bool last;
    if (threadIdx.x == 0) {
      parts[part] = sum;
      last = arrive_at(arrived, 1) == kSplit - 1;
      if (last) *arrived = 0;  // for the next launch
    }
    __syncthreads();
    if (!last || threadIdx.x >= 32) return false;
    sum = 0;
    for (int i = threadIdx.x; i < kSplit; i += 32) sum += __ldcg(parts + i);
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    return true;
  }

  static __device__ __forceinline__ void run(const Element* a, const Element* b,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue, u8* work = nullptr) {
    const int batches = shape.inner * shape.outer;
    const i64 rows = (i64)shape.m * batches;
    const i64 found = (i64)(blockIdx.x / kSplit) * kTileRows + threadIdx.x / kLanes;
    const i64 row = found < rows ? found : 0;  // shuffles need whole warps
    const int part = blockIdx.x % kSplit;
    const int batch = batches == 1 ? 0 : (int)(row / shape.m);
    const int m = (int)(row - (i64)batch * shape.m);
    const int outer = batch / shape.inner, inner = batch % shape.inner;
    a += outer * strides.a_outer + inner * strides.a_inner + m * strides.a_line;
    b += outer * strides.b_outer + inner * strides.b_inner;
    const i64 packs = shape.k / kPack;
    float v[8] = {};
    v[0] =
        sum_over_lanes(sum(a, b, (int)(packs * part / kSplit), (int)(packs * (part + 1) / kSplit),
                           part == kSplit - 1 ? shape.k % kPack : 0));
    if constexpr (kSplit > 1) {
      if (!sum_over_blocks(v[0], row, rows, part, work)) return;
    }
    if (found < rows && threadIdx.x % kLanes == 0) epilogue(batch, (i64)m, (i64)0, v, 1);
  }
};
