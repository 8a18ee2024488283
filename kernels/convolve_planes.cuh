// Convolutions of one channel in a group over small planes, with an epilogue (epilogue.cuh), for
// sm_80 and later: bound by memory, whatever the length of a line. Needs elements.cuh, quick.cuh,
// accumulators.cuh, epilogue.cuh, mma.cuh and convolve.cuh before it.
//
// Element: of the input, whose planes (a channel of an image) follow each other without gaps, the
// first at a multiple of 16 bytes; planes have two axes. Operands is a struct that the generator
// writes:
//   __device__ float weight(i64 element) const;  // numbered in its own order
// Geometry: kShape. An epilogue may have a Made (epilogue.cuh): its operator is then called for
// column 0 with any eight pixels of a plane, perhaps fewer, and reads only what is the same for all
// of them. A block has kPlanes planes; so many of the input begin at multiples of 16 bytes, and
// so do their results where there is a Made. A thread computes kLines lines of kColumns
// neighbouring pixels of one filter. kAlign: lines of the input, and what threads load of them,
// begin at multiples of so many elements (1, 2 or 4).
// Launch: kThreads threads for each kPlanes planes, kSharedBytes of dynamic shared memory.
//
// Traffic: planes come as one stream of 16 bytes a thread, each once, and windows overlap in shared
// memory alone. Results leave through it, too: as a stream of 16 bytes a thread where the epilogue
// is the same for all pixels, which then takes its operands once for all that a thread computes;
// else as sums, of which the epilogue takes eight neighbours. A multiprocessor runs many blocks:
// while one waits for its planes, others compute.

template <class Geometry, typename Element, int kPlanes, int kLines, int kColumns, int kAlign,
          class Operands, class Epilogue>
struct ConvolvePlanes {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr int kThreads = 128;
  static constexpr int kTileRows = kPlanes, kTileColumns = kLines * kColumns;
  static constexpr int kIn = kShape.in[1] * kShape.in[2], kOut = kShape.pixels();
  static constexpr int kAll = kShape.images * kShape.groups;  // planes
  typedef MadeIn<Epilogue> Made;
  static constexpr int kInBytes = kPlanes * kIn * (int)sizeof(Element);
  // A plane's results follow the one before as in memory; sums begin at multiples of 16 bytes.
  static constexpr int kPitch = Made::kHere ? kOut : (kOut + 3) / 4 * 4;
  static constexpr int kResultBytes = Made::kHere ? (int)sizeof(typename Made::Type) : 4;
  static constexpr int kSharedBytes =
      kInBytes + (kPlanes * kShape.filters * kPitch * kResultBytes + 15) / 16 * 16;
  // Strips of a plane.
  static constexpr int kAcross = (kShape.out[2] + kColumns - 1) / kColumns;
  static constexpr int kStrips = (kShape.out[1] + kLines - 1) / kLines * kAcross;
  static_assert(kShape.channels == 1 && kShape.in[0] == 1 && kShape.taps[0] == 1, "planes");
  static_assert(kInBytes % 16 == 0, "planes of a block begin at multiples of 16 bytes");

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    const int first = (int)blockIdx.x * kPlanes, planes = min(kPlanes, kAll - first);
    fetch(x + (i64)first * kIn, planes * kIn, reinterpret_cast<Element*>(shared));
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    for (int i = threadIdx.x; i < planes * kShape.filters * kStrips; i += kThreads) {
      convolve(operands, epilogue, reinterpret_cast<const Element*>(shared), first, i,
               shared + kInBytes);
    }
    __syncthreads();
    if constexpr (Made::kHere) {
      store_stream(epilogue, first, planes, shared + kInBytes);
    } else {
      store_sums(epilogue, first, planes, reinterpret_cast<const float*>(shared + kInBytes));
    }
  }

  // So many elements; what remains after whole pieces, at the very end, comes one by one.
  static __device__ __forceinline__ void fetch(const Element* x, int count, Element* to) {
    constexpr int kPiece = 16 / (int)sizeof(Element);
    for (int i = threadIdx.x * kPiece; i < count; i += kThreads * kPiece) {
      if ((i64)kAll * kIn % kPiece == 0 || i + kPiece <= count) {
        copy_async<16>(to + i, x + i, 16);
      } else {
        for (int j = i; j < count; ++j) to[j] = x[j];
      }
    }
  }

  // What the windows of a strip cover of a line, from kBefore on.
  static constexpr int kStep = kShape.stride[2], kApart = kShape.dilation[2];
  static constexpr int kSpan = (kColumns - 1) * kStep + (kShape.taps[2] - 1) * kApart + 1;
  static constexpr int kBefore = (kAlign - kShape.padding[2] % kAlign) % kAlign;
  static constexpr int kCount = (kBefore + kSpan + kAlign - 1) / kAlign * kAlign;

  static __device__ __forceinline__ void load_line(const Element* line, int start,
                                                   float (&at)[kCount]) {
    constexpr ConvolutionShape shape = Geometry::kShape;
#pragma unroll
    for (int i = 0; i < kCount; i += kAlign) {
      // Only the first strip's first elements may lie before the line, and the last one's after it.
      constexpr int kLast = (kAcross - 1) * kColumns * kStep;
      const int least = i - shape.padding[2] - kBefore;
      const bool crosses = least < 0 || kLast + least >= shape.in[2];
      const int place = start - kBefore + i;
      Pack<Element, kAlign> pack{};
      if (!crosses || (u32)place < (u32)shape.in[2]) pack = load_pack<kAlign>(line + place);
#pragma unroll
      for (int j = 0; j < kAlign; ++j) at[i + j] = pack.get(j);
    }
  }

  static __device__ __forceinline__ void convolve(const Operands& operands,
                                                  const Epilogue& epilogue, const Element* in,
                                                  int first, int item, u8* results) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    constexpr int kTaps1 = shape.taps[1], kTaps2 = shape.taps[2];
    const int filter = item / kStrips, strip = item % kStrips;
    const int line = strip / kAcross * kLines;
    const int column = kAcross == 1 ? 0 : strip % kAcross * kColumns;
    const i64 weights =
        (i64)(first * shape.filters + filter) % (shape.groups * shape.filters) * (kTaps1 * kTaps2);
    float by[kTaps1][kTaps2];
#pragma unroll
    for (int t = 0; t < kTaps1 * kTaps2; ++t) {
      by[t / kTaps2][t % kTaps2] = operands.weight(weights + t);
    }
    in += filter / shape.filters * kIn;
    float acc[kLines][kColumns] = {};
    const int top = line * shape.stride[1] - shape.padding[1];
    constexpr int kCovered = (kLines - 1) * shape.stride[1] + (kTaps1 - 1) * shape.dilation[1] + 1;
#pragma unroll
    for (int row = 0; row < kCovered; ++row) {
      if ((u32)(top + row) >= (u32)shape.in[1]) continue;
      float at[kCount];
      load_line(in + (top + row) * shape.in[2], column * kStep - shape.padding[2], at);
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        const int distance = row - l * shape.stride[1];
        if (distance < 0 || distance % shape.dilation[1] != 0) continue;
        const int t1 = distance / shape.dilation[1];
        if (t1 >= kTaps1) continue;
#pragma unroll
        for (int t2 = 0; t2 < kTaps2; ++t2) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            acc[l][j] += at[kBefore + j * kStep + t2 * kApart] * by[t1][t2];
          }
        }
      }
    }
    const int to = filter * kPitch + line * shape.out[2] + column;
    if constexpr (Made::kHere) {
      typedef typename Made::Type Result;
      constexpr int kSums = kLines * kColumns;
      Result made[kLines][kColumns];
#pragma unroll
      for (int s = 0; s < kSums; s += 8) {
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          v[e] = s + e < kSums ? acc[(s + e) / kColumns][(s + e) % kColumns] : 0;
        }
        Pack<Result, 8> pack;
        const int row = first * shape.filters + filter;
        epilogue(row / shape.filters, (i64)(row % shape.filters), (i64)0, v, Eight{}, pack);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          if (s + e < kSums) made[(s + e) / kColumns][(s + e) % kColumns] = pack.v[e];
        }
      }
      leave(made, line, column, reinterpret_cast<Result*>(results) + to);
    } else {
      leave(acc, line, column, reinterpret_cast<float*>(results) + to);
    }
  }

  // The strip's results, two at a time where all pairs of them lie at even places.
  template <typename T>
  static __device__ __forceinline__ void leave(const T (&results)[kLines][kColumns], int line,
                                               int column, T* to) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    constexpr int kPair = kColumns % 2 == 0 && shape.out[2] % 2 == 0 ? 2 : 1;
#pragma unroll
    for (int l = 0; l < kLines; ++l) {
      if (shape.out[1] % kLines != 0 && line + l >= shape.out[1]) continue;
#pragma unroll
      for (int j = 0; j < kColumns; j += kPair) {
        if (shape.out[2] % kColumns != 0 && column + j >= shape.out[2]) continue;
        Pack<T, kPair> pack;
#pragma unroll
        for (int e = 0; e < kPair; ++e) pack.v[e] = results[l][j + e];
        store_pack(to + l * shape.out[2] + j, pack);
      }
    }
  }

  static __device__ __forceinline__ void store_stream(const Epilogue& epilogue, int first,
                                                      int planes, const u8* results) {
    typedef typename Made::Type Result;
    constexpr int kPiece = 16 / (int)sizeof(Result);
    static_assert((i64)kPlanes * kShape.filters * kOut % kPiece == 0, "whole pieces");
    const Result* const from = reinterpret_cast<const Result*>(results);
    Result* const to = epilogue.result() + (i64)first * kShape.filters * kOut;
    const int count = planes * kShape.filters * kOut;
    for (int i = threadIdx.x * kPiece; i < count; i += kThreads * kPiece) {
      if ((i64)kAll * kShape.filters * kOut % kPiece == 0 || i + kPiece <= count) {
        store_pack(to + i, load_pack<kPiece>(from + i));
      } else {
        for (int j = i; j < count; ++j) to[j] = from[j];
      }
    }
  }

  // Eight neighbours a thread; those at the end of a plane come last, so that few warps have any.
  static __device__ __forceinline__ void store_sums(const Epilogue& epilogue, int first, int planes,
                                                    const float* sums) {
    constexpr int kEights = kOut / 8, kRest = kOut % 8;
    const int rows = planes * kShape.filters, row0 = first * kShape.filters;
    if constexpr (kEights > 0) {
      for (int i = threadIdx.x; i < rows * kEights; i += kThreads) {
        const int row = i / kEights, column = i % kEights * 8;
        float v[8];
        const float4* const from = reinterpret_cast<const float4*>(sums + row * kPitch + column);
        const float4 low = from[0], high = from[1];
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
        epilogue((row0 + row) / kShape.filters, (i64)((row0 + row) % kShape.filters), (i64)column,
                 v, Eight{});
      }
    }
    if constexpr (kRest > 0) {
      for (int row = threadIdx.x; row < rows; row += kThreads) {
        float v[8] = {};
#pragma unroll
        for (int j = 0; j < kRest; ++j) v[j] = sums[row * kPitch + kEights * 8 + j];
        epilogue((row0 + row) / kShape.filters, (i64)((row0 + row) % kShape.filters),
                 (i64)(kEights * 8), v, kRest);
      }
    }
  }
};
