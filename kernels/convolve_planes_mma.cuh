// Convolutions of one channel in a group over planes of 16-bit elements that a block holds in
// shared memory, as convolve_planes.cuh has them, which comes before this, by tensor cores: a line
// of a window, moved along by one column after another, is a matrix with a band of weights, and
// what it multiplies are lines of the plane as they lie.
//
// Geometry: kShape, of which lines of the input have an even number of elements. Weights are
// Elements. Launch: as ConvolvePlanes, with this kSharedBytes.
//
// A warp has 16 lines of a plane's result, eight columns at a time: for each line of the window 16
// or 32 columns of the input times a band of as many rows and eight columns. The products of zeros
// cost less than to load, convert and multiply elements one by one: five lines of a window are five
// instructions for 128 results, and each element is loaded once for all columns. Sums are those of
// exact products, in f32.

template <class Geometry, typename Element, int kPlanes, class Operands, class Epilogue>
struct ConvolvePlanesMma
    : ConvolvePlanes<Geometry, Element, kPlanes, 16, 8, 1, Operands, Epilogue> {
  typedef ConvolvePlanes<Geometry, Element, kPlanes, 16, 8, 1, Operands, Epilogue> Base;
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr int kThreads = Base::kThreads, kWarps = kThreads / 32;
  static constexpr int kHeight = kShape.in[1], kWidth = kShape.in[2];
  static constexpr int kOutLines = kShape.out[1], kOutColumns = kShape.out[2];
  static constexpr int kTaps1 = kShape.taps[1], kTaps2 = kShape.taps[2];
  typedef typename Base::Made Made;
  // Tiles begin at even columns of the input, this many before their first result's own.
  static constexpr int kBefore = (kShape.padding[2] + 1) / 2 * 2;
  static constexpr int kFirst = kBefore - kShape.padding[2];  // of a band, the first tap's row
  static constexpr int kRows =
      kFirst + 7 * kShape.stride[2] + (kTaps2 - 1) * kShape.dilation[2] + 1;
  static constexpr int kChunks = kRows <= 16 ? 2 : 4;  // of eight columns of the input
  static constexpr int kAdvance = kShape.stride[2];    // chunks from a tile to the next
  static constexpr int kTiles = (kOutColumns + 7) / 8;
  static constexpr int kDown = (kOutLines + 15) / 16;
  // A line of zeros, for what lies above or below a plane, and room on both sides of it.
  static constexpr int kZeroBytes = (kWidth * 2 + 64 + 127) / 128 * 128;
  static constexpr int kSharedBytes = kZeroBytes + Base::kSharedBytes;
  static constexpr bool kPairs = kOutColumns % 2 == 0 && Base::kPitch % 2 == 0;
  static_assert(sizeof(Element) == 2 && kWidth % 2 == 0 && kRows <= 32 && kAdvance <= kChunks,
                "pairs of columns, of a band that fits");
  typedef u32 Band[kTaps1][kChunks];

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    u8* const planes = shared + kZeroBytes;
    u8* const results = planes + Base::kInBytes;
    const int first = (int)blockIdx.x * kPlanes, count = min(kPlanes, Base::kAll - first);
    for (int i = threadIdx.x; i < kZeroBytes / 16; i += kThreads) {
      reinterpret_cast<uint4*>(shared)[i] = uint4{};
    }
    // Neighbouring pieces of a plane are the same warp's, which makes its bands once.
    const int all = count * kShape.filters * kDown, each = (all + kWarps - 1) / kWarps;
    const int begin = (int)threadIdx.x / 32 * each, end = min(begin + each, all);
    Band band;
    if (begin < end) make_band(operands, first, begin / kDown, band);
    Base::fetch(x + (i64)first * Base::kIn, count * Base::kIn, reinterpret_cast<Element*>(planes));
#pragma unroll 1
    for (int i = begin; i < end; ++i) {
      const int filter = i / kDown;
      if (i > begin && i % kDown == 0) make_band(operands, first, filter, band);
      convolve(epilogue, planes + filter / kShape.filters * Base::kIn * 2, shared + 16, band,
               first * kShape.filters + filter, filter * Base::kPitch, i % kDown * 16, results);
    }
    if constexpr (Made::kHere) {
      typedef typename Made::Type Result;
      constexpr int kOfPlane = kShape.filters * Base::kOut;
      Base::store(reinterpret_cast<const Result*>(results), count * kOfPlane,
                  epilogue.result() + (i64)first * kOfPlane);
    } else {
      __syncthreads();
      Base::store_sums(epilogue, first, count, reinterpret_cast<const float*>(results));
    }
  }

  // A lane's part of the bands: column lane / 4, two neighbouring rows of each eight.
  static __device__ __forceinline__ void make_band(const Operands& operands, int first, int filter,
                                                   Band& band) {
    const int lane = threadIdx.x % 32;
    const i64 weights = (i64)(first * kShape.filters + filter) % (kShape.groups * kShape.filters) *
                        (kTaps1 * kTaps2);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int t1 = 0; t1 < kTaps1; ++t1) {
        Pack<Element, 2> two;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int distance = chunk * 8 + lane % 4 * 2 + e - kFirst - lane / 4 * kShape.stride[2];
          const int t2 = distance / kShape.dilation[2];
          const bool real = distance >= 0 && t2 < kTaps2 && distance % kShape.dilation[2] == 0;
          store_as(two.v[e], real ? operands.weight(weights + t1 * kTaps2 + t2) : 0.0f);
        }
        memcpy(&band[t1][chunk], &two, 4);
      }
    }
  }

  // 16 lines of the result.
  static __device__ __forceinline__ void convolve(const Epilogue& epilogue, const u8* plane,
                                                  const u8* zeros, const Band& band, int row,
                                                  int place, int line, u8* results) {
    const int lane = threadIdx.x % 32;
    const u8* from[kTaps1][2];
#pragma unroll
    for (int t1 = 0; t1 < kTaps1; ++t1) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = (line + lane / 4 + 8 * half) * kShape.stride[1] - kShape.padding[1] +
                       t1 * kShape.dilation[1];
        const bool inside = (u32)at < (u32)kHeight;
        from[t1][half] =
            (inside ? plane + at * (kWidth * 2) : zeros) + (lane % 4 * 2 - kBefore) * 2;
      }
    }
    u32 at[kTaps1][kChunks][2];
    float sums[2][4];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int t1 = 0; t1 < kTaps1; ++t1) {
#pragma unroll
        for (int chunk = 0; chunk < kChunks; ++chunk) {
          const bool known = tile > 0 && chunk + kAdvance < kChunks;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            at[t1][chunk][half] = known ? at[t1][chunk + kAdvance][half]
                                        : load(from[t1][half], tile * kAdvance + chunk);
          }
        }
      }
      float(&acc)[4] = sums[tile % 2];
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[i] = 0;
#pragma unroll
      for (int t1 = 0; t1 < kTaps1; ++t1) {
#pragma unroll
        for (int chunk = 0; chunk < kChunks; chunk += 2) {
          const u32 lines[4] = {at[t1][chunk][0], at[t1][chunk][1], at[t1][chunk + 1][0],
                                at[t1][chunk + 1][1]};
          multiply(acc, lines, band[t1][chunk], band[t1][chunk + 1], Element{});
        }
      }
      if (tile % 2 == 1 || tile + 1 == kTiles) {
        leave(epilogue, sums, tile / 2 * 2, row, place, line, results);
      }
    }
  }

  // Two neighbours of each of eight lines, in the chunk of that number.
  static __device__ __forceinline__ u32 load(const u8* from, int chunk) {
    const int column = chunk * 8 - kBefore;
    const bool crosses = column < 0 || column + 8 > kWidth;
    if (crosses && (u32)(column + (int)threadIdx.x % 4 * 2) >= (u32)kWidth) return 0;
    return *reinterpret_cast<const u32*>(from + chunk * 16);
  }

  // Two tiles of sums, from the even one on, of which the last may have no second.
  static __device__ __forceinline__ void leave(const Epilogue& epilogue, const float (&sums)[2][4],
                                               int tile, int row, int place, int line,
                                               u8* results) {
    const int lane = threadIdx.x % 32;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = tile + i / 4 < kTiles ? sums[i / 4][i % 4] : 0.0f;
    const int to = place + (line + lane / 4) * kOutColumns + tile * 8 + lane % 4 * 2;
    const int lines = kOutLines - line - lane / 4, columns = kOutColumns - tile * 8 - lane % 4 * 2;
    if constexpr (Made::kHere) {
      Pack<typename Made::Type, 8> pack;
      epilogue(row / kShape.filters, (i64)(row % kShape.filters), (i64)0, v, Eight{}, pack);
      put(pack, reinterpret_cast<typename Made::Type*>(results) + to, lines, columns);
    } else {
      Pack<float, 8> pack;
#pragma unroll
      for (int i = 0; i < 8; ++i) pack.v[i] = v[i];
      put(pack, reinterpret_cast<float*>(results) + to, lines, columns);
    }
  }
  template <typename T>
  static __device__ __forceinline__ void put(const Pack<T, 8>& pack, T* at, int lines,
                                             int columns) {
    Pack<T, 2> twos[4];
    memcpy(twos, &pack, sizeof(pack));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      T* const to = at + i % 2 * 8 * kOutColumns + i / 2 * 8;
      const bool inside = lines > i % 2 * 8 && columns > i / 2 * 8;
      if (kPairs) {
        if (inside) store_pack(to, twos[i]);
      } else if (inside) {
        to[0] = twos[i].v[0];
        if (columns > i / 2 * 8 + 1) to[1] = twos[i].v[1];
      }
    }
  }
};
