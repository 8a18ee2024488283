// Persistent clusters that keep step: none fetches the operands of its next tile before all have
// fetched those of their last one. What they share then comes from the DRAM once: left alone they
// drift apart, until the L2 holds no more what others still need. Eight experts of 8192 rows of
// 4096, 28672 columns each, read 2.6 GB so, else 3.9 to 5.8, of 1.95 that they touch.

// By one thread of each cluster; there are no registers for a state.
__device__ int tiles_fetched;  // in this launch; 0 behind it
__device__ int waits_in_vain;  // a cluster has waited in vain, so that none waits any more

struct Rounds {
  // Before a tile: `before` tiles are of the rounds before its own. A cluster looks so often, for
  // about 0.1 ms: another program may hold multiprocessors that some clusters need.
  static __device__ __forceinline__ void begin(int before) {
    volatile int* const fetched = &tiles_fetched;
    volatile int* const vain = &waits_in_vain;
    if (before == 0) *vain = 0;
#pragma unroll 1
    for (int look = 0; before > 0 && *fetched < before && *vain == 0; ++look) {
      __nanosleep(20);
      if (look == 128) *vain = 1;
    }
  }
  // Behind it; `tiles`: of the launch, the last of which sets the counter to 0.
  static __device__ __forceinline__ void end(int tiles) {
    atomicInc(reinterpret_cast<u32*>(&tiles_fetched), tiles - 1);
  }
};
