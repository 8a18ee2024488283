// Convolutions of one channel in a group and one filter for it, of an input with its channels last
// and with a result of the same form, with an epilogue (epilogue.cuh), for sm_90a: bound by memory.
// Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh, mma.cuh, hopper.cuh
// and convolve.cuh before it.
//
// Element: of the input. Operands is a struct that the generator writes:
//   __device__ float weight(i64 element) const;  // numbered in its own order
// Geometry: kShape; planes have two axes. The epilogue is one of a matrix whose rows are the pixels
// of all images, and whose columns are channels, a multiple of 8. A block has kChannels channels of
// kEach tiles, one after the other, of those of all images. A tile: kSides kLines kDeep lines of
// kColumns pixels of kTogether images. The map is of the input: channels, columns, lines, images,
// with boxes of kChannels, kBoxColumns, kBoxLines, kTogether, swizzled by as many bytes as the
// channels have.
// Launch: kThreads threads for each kEach tiles of each kChannels channels, kSharedBytes of dynamic
// shared memory.
//
// Traffic: boxes come kStages ahead, zeros where the input ends; few registers and no thread wait
// for memory. A warp has some channels of eight neighbouring columns, and goes down kLines lines of
// the result. It loads a line of the input once for all lines of the result that it belongs to.

template <class Geometry, typename Element, int kChannels, int kColumns, int kDeep, int kLines,
          int kTogether, int kStages, int kEach>
struct BoxesOfLast {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr int kTaps1 = kShape.taps[1], kTaps2 = kShape.taps[2];
  static constexpr int kTaps = kTaps1 * kTaps2;
  static constexpr int kStep1 = kShape.stride[1], kStep2 = kShape.stride[2];
  static constexpr int kApart1 = kShape.dilation[1], kApart2 = kShape.dilation[2];
  // Lines of the input that the windows of a tile cover, and of kLines lines of it; columns.
  static constexpr int kReach = (kTaps1 - 1) * kApart1;
  static constexpr int kSides = 2;
  static constexpr int kTileLines = kSides * kLines * kDeep;
  static constexpr int kBoxLines = (kTileLines - 1) * kStep1 + kReach + 1;
  static constexpr int kRows = (kLines - 1) * kStep1 + kReach + 1;
  static constexpr int kBoxColumns = (kColumns - 1) * kStep2 + (kTaps2 - 1) * kApart2 + 1;
  static constexpr int kPixelBytes = kChannels * (int)sizeof(Element);
  static constexpr int kBoxBytes = kTogether * kBoxLines * kBoxColumns * kPixelBytes;
  static constexpr int kStageBytes = (kBoxBytes + 1023) / 1024 * 1024;
  // What a warp does at a time: eights of columns of some lines of an image.
  static constexpr int kEights = (kColumns + 7) / 8;
  static constexpr int kPlaces = kTogether * kDeep * kEights;
  // Tiles of all images.
  static constexpr int kAcross = (kShape.out[2] + kColumns - 1) / kColumns;
  static constexpr int kDown = (kShape.out[1] + kTileLines - 1) / kTileLines;
  static constexpr int kAll = (kShape.images + kTogether - 1) / kTogether * kDown * kAcross;
  static constexpr int kChunks = (kShape.groups + kChannels - 1) / kChannels;
  static_assert(kShape.channels == 1 && kShape.filters == 1 && kShape.groups % 8 == 0, "channels");
  static_assert(kPixelBytes == 32 || kPixelBytes == 64 || kPixelBytes == 128, "swizzles");

  // Of a tile, among those of all images.
  struct Tile {
    int image, line, column;
    __device__ __forceinline__ explicit Tile(int number)
        : image(number / (kDown * kAcross) * kTogether),
          line(number / kAcross % kDown * kTileLines),
          column(number % kAcross * kColumns) {}
  };
  // Of what a warp does at a time.
  struct Place {
    int image, line, column;         // of the result
    int box_image, box_line, eight;  // in the box: lines and columns of the result

    __device__ __forceinline__ Place(int number, int place) {
      const Tile tile(number);
      eight = place % kEights * 8;
      box_line = place / kEights % kDeep * (kSides * kLines);
      box_image = place / (kEights * kDeep);
      image = tile.image + box_image;
      line = tile.line + box_line;
      column = tile.column + eight;
    }
    // Where in the box the window of a result begins, so many lines and columns further.
    __device__ __forceinline__ u32 window(int down, int across) const {
      const int in_line = box_image * kBoxLines + (box_line + down) * kStep1;
      const int in_column = min(eight + across, kColumns - 1) * kStep2;
      return (u32)((in_line * kBoxColumns + in_column) * kPixelBytes);
    }
    // Runs the epilogue for eight channels of a pixel, so many lines and columns from the first.
    template <class Epilogue>
    __device__ __forceinline__ void leave(const Epilogue& epilogue, int down, int further,
                                          int across, int channel, float (&v)[8]) const {
      constexpr bool kWhole = kShape.out[1] % kTileLines == 0;
      const bool here = (kColumns % 8 == 0 || eight + across < kColumns) && image < kShape.images &&
                        column + across < kShape.out[2] && channel < kShape.groups &&
                        (kWhole || line + down < kShape.out[1]);
      const bool inside = here && (kWhole || line + down + further < kShape.out[1]);
      const i64 first =
          ((i64)image * kShape.out[1] + line + down) * kShape.out[2] + column + across;
      const i64 pixel = (here ? first : 0) + (kWhole || inside ? further * kShape.out[2] : 0);
      epilogue(0, pixel, (i64)min(channel, kShape.groups - 8), v, AllOrNone{inside});
    }
  };

  // As the copy engine's swizzle has it.
  static __device__ __forceinline__ u32 swizzled(u32 at) {
    return at ^ (at >> 3 & (u32)(kPixelBytes - 16));
  }

  // The same so many lines of the box further: where those are whole periods of the swizzle, by a
  // distance that is known.
  static __device__ __forceinline__ u32 swizzled(u32 at, int row) {
    constexpr u32 kLine = kBoxColumns * kPixelBytes;
    return kBoxColumns % 8 == 0 ? swizzled(at) + row * kLine : swizzled(at + row * kLine);
  }

  // The tap that takes a line of the input for a line of the result, or -1.
  static __device__ __forceinline__ constexpr int tap_of(int row, int line) {
    const int distance = row - line * kStep1;
    const bool taken = distance >= 0 && distance <= kReach && distance % kApart1 == 0;
    return taken ? distance / kApart1 : -1;
  }
  static __device__ __forceinline__ constexpr bool takes_row(int row) {
    for (int line = 0; line < kLines; ++line) {
      if (tap_of(row, line) >= 0) return true;
    }
    return false;
  }

  static __device__ __forceinline__ void fetch(const TensorMap& x, int channel, int begin, int i,
                                               u8* stages, u64* full) {
    const Tile tile(begin + i);
    const int stage = i % kStages;
    barrier_expect(&full[stage], kBoxBytes);
    copy_box(stages + stage * kStageBytes, x, &full[stage], channel,
             tile.column * kStep2 - kShape.padding[2], tile.line * kStep1 - kShape.padding[1],
             tile.image, kEvictNormal);
  }

  // Has each of kWarps warps compute(stage, tile) for all tiles of the block, whose boxes are in
  // the stages then.
  template <int kWarps, class Compute>
  static __device__ __forceinline__ void walk(const TensorMap& x, u8* stages,
                                              const Compute& compute) {
    __shared__ u64 full[kStages], empty[kStages];
    const int channel = (int)blockIdx.x % kChunks * kChannels;
    const int begin = (int)blockIdx.x / kChunks * kEach, count = min(kEach, kAll - begin);
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        barrier_init(&full[stage], 1);
        barrier_init(&empty[stage], kWarps);
      }
      barrier_init_done();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < min(kStages, count); ++i) fetch(x, channel, begin, i, stages, full);
    }
    // A loop that surely does something: what an epilogue loads is loaded once before it.
    int i = 0;
    do {
      if (threadIdx.x == 0 && i > 0 && i - 1 + kStages < count) {
        barrier_wait(&empty[(i - 1) % kStages], (u32)((i - 1) / kStages % 2));
        fetch(x, channel, begin, i - 1 + kStages, stages, full);
      }
      __syncwarp();
      barrier_wait(&full[i % kStages], (u32)(i / kStages % 2));
      compute(i % kStages * kStageBytes, begin + i);
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(&empty[i % kStages]);
    } while (++i < count);
  }
};

// Of 16 bits, and weights of the same type. A tap of eight channels is a product: of pixels, whose
// eight channels are a line of A, with a diagonal of the weights. One instruction has two taps of
// 16 pixels, eight of them kLines lines below the others. The products of zeros cost less than to
// load, convert and multiply elements one by one, and a lane holds two weights in a word. Sums are
// those of exact products, in f32.
template <class Geometry, typename Element, int kChannels, int kColumns, int kDeep, int kLines,
          int kTogether, int kWarps, int kStages, int kEach, class Operands, class Epilogue>
struct ConvolveLastMma {
  typedef BoxesOfLast<Geometry, Element, kChannels, kColumns, kDeep, kLines, kTogether, kStages,
                      kEach>
      Boxes;
  typedef typename Boxes::Place Place;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTileRows = kChannels, kTileColumns = Boxes::kTileLines * kColumns;
  static constexpr int kSharedBytes = kStages * Boxes::kStageBytes;
  static constexpr int kBoxColumns = Boxes::kBoxColumns, kBoxLines = Boxes::kBoxLines;
  static constexpr int kTaps2 = Boxes::kTaps2, kGroups = Geometry::kShape.groups;
  static constexpr int kPairs = kChannels / 16;
  static constexpr int kTwos = kTaps2 > 1 ? kTaps2 / 2 : 1;  // of taps
  typedef u32 Diagonals[2][Boxes::kTaps];
  static_assert(sizeof(Element) == 2 && kWarps % kPairs == 0, "warps have the same channels");

  static __device__ __forceinline__ void run(const TensorMap& x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    const int warp = (int)threadIdx.x / 32, pair = warp % kPairs;
    const int channel = (int)blockIdx.x % Boxes::kChunks * kChannels + pair * 16;
    Diagonals by;
    load_weights(operands, channel, by);
    Boxes::template walk<kWarps>(x, shared, [&](int stage, int tile) {
      int place = warp / kPairs;
      do {
        convolve(epilogue, shared_address(shared) + (u32)(stage + pair * 32), by,
                 Place(tile, place), channel);
        place += kWarps / kPairs;
      } while (Boxes::kPlaces > kWarps / kPairs && place < Boxes::kPlaces);
    });
  }

  // A lane has one number of a diagonal, or none.
  static __device__ __forceinline__ void load_weights(const Operands& operands, int channel,
                                                      Diagonals& by) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int own = channel + c * 8 + lane / 4;
      const bool real = lane / 8 == lane % 4 && own < kGroups;
#pragma unroll
      for (int t = 0; t < Boxes::kTaps; ++t) {
        const float w = real ? operands.weight((i64)own * Boxes::kTaps + t) : 0.0f;
        Pack<Element, 2> two;
        store_as(two.v[0], lane / 4 % 2 == 0 ? w : 0.0f);
        store_as(two.v[1], lane / 4 % 2 != 0 ? w : 0.0f);
        memcpy(&by[c][t], &two, 4);
      }
    }
  }

  static __device__ __forceinline__ void load(u32 at, u32 (&r)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  }

  // Eight lanes each name lines of A: of the upper and the lower lines, of one tap and the next; at
  // the last tap, of eight channels and the next. So loads leave A as an instruction takes it.
  static __device__ __forceinline__ void convolve(const Epilogue& epilogue, u32 box,
                                                  const Diagonals& by, const Place& place,
                                                  int channel) {
    const int lane = threadIdx.x % 32;
    const u32 own = box + place.window(lane / 8 % 2 * kLines, lane % 8);
    const u32 two = own + (u32)(lane / 16 * (Boxes::kApart2 * Boxes::kPixelBytes));
    const u32 last = own + (u32)(lane / 16 * 16);
    float acc[kLines][2][4] = {};
#pragma unroll
    for (int row = 0; row < Boxes::kRows; ++row) {
      if (Boxes::takes_row(row)) {
        u32 at[kTwos][2][4], rest[4];
#pragma unroll
        for (int t = 0; t < kTaps2; t += 2) {
          const u32 tap = (u32)(t * Boxes::kApart2 * Boxes::kPixelBytes);
          if (t + 1 < kTaps2) {
            load(Boxes::swizzled(two + tap, row), at[t / 2][0]);
            load(Boxes::swizzled((two + tap) ^ 16, row), at[t / 2][1]);
          } else {
            load(Boxes::swizzled(last + tap, row), rest);
          }
        }
        add_row(row, at, rest, by, acc);
      }
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        if (l * Boxes::kStep1 + Boxes::kReach == row) leave(epilogue, place, l, channel, acc[l]);
      }
    }
  }

  static __device__ __forceinline__ void add_row(int row, const u32 (&at)[kTwos][2][4],
                                                 const u32 (&rest)[4], const Diagonals& by,
                                                 float (&acc)[kLines][2][4]) {
#pragma unroll
    for (int t = 0; t < kTaps2; t += 2) {
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        if (Boxes::tap_of(row, l) < 0) continue;
        const int tap = Boxes::tap_of(row, l) * kTaps2 + t;
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          if (t + 1 < kTaps2) {
            const int next = t + 1 < kTaps2 ? tap + 1 : tap;
            multiply(acc[l][c], at[t + 1 < kTaps2 ? t / 2 : 0][c], by[c][tap], by[c][next],
                     Element{});
          } else {
            multiply_eight(acc[l][c], rest[2 * c], rest[2 * c + 1], by[c][tap], Element{});
          }
        }
      }
    }
  }

  // A quad's lanes have two channels each of 16, of a pixel of the upper and one of the lower
  // lines; then each has eight of one. Through shared memory that takes a quarter of the
  // instructions of an exchange among lanes. Of each pixel's four pieces of 16 bytes the places
  // differ, so that neither side has conflicts.
  static __device__ __forceinline__ void leave(const Epilogue& epilogue, const Place& place,
                                               int line, int channel, const float (&acc)[2][4]) {
    __shared__ __align__(16) float sums[kWarps][16 * 16];
    const int lane = threadIdx.x % 32;
    u8* const own = reinterpret_cast<u8*>(sums[threadIdx.x / 32]);
    const int row = lane / 4, piece = (lane % 4 / 2) ^ (row / 2 % 2 * 3);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int to = (row * 64 + piece * 16 + lane % 2 * 8) ^ (i % 2 * 32);
      *reinterpret_cast<float2*>(own + i / 2 * 512 + to) =
          float2{acc[i % 2][i / 2 * 2], acc[i % 2][i / 2 * 2 + 1]};
    }
    __syncwarp();
    const int from = lane / 2 * 64 + ((lane % 2 * 2) ^ (lane / 4 % 2 * 3)) * 16;
    const float4 low = *reinterpret_cast<const float4*>(own + from);
    const float4 high = *reinterpret_cast<const float4*>(own + (from ^ 16));
    __syncwarp();
    float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    place.leave(epilogue, lane / 16 * kLines, line, lane / 2 % 8, channel + lane % 2 * 8, v);
  }
};
