// Convolutions of one channel in a group over planes of 16-bit elements that a block holds in
// shared memory, by tensor cores. Needs weight_bands.cuh, convolve_planes.cuh
// and what that needs before it.
//
// Geometry: kShape; planes have two axes, and lines of the input an even number of elements.
// Element: of the input, whose planes follow each other without gaps from a multiple of 16 bytes
// on, and of the weights. Operands, Epilogue: as ConvolvePlanes has them. A block has kPlanes
// neighbouring channels, of kImages images one after the other; so many planes of the input and of
// the result, and those of an image, are multiples of 16 bytes. kShare warps have a plane of the
// result: a power of two. Launch: kThreads threads for each kPlanes channels of each kImages
// images, kSharedBytes of dynamic shared memory.
//
// A line of a window, moved along by one column after another, is a matrix with a band of weights:
// 16 columns of the result are the product of such a band with as many lines of the input as they
// lie. Of those a product takes eight, kLines apart, so that the lines between them take what has
// been loaded: for a window of 7 lines, 13 lines of the input are 7 of the result. The products of
// zeros cost less than to load, convert and multiply elements one by one. Sums are those of exact
// products, in f32.
//
// Traffic: planes come and results leave as streams, while others are multiplied, kStages times
// kTogether images ahead. Bands are made once for all images.

template <class Geometry, typename Element, int kPlanes, int kLines, int kShare, int kImages,
          int kTogether, int kStages, class Operands, class Epilogue>
struct ConvolvePlanesMma {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr int kFilters = kShape.filters;
  static constexpr int kWarps = kPlanes * kFilters * kShare, kThreads = 32 * kWarps;
  static constexpr int kTileRows = kPlanes, kTileColumns = kImages;
  static constexpr int kHeight = kShape.in[1], kWidth = kShape.in[2];
  static constexpr int kOutLines = kShape.out[1], kOutColumns = kShape.out[2];
  static constexpr int kIn = kHeight * kWidth, kOut = kOutLines * kOutColumns;
  static constexpr int kTaps1 = kShape.taps[1], kTaps2 = kShape.taps[2];
  static constexpr int kStep1 = kShape.stride[1], kStep2 = kShape.stride[2];
  static constexpr int kApart1 = kShape.dilation[1], kApart2 = kShape.dilation[2];
  static constexpr int kPad1 = kShape.padding[1], kPad2 = kShape.padding[2];
  typedef MadeIn<Epilogue> Made;
  static constexpr int kInBytes = kPlanes * kIn * 2;
  static constexpr int kPitch = Made::kHere ? kOut : (kOut + 3) / 4 * 4;
  static constexpr int kResultBytes = Made::kHere ? (int)sizeof(typename Made::Type) : 4;
  static constexpr int kOutBytes = (kPlanes * kFilters * kPitch * kResultBytes + 15) / 16 * 16;
  // A line of zeros, for what lies above or below a plane.
  static constexpr int kZeroBytes = (kWidth * 2 + 64 + 127) / 128 * 128;
  static constexpr int kImageBytes = kZeroBytes + kInBytes;
  static constexpr int kStageBytes = kTogether * kImageBytes;
  static constexpr int kResultsBytes = kTogether * kOutBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes + 2 * kResultsBytes;
  static constexpr int kAcross = (kShape.groups + kPlanes - 1) / kPlanes;  // blocks of an image

  // Tiles of 16 columns begin at even columns of the input, this many before their first result's
  // own; where there is one that has a whole line, at its first.
  static constexpr int kTiles = (kOutColumns + 15) / 16;
  static constexpr bool kWhole = kTiles == 1 && kWidth <= 16 * kStep2;
  static constexpr int kBefore = kWhole ? 0 : (kPad2 + 1) / 2 * 2;
  static constexpr int kFirst = kBefore - kPad2;  // of a band, the first tap's row
  static constexpr int kRows = kWhole ? kWidth : kFirst + 15 * kStep2 + (kTaps2 - 1) * kApart2 + 1;
  static constexpr int kChunks = (kRows + 7) / 8;  // of eight columns of the input
  static constexpr int kAdvance = 2 * kStep2;      // chunks from a tile to the next
  typedef WeightBands<Geometry, Element, kFirst, kChunks> Bands;
  typedef typename Bands::Band Band;

  // Lines of the input that kLines of the result take.
  static constexpr int kReach = (kTaps1 - 1) * kApart1;
  static constexpr int kLinesIn = (kLines - 1) * kStep1 + kReach + 1;
  static constexpr int kDown = (kOutLines + 8 * kLines - 1) / (8 * kLines);
  // Warps that share a plane's pieces of lines, and those that share the tiles of a piece.
  static constexpr int kShareLines = kShare < kDown ? kShare : kDown;
  static constexpr int kShareTiles = kShare / kShareLines;
  static constexpr bool kPairs = kOutColumns % 2 == 0 && kPitch % 2 == 0;
  static_assert(sizeof(Element) == 2 && kWidth % 2 == 0 && kInBytes % 16 == 0, "pairs of columns");

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    __shared__ u64 full[kStages];
    u8* const results = shared + kStages * kStageBytes;
    const int channel = (int)blockIdx.x % kAcross * kPlanes;
    const int image0 = (int)blockIdx.x / kAcross * kImages;
    const int images = min(kImages, kShape.images - image0);
    const int planes = min(kPlanes, kShape.groups - channel);
    x += ((i64)image0 * kShape.groups + channel) * kIn;
    if (kHasBulkCopies && threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) barrier_init(&full[stage], 1);
      barrier_init_done();
    }
    if (kHasBulkCopies) __syncthreads();
    const int steps = (images + kTogether - 1) / kTogether;
    for (int i = 0; i < kStages; ++i) fetch(x, i, images, planes, shared, full);
    for (int i = threadIdx.x; i < kStages * kTogether * (kZeroBytes / 16); i += kThreads) {
      const int image = i / (kZeroBytes / 16), at = i % (kZeroBytes / 16) * 16;
      *reinterpret_cast<uint4*>(shared + image * kImageBytes + at) = uint4{};
    }
    // Warps that have no plane compute another's, and store nothing.
    const int own = (int)threadIdx.x / 32 / kShare, item = min(own, planes * kFilters - 1);
    const bool real = kShape.groups % kPlanes == 0 || own == item;
    const int share = (int)threadIdx.x / 32 % kShare;
    const int row = channel * kFilters + item, place = item * kPitch;
    Band band;
    Bands::make(operands, row, band);
    int from[kLinesIn];
    find_lines(item / kFilters, share % kShareLines * 8 * kLines, from);
    __syncthreads();
    // Loops that surely do something: what an epilogue loads is loaded once before all of them.
    int i = 0;
    do {
      u8* const out = results + i % 2 * kResultsBytes;
      if constexpr (kHasBulkCopies) {
        barrier_wait(&full[i % kStages], (u32)(i / kStages % 2));
      } else {
        copies_wait<kStages - 1>();
        __syncthreads();
      }
      const u8* const stage = shared + i % kStages * kStageBytes;
      const int here = kTogether == 1 ? 1 : min(kTogether, images - i * kTogether);
      int j = 0;
      do {
        const u8* const planes_at = stage + j * kImageBytes;
        u8* const out_at = out + j * kOutBytes;
        int piece = share % kShareLines;
        do {
          if constexpr (kDown > kShare) find_lines(item / kFilters, piece * 8 * kLines, from);
          convolve(epilogue, planes_at, from, band, row, place, piece * 8 * kLines,
                   share / kShareLines, real, out_at);
          piece += kShareLines;
        } while (kDown > kShare && piece < kDown);
      } while (++j < here);
      if constexpr (Made::kHere && kHasBulkCopies) {
        stores_fence();
        if (threadIdx.x == 0) stores_wait_read<0>();  // of the results before
      }
      __syncthreads();
      fetch(x, i + kStages, images, planes, shared, full);
      for (j = 0; j < here; ++j) {
        const int first = (image0 + i * kTogether + j) * kShape.groups + channel;
        if constexpr (Made::kHere) {
          typedef typename Made::Type Result;
          constexpr int kOfPlane = kFilters * kOut;
          store(reinterpret_cast<const Result*>(out + j * kOutBytes), planes * kOfPlane,
                epilogue.result() + (i64)first * kOfPlane);
        } else {
          store_sums<Geometry, kThreads, kPitch>(
              epilogue, first * kFilters, planes * kFilters,
              reinterpret_cast<const float*>(out + j * kOutBytes));
        }
      }
      if constexpr (Made::kHere && kHasBulkCopies) {
        if (threadIdx.x == 0) stores_commit();
      }
    } while (++i < steps);
    if constexpr (Made::kHere && kHasBulkCopies) {
      if (threadIdx.x == 0) stores_wait_read<0>();
    }
  }

  // The planes of a step's images to its stage, of those that there are.
  static __device__ __forceinline__ void fetch(const Element* x, int step, int images, int planes,
                                               u8* stages, u64* full) {
    const int stage = step % kStages, bytes = planes * kIn * 2;
    const int first = step * kTogether, here = min(kTogether, images - first);
    u8* const to = stages + stage * kStageBytes + kZeroBytes;
    if constexpr (kHasBulkCopies) {
      if (threadIdx.x == 0 && here > 0) {
        barrier_expect(&full[stage], here * bytes);
        for (int j = 0; j < here; ++j) {
          load_bulk(to + j * kImageBytes, x + (i64)(first + j) * kShape.groups * kIn, bytes,
                    &full[stage]);
        }
      }
    } else {
      for (int j = 0; j < here; ++j) {
        const Element* const plane = x + (i64)(first + j) * kShape.groups * kIn;
        for (int i = threadIdx.x * 16; i < bytes; i += kThreads * 16) {
          copy_async<16>(to + j * kImageBytes + i, reinterpret_cast<const u8*>(plane) + i);
        }
      }
      copies_commit();  // none is a group, too: groups are counted
    }
  }

  template <typename Result>
  static __device__ __forceinline__ void store(const Result* from, int count, Result* to) {
    if constexpr (kHasBulkCopies) {
      if (threadIdx.x == 0) {
        store_bulk(to, from, count * (int)sizeof(Result));
      }
    } else {
      constexpr int kPiece = 16 / (int)sizeof(Result);
      for (int i = threadIdx.x * kPiece; i < count; i += kThreads * kPiece) {
        store_pack(to + i, load_pack<kPiece>(from + i));
      }
    }
  }

  // Where a lane's lines of the input are in a stage, for kLines lines of the result of each eight
  // from `line` on.
  static __device__ __forceinline__ void find_lines(int plane, int line, int (&from)[kLinesIn]) {
    const int lane = threadIdx.x % 32;
    // Of lines below the plane's last, none takes a turn of the shared memory by itself.
    const int own = line + lane / 4 * kLines, first = own < kOutLines ? own : line;
#pragma unroll
    for (int j = 0; j < kLinesIn; ++j) {
      const int at = first * kStep1 - kPad1 + j;
      const bool inside = (u32)at < (u32)kHeight;
      from[j] = (inside ? kZeroBytes + (plane * kHeight + at) * (kWidth * 2) : 0) + lane % 4 * 4;
    }
  }

  // 8 kLines lines of the result, from `line` on: of kShareTiles neighbouring tiles one.
  static __device__ __forceinline__ void convolve(const Epilogue& epilogue, const u8* stage,
                                                  const int (&from)[kLinesIn], const Band& band,
                                                  int row, int place, int line, int share,
                                                  bool real, u8* results) {
    const int lane = threadIdx.x % 32;
#pragma unroll(kTiles <= 4 ? kTiles : 1)
    for (int tile = 0; tile < kTiles; ++tile) {
      if (kShareTiles > 1 && tile % kShareTiles != share) continue;
      float acc[kLines][4] = {};
      bool inside[kChunks];
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int column = (tile * kAdvance + chunk) * 8 - kBefore;
        const bool crosses = column < 0 || column + 8 > kWidth;
        inside[chunk] = !crosses || (u32)(column + lane % 4 * 2) < (u32)kWidth;
      }
#pragma unroll
      for (int j = 0; j < kLinesIn; ++j) {
        if (!Bands::is_taken(j, kLines)) continue;
        u32 at[kChunks];
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
          const int column = (tile * kAdvance + chunk) * 8 - kBefore;
          const int word = inside[chunk] ? from[j] + column * 2 : 0;
          at[chunk] = column >= kWidth ? 0 : *reinterpret_cast<const u32*>(stage + word);
        }
#pragma unroll
        for (int l = 0; l < kLines; ++l) {
          const int t1 = Bands::tap_of(j, l);
          if (t1 < 0) continue;
#pragma unroll
          for (int chunk = 0; chunk < kChunks; chunk += 2) {
            if ((tile * kAdvance + chunk) * 8 - kBefore >= kWidth) continue;
            const auto& a = band[t1];
            if (chunk + 1 < kChunks && (tile * kAdvance + chunk + 1) * 8 - kBefore < kWidth) {
              const u32 both[4] = {a[chunk][0], a[chunk][1], a[chunk + 1][0], a[chunk + 1][1]};
              multiply(acc[l], both, at[chunk], at[chunk + 1], Element{});
            } else {
              multiply_eight(acc[l], a[chunk][0], a[chunk][1], at[chunk], Element{});
            }
          }
        }
      }
      leave(epilogue, acc, tile, row, place, line, real, results);
    }
  }

  // A lane has two neighbouring columns of two lines, kLines apart, for each sum.
  static __device__ __forceinline__ void leave(const Epilogue& epilogue,
                                               const float (&acc)[kLines][4], int tile, int row,
                                               int place, int line, bool real, u8* results) {
    const int lane = threadIdx.x % 32;
    const int first = line + lane % 4 * 2 * kLines, column = tile * 16 + lane / 4 * 2;
    const int to = place + first * kOutColumns + column;
#pragma unroll
    for (int l = 0; l < kLines; l += 2) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int at = l + i / 4;
        v[i] = at < kLines ? acc[at < kLines ? at : l][i / 2 % 2 + i % 2 * 2] : 0.0f;
      }
      const bool whole = kDown * 8 * kLines == kOutLines;
      const int lines = !real ? 0 : whole ? kOutLines : kOutLines - first - l;
      if constexpr (Made::kHere) {
        Pack<typename Made::Type, 8> pack;
        epilogue(row / kFilters, (i64)(row % kFilters), (i64)0, v, Eight{}, pack);
        put(pack, reinterpret_cast<typename Made::Type*>(results) + to + l * kOutColumns,
            kLines - l, lines, kOutColumns - column);
      } else {
        Pack<float, 8> pack;
#pragma unroll
        for (int i = 0; i < 8; ++i) pack.v[i] = v[i];
        put(pack, reinterpret_cast<float*>(results) + to + l * kOutColumns, kLines - l, lines,
            kOutColumns - column);
      }
    }
  }
  // The compiler would split the store of some packs into their elements.
  template <typename T>
  static __device__ __forceinline__ void store_words(T* to, const Pack<T, 2>& two) {
    if constexpr (sizeof(two) == 4) {
      u32 word;
      memcpy(&word, &two, 4);
      *reinterpret_cast<u32*>(to) = word;
    } else {
      store_pack(to, two);
    }
  }
  // Pairs: two of a line, two kLines below, and the same of the next line.
  template <typename T>
  static __device__ __forceinline__ void put(const Pack<T, 8>& pack, T* at, int count, int lines,
                                             int columns) {
    Pack<T, 2> twos[4];
    memcpy(twos, &pack, sizeof(pack));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int below = i / 2 + i % 2 * kLines;
      T* const to = at + below * kOutColumns;
      if (i / 2 >= count || below >= lines || (kOutColumns % 16 != 0 && columns <= 0)) continue;
      if (kPairs) {
        store_words(to, twos[i]);
      } else {
        to[0] = twos[i].v[0];
        if (columns > 1) to[1] = twos[i].v[1];
      }
    }
  }
};
