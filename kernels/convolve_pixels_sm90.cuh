// Convolutions of single elements, 16 bits each, for sm_90a, as products in contract_sm90: A are
// the filters, B's columns the pixels of all images. Needs elements.cuh, quick.cuh,
// accumulators.cuh, epilogue.cuh, mma.cuh, tile_walk.cuh, hopper.cuh, stages.cuh, convolve.cuh and
// contract_sm90.cuh before it.
//
// An entry is that of contract_sm90, with MatrixB replaced by PixelsB<Geometry, kRows, kAlign>, and
// B's map by a pointer to the first image's first pixel. The channels of an image follow each other
// without gaps, and begin at multiples of kAlign elements (2, 4 or 8): the copy engine would take
// nothing but multiples of 8, neither as a line nor as the place in one where a box begins. So a
// warpgroup copies instead, kAlign elements a thread.
//
// Columns are counted in tiles: images of at most 64 pixels have 64 columns each; larger ones have
// as many whole tiles as cover their pixels. kTileN is a multiple of 8, and of 64 where images are
// that small.
//
// Traffic: the input goes from memory to shared memory once per tile of filters, and nothing is
// copied before. A warp copies a line after the other, neighbours of it at a time.

template <class Geometry, int kRows, int kAlign>
struct PixelsB {
  static constexpr bool kWindows = true, kCopies = true;
  static constexpr int kTileRows = kRows;
  static constexpr int kPixels = Geometry::kShape.pixels(), kImages = Geometry::kShape.images;
  static constexpr int kChannels = Geometry::kShape.channels;
  static constexpr bool kSmall = kPixels <= 64;  // images
  static_assert(kPixels % kAlign == 0, "channels begin where they should");
  template <typename Element, int kTileN, bool kAcross>
  using Tile = OperandTile<Element, (kTileN + 63) / 64 * 64, kAcross>;

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

  // What a thread of a warpgroup copies: of each kLines-th line, one piece of each 32.
  template <typename Element, int kTileN>
  struct Copies {
    static constexpr int kPiece = kAlign * (int)sizeof(Element);
    static constexpr int kOfImage = kPixels / kAlign;
    static constexpr int kPieces = kSmall ? kTileN / 64 * kOfImage : kTileN / kAlign;
    // Lanes that share a line, and how many pieces of it each has.
    static constexpr int kLanes = kPieces > 16 ? 32 : kPieces > 8 ? 16 : 8;
    static constexpr int kEach = (kPieces + kLanes - 1) / kLanes;
    static constexpr int kLines = 4 * (32 / kLanes);
    const Element* from[kEach];
    u32 to[kEach];
    u32 here = 0;  // bits: of those that there are

    // The tile that begins at a column.
    __device__ __forceinline__ Copies(const Element* x, int column) {
      const Place<kTileN> first(column, 0);
      const int line = threadIdx.x / kLanes;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int piece = threadIdx.x % kLanes + i * kLanes;
        const int number = kSmall ? piece / kOfImage : 0;  // of the image
        const int pixel = (kSmall ? piece % kOfImage : piece) * kAlign;
        const int at = kSmall ? number * 64 + pixel : pixel;
        const bool real = piece < kPieces && first.image + number < kImages &&
                          first.pixel + pixel < first.end;
        here |= (u32)real << i;
        from[i] = x + (i64)(first.image + number) * Geometry::kStrides.image + line * kPixels +
                  first.pixel + pixel;
        // As the copy engine's 128-byte swizzle has it.
        to[i] = at / 64 * (64 * 128) + line * 128 + ((at % 64 / 8 ^ line % 8) << 4) + at % 8 * 2;
      }
    }
    // The next 64 channels, from `channel` on; zeros where there are none.
    __device__ __forceinline__ void next(u8* stage, int channel) {
      const int left = kChannels - channel - (int)threadIdx.x / kLanes;
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if ((here >> i & 1) == 0) continue;
#pragma unroll
        for (int k = 0; k < 64; k += kLines) {
          const bool real = kChannels % 64 == 0 || k < left;
          // Four lines further, the swizzle differs.
          const u32 place = (kLines == 4 && k % 8 != 0 ? to[i] ^ 64 : to[i]) + k * 128;
          copy_async<kPiece>(stage + place, real ? from[i] + k * kPixels : from[i],
                             real ? kPiece : 0);
        }
        from[i] += 64 * kPixels;
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
};
