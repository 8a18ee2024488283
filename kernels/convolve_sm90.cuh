// Convolutions of elements of 16 and 32 bits for sm_90a, as products in contract_sm90: A are the
// filters, B's columns the windows of the pixels of all images, one after the other; or, with
// WindowsA, the other way round. Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh,
// epilogue.cuh, mma.cuh, tile_walk.cuh, hopper.cuh, stages.cuh, convolve.cuh and contract_sm90.cuh
// before it.
//
// An entry is that of contract_sm90, with MatrixB replaced by WindowsB<Geometry, kRows, kTapsFirst,
// kLast>; kRows: 128, or 64 with tiles of 256 columns. kLast: the epilogue is one of a matrix whose
// rows are pixels of all images, and whose columns are the filters, a multiple of 8 in each group.
// Geometry: kShape, over the last two axes; the first has extent 1. k counts boxes of 128 bytes
// of channels, in each of them the taps, in each tap its channels: kPackedLine elements, with zeros
// where channels are missing. With kTapsFirst it counts taps, and in each of them channels: whole
// boxes, or zeros behind them where there is one tap. A's map is that of a product, B's that of
// windows (TensorMap in backend/backend.hpp) over {channel, w, h, image}, with kTileN / kCluster
// pixels in a box. An epilogue may have a Made (epilogue.cuh), and a Beside, where there are at
// least eight pixels and a multiple of 16 filters, and kRows is 128: its operator is called with
// the first image, may be given eight pixels of two, and so reads only what is the same for all
// pixels and images.
//
// Traffic: the copy engine gathers windows from the L2, so that no product of matrices is stored,
// and shared memory has no more than the tile. It needs neighbouring channels next to each other:
// where an input lies otherwise, channels_last() of the entry `pack` has copied it before, at the
// speed of memory. An element comes from the L2 once per tap and tile of filters.

// A box's windows: of neighbouring pixels of all images, from one tap or box of channels to the
// next.
template <class Geometry, bool kTapsFirst, typename Element>
struct WindowsOf {
  static constexpr int kBoxChannels = 128 / (int)sizeof(Element);
  static constexpr int kPixels = Geometry::kShape.pixels();

  int channel, w, h, image;  // where the window of a box's first pixel begins
  int row = 0, column = 0;   // of the tap

  __device__ __forceinline__ WindowsOf(int number, int group) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    const int pixel = number % kPixels;
    image = number / kPixels;
    h = pixel / shape.out[2] * shape.stride[1] - shape.padding[1];
    w = pixel % shape.out[2] * shape.stride[2] - shape.padding[2];
    channel = group * shape.channels;
  }
  __device__ __forceinline__ void next() {
    constexpr ConvolutionShape shape = Geometry::kShape;
    if constexpr (kTapsFirst && shape.all_taps() > 1) {
      if ((channel += kBoxChannels) % shape.channels != 0) return;
      channel -= shape.channels;
    }
    if (++column < shape.taps[2]) return;
    column = 0;
    if (++row < shape.taps[1]) return;
    row = 0;
    channel += kBoxChannels;
  }
  // To every kStride-th of a cluster's blocks, kBlocks of them from `first` on.
  template <int kBlocks, int kStride = 1>
  __device__ __forceinline__ void fetch(u8* to, const TensorMap& map, u64* barrier,
                                        u32 first = 0) const {
    constexpr ConvolutionShape shape = Geometry::kShape;
    copy_windows_to_all<kBlocks, kStride>(to, map, barrier, channel, w, h, image,
                                          column * shape.dilation[2], row * shape.dilation[1],
                                          kEvictNormal, first);
  }
};

// Where results leave with their channels last: A's rows are the windows, and B's columns the
// filters, of all groups one after the other, in the order of lanes (kInOrder), so that a lane's
// sums are neighbours as they are and tiles are as wide as the filters are many; blocks above each
// other share the filters, each of which they need for every tap. The map of windows has 128 /
// kSideBySide pixels in a box, and comes first. Few filters that need few bytes of each window are
// better off in WindowsB's tiles of 64 rows by 256 pixels.
template <class Geometry, bool kTapsFirst, int kRows = 128>
struct WindowsA {
  static constexpr bool kWindows = false, kWindowsOfA = true, kCopies = false;
  static constexpr int kTileRows = kRows;
  template <typename Element, int kTileN, bool kAcross>
  using Tile = OperandTile<Element, kTileN, kAcross>;
  template <typename Element>
  using Windows = WindowsOf<Geometry, kTapsFirst, Element>;
};

template <class Geometry, int kRows, bool kTapsFirst, bool kLast>
struct WindowsB {
  static constexpr bool kWindows = true, kWindowsOfA = false, kCopies = false;
  static constexpr int kTileRows = kRows;
  static constexpr int kPixels = Geometry::kShape.pixels();
  static constexpr int kImages = Geometry::kShape.images, kGroups = Geometry::kShape.groups;

  template <typename Element, int kTileN, bool kAcross>
  using Tile = OperandTile<Element, kTileN, kAcross>;

  template <typename Element>
  using Windows = WindowsOf<Geometry, kTapsFirst, Element>;

  // The epilogue of a piece of the product, whose batches are groups: of the matrix of each image.
  template <int kColumns, class Epilogue>
  static __device__ __forceinline__ void run_epilogue(const Epilogue& epilogue, const Piece& piece,
                                                      const float (&acc)[kColumns / 2]) {
    static_assert(Epilogue::Rows::kParts == 0 && Epilogue::Columns::kParts == 0,
                  "nothing is reduced");
    if constexpr (kLast) return run_last<kColumns>(epilogue, piece, acc);
    if (kPixels % 8 == 0 && piece.row + 16 <= piece.rows &&
        piece.column + kColumns <= piece.columns) {
      run_groups<kColumns, true>(epilogue, piece, acc);
    } else {
      run_groups<kColumns, false>(epilogue, piece, acc);
    }
  }

  // A lane has eight filters of two pixels, so that a warp's stores are whole sectors.
  template <int kColumns, class Epilogue>
  static __device__ __forceinline__ void run_last(const Epilogue& epilogue, const Piece& piece,
                                                  const float (&acc)[kColumns / 2]) {
    const int lane = threadIdx.x % 32, row = piece.row + lane / 16 * 8;
#pragma unroll
    for (int group = 0; group < kColumns / 32; ++group) {
      if (piece.column + group * 32 >= piece.columns) break;
      // Beside the sums, registers do not hold what all groups read.
      if (group > 0 && group % 2 == 0) __syncwarp();
      float x[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        x[i] = acc[(group * 4 + i % 8 / 2) * 4 + i / 8 * 2 + i % 2];
      }
      rows_of_lanes(x);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int pixel = piece.column + group * 32 + lane / 4 % 4 * 8 + lane % 4 * 2 + e;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = x[2 * i + e];
        const bool inside = pixel < piece.columns && row < piece.rows;
        epilogue(0, (i64)min(pixel, piece.columns - 1),
                 (i64)piece.batch * piece.rows + min(row, piece.rows - 8), v, AllOrNone{inside});
      }
    }
  }

  // Where an epilogue has a Made: the pixels that a tile has of an image, of the warp's 16 filters,
  // follow each other in `buffer`, 128 of the piece's columns at a time. Whole images are stored by
  // the copy engine, parts of one as runs of neighbours.
  static constexpr int kFlat = 128;  // columns
  template <int kColumns, class Epilogue>
  static __device__ __forceinline__ void store_flat(const Epilogue& epilogue, const Piece& piece,
                                                    const float (&acc)[kColumns / 2],
                                                    typename Epilogue::Made* buffer) {
    typedef typename Epilogue::Made Made;
    static_assert(kPixels >= 8, "eight neighbours are of two images at most");
    if (piece.row >= piece.rows) return;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < kColumns / kFlat; ++part) {
      const int number = piece.column + part * kFlat;
      if (number >= piece.columns) break;
      const int image0 = number / kPixels, pixel0 = number % kPixels;
      const int last = min((pixel0 + kFlat - 1) / kPixels, kImages - 1 - image0);
      const auto place_of = [&](int segment) {
        const i64 row = (i64)((image0 + segment) * kGroups + piece.batch) * piece.rows + piece.row;
        return row * kPixels;
      };
      if (lane == 0) stores_wait_read<0>();
      __syncwarp();
      if constexpr (BesideIn<Epilogue>::kHere) {
        bring_flat(epilogue.operand(), pixel0, last, place_of, buffer);
      }
#pragma unroll
      for (int group = 0; group < kFlat / 32; ++group) {
        const int column = group * 32 + lane % 4 * 8;
        const int segment = (pixel0 + column) / kPixels;
        const int pixel = (pixel0 + column) % kPixels;
        const int begin = begin_of(pixel0, segment), end = begin_of(pixel0, segment + 1);
        const int length = end - begin, next_length = begin_of(pixel0, segment + 2) - end;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int line = lane / 4 + 8 * half;
          float v[8];
          take_eight<false>(acc, part * (kFlat / 32) + group, half, v);
          Pack<Made, 8> pack;
          Made* const to = buffer + 15 * begin + line * length + column;
          Made* const next = buffer + 15 * end + line * next_length + column;
          if constexpr (BesideIn<Epilogue>::kHere) {
            typedef typename BesideIn<Epilogue>::Type Beside;
            Pack<Beside, 8> beside;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
              beside.v[i] = reinterpret_cast<const Beside*>(i < kPixels - pixel ? to : next)[i];
            }
            epilogue(piece.batch, (i64)piece.row + line, (i64)pixel, v, Eight{}, pack, beside);
          } else {
            epilogue(piece.batch, (i64)piece.row + line, (i64)pixel, v, Eight{}, pack);
          }
#pragma unroll
          for (int i = 0; i < 8; ++i) (i < kPixels - pixel ? to : next)[i] = pack.v[i];
        }
      }
      stores_fence();
      __syncwarp();
      for (int segment = 0; segment <= last; ++segment) {
        const int begin = begin_of(pixel0, segment), length = begin_of(pixel0, segment + 1) - begin;
        Made* const to = epilogue.result() + place_of(segment);
        const Made* const from = buffer + 16 * begin;
        if (length == kPixels) {
          if (lane == 0) store_bulk(to, from, 16 * kPixels * (int)sizeof(Made));
          continue;
        }
        const int pixel = segment == 0 ? pixel0 : 0;
        for (int i = lane; i < length; i += 32) {
          Made run[16];
#pragma unroll
          for (int line = 0; line < 16; ++line) run[line] = from[line * length + i];
#pragma unroll
          for (int line = 0; line < 16; ++line) to[line * kPixels + pixel + i] = run[line];
        }
      }
      if (lane == 0) stores_commit();
    }
  }
  // What lies as the result, to where that will be in `buffer`.
  template <typename Beside, class PlaceOf, typename Made>
  static __device__ __forceinline__ void bring_flat(const Beside* operand, int pixel0, int last,
                                                    const PlaceOf& place_of, Made* buffer) {
    static_assert(sizeof(Beside) == sizeof(Made), "at the same places");
    const int lane = threadIdx.x % 32;
    for (int segment = 0; segment <= last; ++segment) {
      const int begin = begin_of(pixel0, segment), length = begin_of(pixel0, segment + 1) - begin;
      const Beside* const from = operand + place_of(segment);
      Beside* const to = reinterpret_cast<Beside*>(buffer) + 16 * begin;
      if (length == kPixels) {
#pragma unroll 4
        for (int i = lane * 8; i < 16 * kPixels; i += 32 * 8) {
          store_pack(to + i, load_pack<8>(from + i));
        }
        continue;
      }
      const int pixel = segment == 0 ? pixel0 : 0;
      for (int i = lane; i < length; i += 32) {
        Beside run[16];
#pragma unroll
        for (int line = 0; line < 16; ++line) run[line] = from[line * kPixels + pixel + i];
#pragma unroll
        for (int line = 0; line < 16; ++line) to[line * length + i] = run[line];
      }
    }
    __syncwarp();
  }
  // The first of the columns that an image has.
  static __device__ __forceinline__ int begin_of(int pixel0, int segment) {
    return min(max(segment * kPixels - pixel0, 0), kFlat);
  }

  template <int kColumns, bool kWhole, class Epilogue>
  static __device__ __forceinline__ void run_groups(const Epilogue& epilogue, const Piece& piece,
                                                    const float (&acc)[kColumns / 2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int group = 0; group < kColumns / 32; ++group) {
      if (!kWhole && piece.column + group * 32 >= piece.columns) break;
      const int number = piece.column + group * 32 + lane % 4 * 8;
      const int image = number / kPixels, pixel = number % kPixels;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = piece.row + lane / 4 + 8 * half;
        float x[4][2], v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          x[i / 2][i % 2] = acc[(group * 4 + i / 2) * 4 + half * 2 + i % 2];
        }
        columns_of_quad(x, v);
        if constexpr (kWhole) {
          epilogue(image * kGroups + piece.batch, (i64)row, (i64)pixel, v, Eight{});
        } else if (row < piece.rows) {
          run_pixels(epilogue, piece.batch, image, row, pixel, v);
        }
      }
    }
  }

  // Eight neighbouring pixels, perhaps of several images.
  template <class Epilogue>
  static __device__ __forceinline__ void run_pixels(const Epilogue& epilogue, int group, int image,
                                                    i64 row, int pixel, float (&v)[8]) {
    if (image < kImages && pixel + 8 <= kPixels) {
      epilogue(image * kGroups + group, row, (i64)pixel, v, Eight{});
      return;
    }
    if constexpr (kPixels % 8 == 0) return;
    for (int left = 8; left > 0 && image < kImages; ++image, pixel = 0) {
      const int count = min(left, kPixels - pixel);
      float own[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) own[i] = v[i];
      epilogue(image * kGroups + group, row, (i64)pixel, own, count);
      left -= count;
#pragma unroll
      for (int distance = 4; distance > 0; distance /= 2) {
#pragma unroll
        for (int i = 0; i + distance < 8; ++i) v[i] = count & distance ? v[i + distance] : v[i];
      }
    }
  }
};

// What the entry `pack` does, in kThreads threads a block: kWeightBlocks blocks put the weights in
// the order of k (kTogether groups are one of Geometry's, with zeros between them), kInputBlocks
// put the channels of the input last, in lines of kLine elements for a pixel. Of the input, whose
// pixels follow each other, all lines of pixels begin at multiples of kAlign elements, and have a
// multiple of so many. kFlat: images of few pixels, whose lines follow each other, and which begin
// at multiples of 8 elements and have a multiple of so many.
template <class Geometry, typename Element, int kTogether, int kAlign, bool kFlat>
struct ConvolvePack {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr ConvolutionStrides kStrides = Geometry::kStrides;
  static constexpr int kThreads = 256;
  static constexpr int kTaps = kShape.all_taps();
  static constexpr int kFilters = kShape.groups * kShape.filters;
  static constexpr int kBox = 128 / (int)sizeof(Element);  // channels of a step of k
  static constexpr int kChunk = 16 / (int)sizeof(Element);
  static constexpr int kFilled = (kShape.channels + kBox - 1) / kBox * kBox;  // of a filter
  static constexpr int kPackedLine = kFilled * kTaps;
  static constexpr int kChannels = kShape.groups * kShape.channels;
  static constexpr int kLine = (kChannels + kChunk - 1) / kChunk * kChunk;
  static constexpr int kPixels = kShape.in[1] * kShape.in[2];
  // A block of the second kind has 64 channels of so many pixels of an image.
  static constexpr int kTile = kPixels > 64 ? 128 : 64;
  static constexpr int kTiles = (kPixels + kTile - 1) / kTile;
  static constexpr int kParts = (kChannels + 63) / 64;
  static constexpr i64 kWeightBlocks = ((i64)kFilters * kFilled + kThreads - 1) / kThreads;
  static constexpr i64 kInputBlocks = (i64)kShape.images * kTiles * kParts;

  // A thread has all taps of a channel: they are neighbours where they come from.
  template <class Weights>
  static __device__ __forceinline__ void weights(i64 block, const Weights& weights, Element* to) {
    const i64 at = block * kThreads + threadIdx.x;
    if (at >= (i64)kFilters * kFilled) return;
    const int filter = (int)(at / kFilled), channel = (int)(at % kFilled);
    to += (i64)filter * kPackedLine + channel / kBox * (kBox * kTaps) + channel % kBox;
    constexpr int kOwn = kShape.channels / kTogether;  // channels
    const bool own = filter % kShape.filters / (kShape.filters / kTogether) == channel / kOwn;
    const i64 from = ((i64)filter * kOwn + channel % kOwn) * kTaps;
#pragma unroll 9
    for (int tap = 0; tap < kTaps; ++tap) {
      const bool real = channel < kShape.channels && (kTogether == 1 || own);
      store_as(to[tap * kBox], real ? weights.weight(from + tap) : 0.0f);
    }
  }

  // An element of 64 channels of kTile pixels. Chunks of 16 bytes are permuted so that what
  // channels_last() reads at a time touches all banks once.
  static __device__ __forceinline__ Element* place(Element* tile, int channel, int pixel) {
    const int mask = kChunk == 8 ? (channel / 8 % 4) << 1 | (channel & 1) : channel / 4 % 8;
    return tile + channel * kTile + ((pixel / kChunk) ^ mask) * kChunk + pixel % kChunk;
  }

  static __device__ __forceinline__ void channels_last(i64 block, const Element* x, Element* to) {
    __shared__ __align__(128) Element tile[64 * kTile];
    const int part = (int)(block % kParts), first = (int)(block / kParts % kTiles) * kTile;
    const int image = (int)(block / kParts / kTiles);
    x += (i64)image * kStrides.image + (i64)part * 64 * kStrides.channel + first;
    load_tile(x, min(64, kChannels - part * 64), min(kTile, kPixels - first), tile);
    __syncthreads();
    to += ((i64)image * kPixels + first) * kLine + part * 64;
    const int pixels = kPixels - first, channels = kLine - part * 64;
    if constexpr (kChunk == 8) {
      store_halves(tile, pixels, channels, to);
    } else {
      store_words_last(tile, pixels, channels, to);
    }
  }

  // Eight channels of a pixel for each lane, from matrices of eight by eight.
  static __device__ __forceinline__ void store_halves(Element* tile, int pixels, int channels,
                                                      Element* to) {
    const int lane = threadIdx.x % 32;
    constexpr int kEach = kTile / 8 / (kThreads / 32);
    u32 words[kEach][2][4];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // Lane l names a line of matrix l / 8, and receives of each matrix two neighbouring ones:
        // the lines are numbered so that all of these are neighbours.
        const int channel = half * 32 + lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2;
        load_matrices_transposed(place(tile, channel, (threadIdx.x / 32 * kEach + i) * 8),
                                 words[i][half]);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int pixel = (threadIdx.x / 32 * kEach + i) * 8 + lane / 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int channel = half * 32 + lane % 4 * 8;
        Pack<Element, 8> pack;
        memcpy(&pack, words[i][half], 16);
        store_words(to + (i64)pixel * kLine + channel, pack, pixel < pixels && channel < channels);
      }
    }
  }

  // Four channels of a pixel for each lane: a warp has four pixels of 32 channels.
  static __device__ __forceinline__ void store_words_last(Element* tile, int pixels, int channels,
                                                          Element* to) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = warp; i < kTile / 2; i += kThreads / 32) {
      const int pixel = i / 2 * 4 + lane % 4, channel = i % 2 * 32 + lane / 4 * 4;
      Pack<Element, 4> pack;
#pragma unroll
      for (int c = 0; c < 4; ++c) pack.v[c] = *place(tile, channel + c, pixel);
      store_words(to + (i64)pixel * kLine + channel, pack, pixel < pixels && channel < channels);
    }
  }

  static __device__ __forceinline__ void load_tile(const Element* x, int channels, int pixels,
                                                   Element* tile) {
    constexpr int kPack = kFlat ? 8 : kAlign;
    typedef Pack<Element, kPack> Packed;
    constexpr int kAll = 64 * (kFlat ? kPixels : kTile) / kPack;
    constexpr int kEach = (kAll + kThreads - 1) / kThreads;
    Packed packs[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = (threadIdx.x + i * kThreads) * kPack;
      if constexpr (kFlat) {
        packs[i] = load_words(reinterpret_cast<const Packed*>(x + at), at < channels * kPixels);
      } else {
        const int channel = at / kTile, pixel = at % kTile;
        packs[i] =
            load_words(reinterpret_cast<const Packed*>(x + channel * kStrides.channel + pixel),
                       channel < channels && pixel < pixels);
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = (threadIdx.x + i * kThreads) * kPack;
      if constexpr (kFlat) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          if (at < 64 * kPixels)
            *place(tile, (at + e) / kPixels, (at + e) % kPixels) = packs[i].v[e];
        }
      } else {
        *reinterpret_cast<Packed*>(place(tile, at / kTile, at % kTile)) = packs[i];
      }
    }
  }
};
