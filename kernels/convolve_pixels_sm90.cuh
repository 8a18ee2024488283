// Convolutions of single elements, 16 bits each, for sm_90a, as products in contract_sm90: A are
// the filters, B's columns the pixels of all images. Needs elements.cuh, quick.cuh,
// accumulators.cuh, epilogue.cuh, mma.cuh, tile_walk.cuh, hopper.cuh, stages.cuh, convolve.cuh and
// contract_sm90.cuh before it.
//
// An entry is that of contract_sm90, with MatrixB replaced by PixelsB<Geometry, kRows, kTogether>.
// The copy engine takes lines that begin at multiples of 16 bytes, which a channel of an odd number
// of pixels does not; kTogether channels of an image (1, 2, 4 or 8), one after the other, do. These
// are one line of B's map, and a box, which may begin at any element, has 64 neighbouring pixels of
// one channel of each of 64 / kTogether lines. So 64 channels come as kTogether boxes, and k
// follows their order: of channels c..c+63, with c a multiple of 64, channel c + i is number
// i % kTogether * (64 / kTogether) + i / kTogether. pack() of the entry `pack` puts the weights in
// that order.
//
// B's map is over {kTogether * pixels, channels / kTogether, images, 1}, with boxes of
// {64, 64 / kTogether, kImagesOfBox, 1}; A's is that of a product. Columns are counted in tiles:
// images of at most 64 pixels have a column group of 64 each; larger ones have as many whole tiles
// as cover their pixels. kTileN is a multiple of 8, and of 64 where images are that small.
//
// Traffic: the input goes from memory to shared memory once per tile of filters, and nothing is
// copied but the weights. A box fetches what is left of its 64 pixels from its neighbours, which
// are fetched anyway; those columns are never stored.

// What a stage has of B: pixels in groups of 64, each of kLines of a line's first channel, then of
// its second ones.
template <typename T, int kTileN, int kTogether>
struct PixelTile {
  typedef T Element;
  static constexpr bool kAcross = true;
  static constexpr int kDepth = 64;
  static constexpr int kGroups = (kTileN + 63) / 64;
  static constexpr int kLines = kDepth / kTogether;
  static constexpr u32 kBox = kLines * 128;
  static constexpr u32 kSlice = kGroups * kBox;  // one channel of each line
  static constexpr u32 kBytes = kTogether * kSlice;
  static constexpr u32 kEight = kLines > 8 ? 1024 : kSlice;  // to the next eight of k
  static constexpr int kSteps = 4;
  static __device__ __forceinline__ constexpr u32 step(int k) {
    return (u32)(16 * k / kLines * kSlice + 16 * k % kLines * 128) >> 4;
  }
};

template <class Geometry, int kRows, int kTogether>
struct PixelsB {
  static constexpr bool kWindows = true;
  static constexpr int kTileRows = kRows;
  static constexpr int kPixels = Geometry::kShape.pixels(), kImages = Geometry::kShape.images;
  static constexpr bool kSmall = kPixels <= 64;  // images
  template <typename Element, int kTileN, bool>
  using Tile = PixelTile<Element, kTileN, kTogether>;

  // Where a column of the product is.
  template <int kTileN>
  struct Place {
    static constexpr int kTiles = (kPixels + kTileN - 1) / kTileN;  // of an image
    int image, pixel;
    int end;  // of the image's pixels in this tile

    // `tile`: the first column of a tile; `group`: of 32 columns in it.
    __device__ __forceinline__ Place(int tile, int group) {
      if constexpr (kSmall) {
        image = tile / 64 + group / 2, pixel = group % 2 * 32, end = kPixels;
      } else {
        const int number = tile / kTileN, first = number % kTiles * kTileN;
        image = number / kTiles, pixel = first + group * 32, end = min(kPixels, first + kTileN);
      }
    }
  };

  template <int kTileN, int kCluster>
  struct Windows {
    typedef PixelTile<u8, kTileN, kTogether> B;
    // Boxes of small images have all of the tile's, if that leaves one for each block.
    static constexpr bool kAll = kSmall && kTogether > 1;
    Place<kTileN> at;
    u32 rank;
    int line = 0;

    __device__ __forceinline__ Windows(int column, u32 rank, int) : at(column, 0), rank(rank) {}
    __device__ __forceinline__ void next() { line += B::kLines; }
    __device__ __forceinline__ void fetch(u8* to, const TensorMap& map, u64* barrier) const {
#pragma unroll
      for (int slice = 0; slice < kTogether; ++slice) {
#pragma unroll
        for (int group = 0; group < (kAll ? 1 : B::kGroups); ++group) {
          if ((slice + group) % kCluster != rank) continue;
          copy_box_to_all<kCluster>(to + slice * B::kSlice + group * B::kBox, map, barrier,
                                    slice * kPixels + (kSmall ? 0 : at.pixel + group * 64), line,
                                    at.image + (kSmall ? group : 0), 0, kEvictNormal);
        }
      }
    }
  };

  template <int kColumns, class Epilogue>
  static __device__ __forceinline__ void run_epilogue(const Epilogue& epilogue, const Piece& piece,
                                                      const float (&acc)[kColumns / 2]) {
    static_assert(Epilogue::Rows::kParts == 0 && Epilogue::Columns::kParts == 0,
                  "nothing is reduced");
    // Of all tiles' columns, so many are real.
    constexpr int kReal = kSmall ? kPixels : kPixels - (Place<kColumns>::kTiles - 1) * kColumns;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int group = 0; group < (kColumns + 31) / 32; ++group) {
      const Place<kColumns> at(piece.column, group);
      const int last = (kSmall ? group % 2 : group) * 32 + 32;  // of the group's columns
      if (kSmall && last - 32 >= kPixels) continue;
      const int pixel = at.pixel + lane % 4 * 8;
      const bool here = (!kSmall || at.image < kImages) && pixel < at.end;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = piece.row + lane / 4 + 8 * half;
        float v[8];
        take_some<kColumns>(acc, group, half, v);
        if (kPixels % 8 == 0 || last <= kReal) {
          epilogue(at.image, (i64)min(row, piece.rows - 1), (i64)pixel, v,
                   EightOrNone{row < piece.rows && here});
        } else if (row < piece.rows && here) {
          epilogue(at.image, (i64)row, (i64)pixel, v, min(8, at.end - pixel));
        }
      }
    }
  }

  // take_eight, of a last group that may have fewer than 32 columns.
  template <int kColumns>
  static __device__ __forceinline__ void take_some(const float (&acc)[kColumns / 2], int group,
                                                   int half, float (&v)[8]) {
    float x[4][2];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = (group * 4 + i / 2) * 4 + half * 2 + i % 2;
      x[i / 2][i % 2] = at < kColumns / 2 ? acc[at] : 0.0f;
    }
    columns_of_quad(x, v);
  }

  // Where an epilogue has a Made: the pixels that a tile has of an image, of the warp's 16 filters,
  // follow each other in `buffer`, up to 128 at a time. Whole images are stored by the copy engine,
  // parts of one as runs of neighbours.
  static constexpr int kFlat = kSmall ? 64 : 128;  // columns
  template <int kColumns, class Epilogue>
  static __device__ __forceinline__ void store_flat(const Epilogue& epilogue, const Piece& piece,
                                                    const float (&acc)[kColumns / 2],
                                                    typename Epilogue::Made* buffer) {
    typedef typename Epilogue::Made Made;
    if (piece.row >= piece.rows) return;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < (kColumns + kFlat - 1) / kFlat; ++part) {
      const Place<kColumns> first(piece.column, part * (kFlat / 32));
      if (first.image >= kImages) break;
      const int length = kSmall ? kPixels : min(kFlat, first.end - first.pixel);
      if (length <= 0) break;
      if (lane == 0) stores_wait_read<0>();
      __syncwarp();
#pragma unroll
      for (int group = 0; group < kFlat / 32; ++group) {
        if (part * kFlat + group * 32 >= kColumns) continue;
        const int column = group * 32 + lane % 4 * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = lane / 4 + 8 * half;
          float v[8];
          take_some<kColumns>(acc, part * (kFlat / 32) + group, half, v);
          Pack<Made, 8> pack;
          epilogue(first.image, (i64)piece.row + row, (i64)first.pixel + column, v, Eight{}, pack);
          Made* const to = buffer + row * length + column;
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            if (column + i < length) to[i] = pack.v[i];
          }
        }
      }
      stores_fence();
      __syncwarp();
      const i64 row = (i64)first.image * piece.rows + piece.row;
      Made* const to = epilogue.result() + row * kPixels + first.pixel;
      if (length == kPixels) {
        if (lane == 0) store_bulk(to, buffer, 16 * kPixels * (int)sizeof(Made));
      } else {
        for (int i = lane; i < length; i += 32) {
          Made run[16];
#pragma unroll
          for (int line = 0; line < 16; ++line) run[line] = buffer[line * length + i];
#pragma unroll
          for (int line = 0; line < 16; ++line) to[line * kPixels + i] = run[line];
        }
      }
      if (lane == 0) stores_commit();
    }
  }

  // In blocks of kThreads threads, each thread a weight: of `filters` lines of `filled` each.
  template <class Weights, typename Element>
  static __device__ __forceinline__ void pack(const Weights& weights, Element* to) {
    constexpr int kChannels = Geometry::kShape.channels, kFilled = (kChannels + 63) / 64 * 64;
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= Geometry::kShape.filters * kFilled) return;
    const int filter = at / kFilled, place = at % 64, box = at % kFilled - place;
    constexpr int kLines = 64 / kTogether;
    const int channel = box + place % kLines * kTogether + place / kLines;
    store_as(to[at],
             channel < kChannels ? weights.weight((i64)filter * kChannels + channel) : 0.0f);
  }
};
