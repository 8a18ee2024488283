// Scans of rows. `In` has the elements of the input: at(i), in the type that they are computed in;
// and it takes the results, each once: take(i, result).

// A block scans a row that lies along memory, tile by tile; what came before is carried along.
template <typename Join, typename T, int kThreads, typename In>
__device__ __forceinline__ void scan_row(const In& in, u64 row, u64 length) {
  constexpr int kItems = 4;
  constexpr int kWarps = kThreads / 32;
  __shared__ T of_warp[kWarps];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  T carry = Join::template first<T>();
  for (u64 tile = 0; tile < length; tile += kThreads * kItems) {
    const u64 mine = tile + threadIdx.x * kItems;
    T upto[kItems];
    T sum = Join::template first<T>();
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      if (mine + j < length) sum = Join::of(sum, T(in.at(row + mine + j)));
      upto[j] = sum;
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const T other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum = Join::of(other, sum);
    }
    const T left = __shfl_up_sync(0xffffffffu, sum, 1);
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    T before = carry;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp) before = carry;
      carry = Join::of(carry, of_warp[w]);
    }
    if (lane > 0) before = Join::of(before, left);
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      if (mine + j < length) in.take(row + mine + j, Join::of(before, upto[j]));
    }
    __syncthreads();
  }
}

// A thread scans a row that runs across memory; its neighbours have the neighbouring rows.
template <typename Join, typename T, typename In>
__device__ __forceinline__ void scan_column(const In& in, u64 first, u64 length, u64 stride) {
  T sum = Join::template first<T>();
  for (u64 k = 0; k < length; ++k) {
    sum = Join::of(sum, T(in.at(first + k * stride)));
    in.take(first + k * stride, sum);
  }
}
