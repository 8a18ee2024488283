// Convolutions of one channel in a group and one filter for it, of 16-bit elements whose channels
// lie last, with a result of the same form: by bands of weights on tensor cores (see
// convolve_planes_mma.cuh), of planes that a block puts together in shared memory. Needs
// elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh, mma.cuh, convolve.cuh and
// weight_bands.cuh before it.
//
// Element: of the input, whose groups of 16 bytes of channels begin at multiples of 16 bytes, and
// of the weights. Operands is a struct that the generator writes:
//   __device__ float weight(i64 element) const;  // numbered in its own order
// Geometry: kShape and kStrides; planes have two axes. An epilogue that has a Made is called for a
// channel with any eight of its pixels, perhaps fewer, and reads only what is the same for all. One
// without is that of a matrix whose rows are the pixels of all images and whose columns are
// channels.
// A block has kChannels channels of kEach tiles, one after the other, of those of all images. A
// tile: kTileLines lines of kColumns pixels of kTogether images. A warp has kOwn channels.
// Launch: kThreads threads for each kEach tiles of each kChannels channels, kSharedBytes of dynamic
// shared memory.
//
// Traffic: a tile of the input is copied as it lies while the one before is multiplied, with zeros
// where it ends. Then loads that transpose matrices part it into planes: two neighbouring columns
// of a channel are a word, as a product takes them. A warp leaves what an epilogue made where a
// plane has been used up, or the sums beside it, and the block stores 16 bytes of a pixel at a
// time.

template <class Geometry, typename Element, int kWarps, int kOwn, int kTileLines, int kColumns,
          int kLines, int kTogether, int kEach, class Operands, class Epilogue>
struct ConvolveLastBands {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr ConvolutionStrides kStrides = Geometry::kStrides;
  static constexpr int kThreads = 32 * kWarps, kChannels = kWarps * kOwn;
  static constexpr int kTileRows = kChannels, kTileColumns = kTileLines * kColumns;
  static constexpr int kTaps1 = kShape.taps[1], kTaps2 = kShape.taps[2];
  static constexpr int kStep1 = kShape.stride[1], kStep2 = kShape.stride[2];
  static constexpr int kApart1 = kShape.dilation[1], kApart2 = kShape.dilation[2];
  typedef MadeIn<Epilogue> Made;
  typedef typename Made::Type Result;
  // Tiles of all images.
  static constexpr int kAcross = (kShape.out[2] + kColumns - 1) / kColumns;
  static constexpr int kDown = (kShape.out[1] + kTileLines - 1) / kTileLines;
  static constexpr int kAll = (kShape.images + kTogether - 1) / kTogether * kDown * kAcross;
  static constexpr int kChunks = (kShape.groups + kChannels - 1) / kChannels;

  // Products of 16 columns of the result begin at even columns of a plane, this many before their
  // first result's own; where there is one that has a whole line, at its first.
  static constexpr int kTiles = (kColumns + 15) / 16;
  static constexpr bool kWhole = kColumns == kShape.out[2];
  static constexpr bool kOne = kWhole && kTiles == 1 && kShape.in[2] <= 16 * kStep2;
  static constexpr int kBefore = kOne ? 0 : (kShape.padding[2] + 1) / 2 * 2;
  static constexpr int kFirst = kBefore - kShape.padding[2];  // of a band, the first tap's row
  static constexpr int kReach2 = (kTaps2 - 1) * kApart2;
  static constexpr int kRows = kOne ? kShape.in[2] : kFirst + 15 * kStep2 + kReach2 + 1;
  static constexpr int kEights = (kRows + 7) / 8;  // of columns of the input
  static constexpr int kAdvance = 2 * kStep2;      // eights from a product to the next
  typedef WeightBands<Geometry, Element, kFirst, kEights> Bands;
  typedef typename Bands::Band Band;

  // A plane's columns that are copied: eights of those that windows of the tile cover, unless no
  // tile's input has them.
  static constexpr int kLast = kOne ? kShape.in[2] : kFirst + (kColumns - 1) * kStep2 + kReach2 + 1;
  static constexpr int kReal =
      kWhole && kBefore + kShape.in[2] < kLast ? kBefore + kShape.in[2] : kLast;
  static constexpr int kWidth = (kReal + 7) / 8 * 8;
  // Lines of the input, of a tile and of kLines lines of the result.
  static constexpr int kReach1 = (kTaps1 - 1) * kApart1;
  static constexpr int kHeight = (kTileLines - 1) * kStep1 + kReach1 + 1;
  static constexpr int kLinesIn = (kLines - 1) * kStep1 + kReach1 + 1;
  static constexpr int kSteps = (kTileLines + 8 * kLines - 1) / (8 * kLines);
  // Words from a line to the next, and from a plane: the eight lines of a load, and of what is
  // parted the eight planes, reach different banks.
  static constexpr int kTurn = kLines * kStep1;
  static constexpr int kLineWords = kWidth / 2 + (kTurn % 2 != 0   ? (kWidth % 16 == 0 ? 4 : 0)
                                                  : kTurn % 4 != 0 ? 2
                                                                   : 1);
  static constexpr int kUsed = kTogether * kHeight * kLineWords;
  static constexpr int kPlaneWords = kUsed + (12 - kUsed % 8) % 8;
  static constexpr int kPixelBytes = kChannels * 2;
  static constexpr int kBoxBytes = kTogether * kHeight * kWidth * kPixelBytes;
  // Of sums for an epilogue without a Made: a line and a plane of them, in other banks than the
  // next.
  static constexpr int kLineSums =
      kLines % 2 != 0 ? (kColumns + 3) / 8 * 8 + 4 : (kColumns + 1) / 4 * 4 + 2;
  static constexpr int kPlaneSums = (kTogether * kTileLines * kLineSums + 1) / 4 * 4 + 2;
  static constexpr int kSumBytes = Made::kHere ? 0 : kChannels * kPlaneSums * 4;
  static constexpr int kSharedBytes = kChannels * kPlaneWords * 4 + kBoxBytes + kSumBytes;
  static_assert(kShape.channels == 1 && kShape.filters == 1 && kStrides.channel == 1, "planes");
  static_assert(sizeof(Element) == 2 && kShape.groups % 8 == 0, "groups of 16 bytes");
  static_assert(kChannels == 16 || kChannels == 32, "swizzles");
  static_assert(kTileLines % kLines == 0, "lanes have lines that a plane has");

  // Of a tile, among those of all images.
  struct Tile {
    int image, line, column;
    __device__ __forceinline__ explicit Tile(int number)
        : image(number / (kDown * kAcross) * kTogether),
          line(number / kAcross % kDown * kTileLines),
          column(number % kAcross * kColumns) {}
  };

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    u32* const planes = reinterpret_cast<u32*>(shared);
    u8* const box = shared + kChannels * kPlaneWords * 4;
    float* const sums = reinterpret_cast<float*>(box + kBoxBytes);
    const int channel = (int)blockIdx.x % kChunks * kChannels;
    const int begin = (int)blockIdx.x / kChunks * kEach, count = min(kEach, kAll - begin);
    fetch(x, Tile(begin), channel, box);
    const int own = channel + (int)threadIdx.x / 32 * kOwn;
    Band bands[kOwn];
#pragma unroll
    for (int c = 0; c < kOwn; ++c) Bands::make(operands, min(own + c, kShape.groups - 1), bands[c]);
    // A loop that surely does something: what an epilogue loads is loaded once before it.
    int i = 0;
    do {
      copies_wait<0>();
      __syncthreads();  // the box is there, and what the planes held is stored
      part(box, planes);
      __syncthreads();
      if (i + 1 < count) fetch(x, Tile(begin + i + 1), channel, box);
      int step = 0;
      do {
#pragma unroll
        for (int c = 0; c < kOwn; ++c) {
          const int plane = (int)threadIdx.x / 32 * kOwn + c;
          convolve(epilogue, bands[c], min(own + c, kShape.groups - 1), step,
                   planes + plane * kPlaneWords, sums + plane * kPlaneSums);
        }
      } while (++step < kTogether * kSteps);
      __syncthreads();
      store(epilogue, planes, sums, Tile(begin + i), channel);
    } while (++i < count);
  }

  // Where a box has 16 bytes of a pixel: lanes that load them from eight neighbours reach different
  // banks.
  static __device__ __forceinline__ u32 place(int line, int column, int piece) {
    const int mixed = kChannels == 16 ? piece ^ (column / 4 % 2) : piece ^ (column / 2 % 4);
    return (u32)((line * kWidth + column) * kPixelBytes + mixed * 16);
  }

  // Copies a tile of the input; zeros where there is none. A warp has every so many-th line.
  static __device__ __forceinline__ void fetch(const Element* x, const Tile& tile, int channel,
                                               u8* box) {
    constexpr int kPieces = kPixelBytes / 16, kAtOnce = 32 / kPieces;
    constexpr int kRounds = (kWidth + kAtOnce - 1) / kAtOnce;
    const int column = threadIdx.x % 32 / kPieces, piece = threadIdx.x % 32 % kPieces;
    const int left = tile.column * kStep2 - kBefore + column;
    const int top = tile.line * kStep1 - kShape.padding[1];
    int bytes[kRounds];
#pragma unroll
    for (int r = 0; r < kRounds; ++r) {
      const bool here = channel + piece * 8 < kShape.groups;
      bytes[r] = here && (u32)(left + r * kAtOnce) < (u32)kShape.in[2] ? 16 : 0;
    }
    const int warp = threadIdx.x / 32;
    const u32 to = shared_at(box) + place(warp, column, piece);
    const Element* const from = x + tile.image * kStrides.image + top * kStrides.at[1] +
                                left * kStrides.at[2] + channel + piece * 8;
#pragma unroll 2
    for (int i = 0; i < (kTogether * kHeight + kWarps - 1) / kWarps; ++i) {
      const int line = warp + i * kWarps, image = kTogether > 1 ? line / kHeight : 0;
      const int at = line - image * kHeight;
      if (kTogether * kHeight % kWarps != 0 && line >= kTogether * kHeight) break;
      const bool real = (u32)(top + at) < (u32)kShape.in[1] &&
                        (kTogether == 1 || tile.image + image < kShape.images);
      const Element* const own = from + image * kStrides.image + at * kStrides.at[1];
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        if (kWidth % kAtOnce != 0 && r + 1 == kRounds && column >= kWidth % kAtOnce) continue;
        copy_async<16>(to + (u32)(i * kWarps * kWidth + r * kAtOnce) * kPixelBytes,
                       own + r * kAtOnce * kStrides.at[2], real ? bytes[r] : 0);
      }
    }
    copies_commit();
  }

  // Eight columns of eight channels at a time, and eight more of each.
  static __device__ __forceinline__ void part(const u8* box, u32* planes) {
    constexpr int kSixteens = (kWidth + 15) / 16, kParts = kChannels / 16;
    const int lane = threadIdx.x % 32, piece = lane / 8 % 2, column = lane / 16 * 8 + lane % 8;
    const u32 to = lane / 4 * kPlaneWords + lane % 4;
#pragma unroll 2
    for (int i = threadIdx.x / 32; i < kTogether * kHeight * kParts; i += kWarps) {
      const int line = i / kParts, half = i % kParts;
#pragma unroll
      for (int s = 0; s < kSixteens; ++s) {
        const bool both = s * 16 + 8 < kWidth;
        u32 r[4];
        const int first = s * 16 + (both ? column : lane % 8);
        load_matrices_transposed(box + place(line, first, half * 2 + piece), r);
        u32* const at = planes + to + half * 16 * kPlaneWords + line * kLineWords + s * 8;
        at[0] = r[0];
        at[8 * kPlaneWords] = r[1];
        if (both) at[4] = r[2], at[8 * kPlaneWords + 4] = r[3];
      }
    }
  }

  // No word to the compiler: what is stored behind it depends on all that was loaded before.
  static __device__ __forceinline__ void lanes_meet() { asm volatile("bar.warp.sync 0xffffffff;"); }

  // A tile of one channel. A product's results lie where no later one reads: their columns and
  // lines are before those that it begins with.
  static __device__ __forceinline__ void convolve(const Epilogue& epilogue, const Band& band,
                                                  int channel, int step, u32* plane, float* sums) {
    const int lane = threadIdx.x % 32;
    const int line = step % kSteps * 8 * kLines;
    u32* const image = plane + step / kSteps * (kHeight * kLineWords);
    // Of lines below the tile's last, none takes a turn of the shared memory by itself.
    const int own = line + lane / 4 * kLines, first = own < kTileLines ? own : line;
    const u32* const from = image + first * kStep1 * kLineWords + lane % 4;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      float acc[kLines][4] = {};
#pragma unroll
      for (int j = 0; j < kLinesIn; ++j) {
        if (!Bands::is_taken(j, kLines)) continue;
        u32 at[kEights];
#pragma unroll
        for (int eight = 0; eight < kEights; ++eight) {
          const int column = tile * kAdvance + eight;
          at[eight] = column * 8 < kWidth ? from[j * kLineWords + column * 4] : 0;
        }
#pragma unroll
        for (int l = 0; l < kLines; ++l) {
          const int t1 = Bands::tap_of(j, l);
          if (t1 < 0) continue;
          const auto& a = band[t1];
#pragma unroll
          for (int eight = 0; eight < kEights; eight += 2) {
            if ((tile * kAdvance + eight) * 8 >= kWidth) continue;
            if (eight + 1 < kEights && (tile * kAdvance + eight + 1) * 8 < kWidth) {
              const u32 both[4] = {a[eight][0], a[eight][1], a[eight + 1][0], a[eight + 1][1]};
              multiply(acc[l], both, at[eight], at[eight + 1], Element{});
            } else {
              multiply_eight(acc[l], a[eight][0], a[eight][1], at[eight], Element{});
            }
          }
        }
      }
      if constexpr (Made::kHere) {
        lanes_meet();  // all have what they need of these columns
        leave(epilogue, acc, channel, line, tile, image);
      } else {
        leave_sums(acc, line, tile, sums + step / kSteps * (kTileLines * kLineSums));
      }
    }
  }

  // A lane has two neighbouring columns of two lines, kLines apart, for each sum.
  static __device__ __forceinline__ void leave(const Epilogue& epilogue,
                                               const float (&acc)[kLines][4], int channel, int line,
                                               int tile, u32* image) {
    const int lane = threadIdx.x % 32;
    const int first = line + lane % 4 * 2 * kLines;
    u32* const to = image + first * kLineWords + tile * 8 + lane / 4;
#pragma unroll
    for (int l = 0; l < kLines; l += 2) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int at = l + i / 4;
        v[i] = at < kLines ? acc[at < kLines ? at : l][i / 2 % 2 + i % 2 * 2] : 0.0f;
      }
      Pack<Result, 8> pack;
      epilogue(channel, (i64)0, (i64)0, v, Eight{}, pack);
      u32 twos[4];
      memcpy(twos, &pack, 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int below = l + i / 2 + i % 2 * kLines;
        if (l + i / 2 >= kLines ||
            (kTileLines % (8 * kLines) != 0 && first + below >= kTileLines)) {
          continue;
        }
        if (kColumns % 16 != 0 && tile + 1 == kTiles && tile * 16 + lane / 4 * 2 >= kColumns) {
          continue;
        }
        to[below * kLineWords] = twos[i];
      }
    }
  }

  // The same for the sums themselves.
  static __device__ __forceinline__ void leave_sums(const float (&acc)[kLines][4], int line,
                                                    int tile, float* sums) {
    const int lane = threadIdx.x % 32, column = tile * 16 + lane / 4 * 2;
    if (kColumns % 16 != 0 && tile + 1 == kTiles && column >= kColumns) return;
#pragma unroll
    for (int i = 0; i < 2 * kLines; ++i) {
      const int at = line + (lane % 4 * 2 + i % 2) * kLines + i / 2;
      if (kTileLines % (8 * kLines) != 0 && at >= kTileLines) continue;
      *reinterpret_cast<float2*>(sums + at * kLineSums + column) =
          float2{acc[i / 2][i % 2], acc[i / 2][i % 2 + 2]};
    }
  }

  // Two neighbouring pixels a thread, eight channels of each. A warp has whole lines, or some.
  static __device__ __forceinline__ void store(const Epilogue& epilogue, const u32* planes,
                                               const float* sums, const Tile& tile, int channel) {
    constexpr int kPieces = kChannels / 8, kTwos = (kColumns + 1) / 2, kAtOnce = 32 / kPieces;
    constexpr int kOfLine = kPieces * kTwos, kBeside = kOfLine < 32 ? 32 / kOfLine : 1;
    constexpr int kRounds = (kOfLine + 31) / 32, kLinesAtOnce = kWarps * kBeside;
    constexpr bool kEven = kColumns % 2 == 0 && kShape.out[2] % kColumns == 0;
    const int lane = threadIdx.x % 32, beside = kBeside > 1 ? lane / kOfLine : 0;
    const int number = lane - beside * kOfLine, piece = number % kPieces, own = channel + piece * 8;
    const int first = threadIdx.x / 32 * kBeside + beside;
    const bool here = own < kShape.groups && (kBeside == 1 || beside < kBeside);
#pragma unroll 2
    for (int i = 0; i < (kTogether * kTileLines + kLinesAtOnce - 1) / kLinesAtOnce; ++i) {
      const int line = first + i * kLinesAtOnce, image = kTogether > 1 ? line / kTileLines : 0;
      const int row = line - image * kTileLines;
      if (!here || line >= kTogether * kTileLines || tile.line + row >= kShape.out[1] ||
          (kTogether > 1 && tile.image + image >= kShape.images)) {
        continue;
      }
      const i64 all = (i64)(tile.image + image) * kShape.out[1] + tile.line + row;
      const i64 pixel = all * kShape.out[2] + tile.column;
#pragma unroll
      for (int r = 0; r < kRounds; ++r) {
        const int column = (number / kPieces + r * kAtOnce) * 2;
        if (kOfLine % 32 != 0 && kBeside == 1 && r + 1 == kRounds && column >= kTwos * 2) continue;
        const int left = kEven ? 2 : min(kColumns, kShape.out[2] - tile.column) - column;
        if constexpr (Made::kHere) {
          const int word = (image * kHeight + row) * kLineWords + column / 2;
          store_two(planes + piece * 8 * kPlaneWords + word,
                    epilogue.result() + (pixel + column) * kShape.groups + own, left);
        } else {
          finish_two(epilogue, sums + piece * 8 * kPlaneSums + line * kLineSums + column,
                     pixel + column, own, left);
        }
      }
    }
  }

  // The first `left` of two pixels.
  static __device__ __forceinline__ void store_two(const u32* words, Result* to, int left) {
    u32 twos[8];
#pragma unroll
    for (int c = 0; c < 8; ++c) twos[c] = words[c * kPlaneWords];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const u32 halves = e == 0 ? 0x5410 : 0x7632;
      uint4 eight;
      eight.x = __byte_perm(twos[0], twos[1], halves);
      eight.y = __byte_perm(twos[2], twos[3], halves);
      eight.z = __byte_perm(twos[4], twos[5], halves);
      eight.w = __byte_perm(twos[6], twos[7], halves);
      store_words(to + e * kShape.groups, eight, e < left);
    }
  }

  static __device__ __forceinline__ void finish_two(const Epilogue& epilogue, const float* sums,
                                                    i64 pixel, int channel, int left) {
    float v[2][8];
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const float2 two = *reinterpret_cast<const float2*>(sums + c * kPlaneSums);
      v[0][c] = two.x, v[1][c] = two.y;
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      epilogue(0, e < left ? pixel + e : 0, (i64)channel, v[e], AllOrNone{e < left});
    }
  }
};
