// Convolutions of single elements, 16 bits each, for sm_90a, as products in contract_sm90: A are
// the filters, B's columns the pixels of all images. Needs elements.cuh, quick.cuh,
// accumulators.cuh, columns.cuh, epilogue.cuh, mma.cuh, tile_walk.cuh, hopper.cuh, stages.cuh,
// convolve.cuh and contract_sm90.cuh before it.
//
// An entry is that of contract_sm90, with MatrixB replaced by PixelsB<Geometry, kRows, kAlign>, and
// B's map by a pointer to the first image's first pixel. kRows: 128, or 64; kTileN: at most 128, a
// multiple of 8, and 128 where images have at most 64 pixels. The channels of an image follow each
// other without gaps, and begin at multiples of kAlign elements (2, 4 or 8). The copy engine takes
// multiples of 16 bytes alone, for a line and also for the place in one where a box begins; so a
// warpgroup copies instead, kAlign elements a thread.
//
// Columns are counted in tiles: two images of at most 64 pixels share one, in 64 columns each;
// larger ones have as many whole tiles as cover their pixels.
//
// Traffic: the input goes from memory to shared memory once per tile of filters, and nothing is
// copied before. A warp copies a line after the other, or some at a time.

template <class Geometry, int kRows, int kAlign>
struct PixelsB {
  static constexpr bool kWindows = true, kWindowsOfA = false, kCopies = true;
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

  // What a thread of a warpgroup copies: of every kLines-th line, each kLanes-th piece.
  template <typename Element, int kTileN>
  struct Copies {
    static constexpr int kPiece = kAlign * (int)sizeof(Element);
    static constexpr int kOfImage = kPixels / kAlign;
    static constexpr int kPieces = kSmall ? kTileN / 64 * kOfImage : kTileN / kAlign;
    static constexpr int kLanes = kPieces > 16 ? 32 : kPieces > 8 ? 16 : 8;  // that have a line
    static constexpr int kEach = (kPieces + kLanes - 1) / kLanes;
    static constexpr int kLines = 128 / kLanes;
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
        const int image = first.image + (kSmall ? piece / kOfImage : 0);
        const int pixel = (kSmall ? piece % kOfImage : piece) * kAlign;
        const int at = kSmall ? piece / kOfImage * 64 + pixel : pixel;
        const bool real = piece < kPieces && image < kImages && first.pixel + pixel < first.end;
        here |= (u32)real << i;
        from[i] = x + (i64)image * Geometry::kStrides.image + line * kPixels + first.pixel + pixel;
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
    // With more in flight, a stage that has arrived would wait for one to become empty.
    constexpr int kBehind = Contract::kStages / 2 - 1;
    auto at = Ring::to_fill();
    auto arrived = Ring::to_fill();
    const auto arrive = [&] {
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
                   AllOrNone{row < piece.rows && here});
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
};
