// Convolutions of single elements, 16 bits each, for sm_90a, as products in contract_sm90: A are
// the filters, B's columns the pixels of all images. Needs elements.cuh, quick.cuh,
// accumulators.cuh, epilogue.cuh, mma.cuh, tile_walk.cuh, hopper.cuh, stages.cuh, convolve.cuh and
// contract_sm90.cuh before it.
//
// An entry is that of contract_sm90, with MatrixB replaced by PixelsB<Geometry, kRows>, and B's map
// by a pointer to the first image's first pixel. The channels of an image follow each other without
// gaps; images, and every eighth channel, begin at multiples of 16 bytes. The copy engine would
// take no other channels, neither as a line nor as the place in one where a box begins. So a
// warpgroup copies, eight elements a thread, from the multiple of 16 bytes at or before a channel's
// first pixel, and shifts what began before when it is there.
//
// Columns are counted in tiles: images of at most 64 pixels have 64 columns each; larger ones have
// as many whole tiles as cover their pixels. kTileN is a multiple of 8, and of 64 where images are
// that small. Of each 64 or kTileN columns, filled up to 64, as many are left over as the largest
// shift has elements.
//
// Traffic: the input goes from memory to shared memory once per tile of filters, and nothing is
// copied before. A warp copies a line after the other, or some at a time.

template <class Geometry, int kRows>
struct PixelsB {
  static constexpr bool kWindows = true, kCopies = true;
  static constexpr int kTileRows = kRows;
  static constexpr int kPixels = Geometry::kShape.pixels(), kImages = Geometry::kShape.images;
  static constexpr int kChannels = Geometry::kShape.channels;
  static constexpr bool kSmall = kPixels <= 64;  // images
  // Elements between a line's first pixel and the multiple of eight at or before it: multiples of
  // the largest power of two that divides pixels.
  static constexpr int kUnit = kPixels % 8 == 0   ? 8
                               : kPixels % 4 == 0 ? 4
                               : kPixels % 2 == 0 ? 2
                                                  : 1;
  static constexpr bool kShifts = kUnit < 8;
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

  // What a thread of a warpgroup copies of 64 lines: eight columns of each kLines-th one.
  template <int kTileN>
  struct Share {
    static constexpr int kChunks = (kTileN + 63) / 64 * 8;
    static constexpr int kLanes = kChunks > 16 ? 32 : kChunks;  // that have a line
    static constexpr int kLines = 128 / kLanes;
    static_assert((kSmall ? kPixels : kTileN) + 8 - kUnit <= (kSmall ? 64 : kChunks * 8),
                  "room for what comes before");
    const int chunk = threadIdx.x % kLanes, line = threadIdx.x / kLanes;

    // By how much the k-th line is shifted, for k a multiple of kLines.
    __device__ __forceinline__ int shift(int k) const { return (line + k) * kPixels % 8; }
    // Where its chunk is in the tile, as the copy engine's 128-byte swizzle has it.
    __device__ __forceinline__ u32 place(int k) const {
      return chunk / 8 * (64 * 128) + (line + k) * 128 + ((chunk ^ (line + k)) % 8 << 4);
    }
  };

  template <typename Element, int kTileN>
  struct Copies {
    Share<kTileN> share;
    const Element* from;
    int left;  // of the tile's pixels, from its first column on

    // The tile that begins at a column.
    __device__ __forceinline__ Copies(const Element* x, int column) {
      const Place<kTileN> first(column, 0);
      const int image = first.image + (kSmall ? share.chunk / 8 : 0);
      const int pixel = first.pixel + (kSmall ? share.chunk % 8 : share.chunk) * 8;
      left = image < kImages ? first.end - pixel : -8;
      from = x + (i64)image * Geometry::kStrides.image + share.line * kPixels + pixel;
    }
    // The next 64 channels, from `channel` on; zeros where there are none.
    __device__ __forceinline__ void next(u8* stage, int channel) {
#pragma unroll
      for (int k = 0; k < 64; k += share.kLines) {
        const bool real = kChannels % 64 == 0 || channel + share.line + k < kChannels;
        const int by = share.shift(k);
        if (left + by <= 0) continue;
        copy_async<16>(stage + share.place(k), from + (real ? k * kPixels : 0) - by, real ? 16 : 0);
      }
      from += 64 * kPixels;
    }
  };

  // Shifts the lines of a stage that a warp has copied.
  template <int kTileN>
  static __device__ __forceinline__ void shift(u8* tile) {
    const Share<kTileN> share;
    // All lines of a warp are right.
    if (kUnit == 4 && share.kLanes == 32 && share.line % 2 == 0) return;
#pragma unroll 2
    for (int k = 0; k < 64; k += share.kLines) {
      const int by = share.shift(k);
      uint4* const at = reinterpret_cast<uint4*>(tile + share.place(k));
      const uint4 own = *at;
      u32 words[8] = {own.x, own.y, own.z, own.w};
      constexpr int kNext = kUnit == 4 ? 2 : 4;  // words of the next chunk
#pragma unroll
      for (int i = 0; i < kNext; ++i) words[4 + i] = __shfl_down_sync(0xffffffffu, words[i], 1);
#pragma unroll
      for (int i = 0; i < 6; ++i) words[i] = by & 4 ? words[i + 2] : words[i];
      if constexpr (kUnit <= 2) {
#pragma unroll
        for (int i = 0; i < 5; ++i) words[i] = by & 2 ? words[i + 1] : words[i];
      }
      if constexpr (kUnit == 1) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          words[i] = by & 1 ? __byte_perm(words[i], words[i + 1], 0x5432) : words[i];
        }
      }
      *at = {words[0], words[1], words[2], words[3]};
    }
  }

  // All of B's tiles, by a warpgroup, whose first thread fetches A. A stage is full when what its
  // threads copied is there, which they find out kBehind stages later.
  template <class Contract, typename Element>
  static __device__ __forceinline__ void copy(const TensorMap& a, const Element* b,
                                              const ContractShape& shape, const TileWalk& walk,
                                              int steps, u8* stages,
                                              typename Contract::Ring& ring) {
    typedef typename Contract::Ring Ring;
    typedef typename Contract::TileA TileA;
    constexpr int kTileN = Contract::kTileColumns;
    constexpr int kBehind = Contract::kStages - 2;  // a consumer has one until the next is full
    auto at = Ring::to_fill();
    auto arrived = Ring::to_fill();
    const auto arrive = [&] {
      if constexpr (kShifts) {
        __syncwarp();
        shift<kTileN>(stages + arrived.stage * Contract::kStageBytes + TileA::kBytes);
      }
      stores_fence();
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(&ring.full[arrived.stage]);
      arrived.next();
    };
    int ahead = 0;
    for (int tile = blockIdx.x; tile < walk.total; tile += gridDim.x) {
      int batch, unit, column;
      walk.locate(tile, &batch, &unit, &column);
      Copies<Element, kTileN> copies(b, column * kTileN);
      for (int step = 0; step < steps; ++step, at.next()) {
        u8* const to = stages + at.stage * Contract::kStageBytes;
        u64* const full = ring.wait_empty(at);
        if (threadIdx.x == 0) {
          barrier_expect(full, TileA::kBytes);
          TileA::template fetch<1>(to, a, full, unit * kRows, step * TileA::kDepth, 0, 0);
        }
        copies.next(to + TileA::kBytes, step * TileA::kDepth);
        copies_commit();
        if (ahead < kBehind) {
          ++ahead;
          continue;
        }
        copies_wait<kBehind>();
        arrive();
      }
    }
    copies_wait<0>();
    for (; ahead > 0; --ahead) arrive();
  }

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
