// Puts an input whose channels lie last in the order of convolve_planes: planes that follow each
// other. Needs elements.cuh before it.
//
// Traffic: each element is read once and written once, a tile of 64 pixels and 64 channels by a
// block.

// Distances in elements.
struct ChannelsLast {
  int channels, pixels, width;
  i64 image, line, pixel;
};

template <typename Element>
struct TurnPlanes {
  static constexpr int kThreads = 256, kTile = 64, kEach = kTile * kTile / kThreads;

  // A block's share; there are blocks for all tiles of each image.
  static __device__ __forceinline__ void copy(u32 block, const Element* from, Element* to,
                                              const ChannelsLast& s) {
    __shared__ Element tile[kTile][kTile + 2];  // without bank conflicts
    const int across = (s.channels + kTile - 1) / kTile, down = (s.pixels + kTile - 1) / kTile;
    const i64 image = block / (across * down);
    const int channel = block % across * kTile, pixel = block / across % down * kTile;
    const int lane = threadIdx.x % kTile, line = threadIdx.x / kTile;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int own = line + i * (kThreads / kTile), p = pixel + own, c = channel + lane;
      if (p < s.pixels && c < s.channels) {
        tile[own][lane] =
            load_input(from + image * s.image + p / s.width * s.line + p % s.width * s.pixel + c);
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int own = line + i * (kThreads / kTile), p = pixel + lane, c = channel + own;
      if (p < s.pixels && c < s.channels) {
        to[(image * s.channels + c) * s.pixels + p] = tile[lane][own];
      }
    }
  }
};
