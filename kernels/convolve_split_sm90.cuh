// Few tiles of convolve_sm80 on sm_90a: the blocks of a cluster share the depth of each. Needs
// hopper.cuh and convolve_sm80.cuh before it.
//
// 196 pixels of 256 channels in 3 x 3 windows by 256 filters are four tiles of f32, which take 209
// us on four multiprocessors.

template <int kBlocks>
struct BlocksOfCluster {
  static constexpr int kCount = kBlocks;
  static_assert(kCount == 2 || kCount == 4 || kCount == 8, "each has as many of eight parts");
  static __device__ __forceinline__ int rank() { return (int)cluster_rank(); }
  static __device__ __forceinline__ void sync() { cluster_sync(); }
  static __device__ __forceinline__ float4 load(const float4* at, int block) {
    return load_of_block(at, (u32)block);
  }
};
