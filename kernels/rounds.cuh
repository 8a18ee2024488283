// Persistent clusters that keep step: none fetches the operands of its next tile before all have
// fetched those of their last one. What they share then comes from the DRAM once: left alone they
// drift apart, until the L2 holds no more what others still need. Eight experts of 8192 rows of
// 4096, 28672 columns each, read 2.6 GB so, else 3.9 to 5.8, of 1.95 that they touch.

// How many tiles were fetched in this launch; the last one sets it to 0 for the next launch.
__device__ u32 tiles_fetched;

struct Rounds {
  u32 clusters;
  u32 total;    // tiles of all clusters' rounds, those that do not exist, too
  u32 due = 0;  // tiles that are fetched once all are where this cluster is
  bool keeps;

  // By one thread of each cluster, which calls begin() and end() for each of its tiles.
  __device__ __forceinline__ Rounds(int tiles, int all_clusters)
      : clusters(all_clusters), keeps(tiles > all_clusters) {
    total = (tiles + clusters - 1) / clusters * clusters;
  }
  // It looks so often, about 0.1 ms. Whoever has waited in vain does not wait again: another
  // program may hold multiprocessors that some clusters need.
  __device__ __forceinline__ void begin() {
    if (!keeps) return;
    int looks = 128;
    while (looks > 0 && *(volatile u32*)&tiles_fetched < due) __nanosleep(20), --looks;
    keeps = looks > 0;
    due += clusters;
  }
  __device__ __forceinline__ void end() { atomicInc(&tiles_fetched, total - 1); }
  // Behind the last tile, for one that others have and this cluster has not.
  __device__ __forceinline__ void leave(int tile) {
    if (tile < (int)total) end();
  }
};
