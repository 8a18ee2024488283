// Convolutions of one channel in a group over small planes, with an epilogue (epilogue.cuh), for
// sm_80 and later: bound by memory, whatever the length of a line. Needs elements.cuh, quick.cuh,
// accumulators.cuh, columns.cuh, epilogue.cuh, mma.cuh, hopper.cuh and convolve.cuh before it.
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
// Traffic: planes come as one stream, each once, and windows overlap in shared memory alone.
// Results leave through it, too: as a stream where the epilogue is the same for all pixels, which
// then takes its operands once for all that a thread computes; else as sums, of which the epilogue
// takes eight neighbours. From sm_90 on a block's stream is one copy. A multiprocessor runs many
// blocks: while one waits for its planes, others compute. A thread loads and converts a line of the
// input once for all windows of its strip, and has sums of those alone that the line belongs to.

#if __CUDA_ARCH__ >= 900
constexpr bool kHasBulkCopies = true;
#else
constexpr bool kHasBulkCopies = false;
#endif

// Sums of `rows` planes, from row0 on, to the epilogue: eight neighbours a thread; those at the end
// of a plane come last, so that few warps have any. Planes are kPitch apart.
template <class Geometry, int kThreads, int kPitch, class Epilogue>
__device__ __forceinline__ void store_sums(const Epilogue& epilogue, int row0, int rows,
                                           const float* sums) {
  constexpr int kFilters = Geometry::kShape.filters, kOut = Geometry::kShape.pixels();
  constexpr int kEights = kOut / 8, kRest = kOut % 8;
  if constexpr (kEights > 0) {
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * kEights; i += kThreads) {
      const int row = i / kEights, column = i % kEights * 8;
      float v[8];
      const float4* const from = reinterpret_cast<const float4*>(sums + row * kPitch + column);
      const float4 low = from[0], high = from[1];
      v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
      v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
      epilogue((row0 + row) / kFilters, (i64)((row0 + row) % kFilters), (i64)column, v, Eight{});
    }
  }
  if constexpr (kRest > 0) {
#pragma unroll 1
    for (int row = threadIdx.x; row < rows; row += kThreads) {
      float v[8] = {};
#pragma unroll
      for (int j = 0; j < kRest; ++j) v[j] = sums[row * kPitch + kEights * 8 + j];
      epilogue((row0 + row) / kFilters, (i64)((row0 + row) % kFilters), (i64)(kEights * 8), v,
               kRest);
    }
  }
}

template <class Geometry, typename Element, int kPlanes, int kLines, int kColumns, int kAlign,
          class Operands, class Epilogue>
struct ConvolvePlanes {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr int kThreads = 128;
  static constexpr int kTileRows = kPlanes, kTileColumns = kLines * kColumns;
  static constexpr int kIn = kShape.in[1] * kShape.in[2], kOut = kShape.pixels();
  static constexpr int kOutLines = kShape.out[1], kOutColumns = kShape.out[2];
  static constexpr int kAll = kShape.images * kShape.groups;  // planes
  typedef MadeIn<Epilogue> Made;
  static constexpr int kInBytes = kPlanes * kIn * (int)sizeof(Element);
  // A plane's results follow the one before as in memory; sums begin at multiples of 16 bytes.
  static constexpr int kPitch = Made::kHere ? kOut : (kOut + 3) / 4 * 4;
  static constexpr int kResultBytes = Made::kHere ? (int)sizeof(typename Made::Type) : 4;
  static constexpr int kSharedBytes =
      kInBytes + (kPlanes * kShape.filters * kPitch * kResultBytes + 15) / 16 * 16;
  // Strips of a plane.
  static constexpr int kAcross = (kOutColumns + kColumns - 1) / kColumns;
  static constexpr int kDown = (kOutLines + kLines - 1) / kLines;
  static constexpr int kStrips = kDown * kAcross;
  static constexpr bool kWholeLines = kColumns == kOutColumns;
  // A thread has two whole planes where only those begin at even elements.
  static constexpr bool kTwo =
      kStrips == 1 && kShape.filters == 1 && kPlanes % 2 == 0 && (kIn % 2 != 0 || kOut % 2 != 0);
  static_assert(kShape.channels == 1 && kShape.in[0] == 1 && kShape.taps[0] == 1, "planes");
  static_assert(kInBytes % 16 == 0, "planes of a block begin at multiples of 16 bytes");

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    const int first = (int)blockIdx.x * kPlanes, planes = min(kPlanes, kAll - first);
    fetch(x + (i64)first * kIn, planes * kIn, reinterpret_cast<Element*>(shared));
    constexpr int kEach = kTwo ? 2 : 1;
    const int strips = (planes * kShape.filters + kEach - 1) / kEach * kStrips;
#pragma unroll 1
    for (int i = threadIdx.x; i < strips; i += kThreads) {
      const int filter = i / kStrips * kEach;
      const Element* const in = reinterpret_cast<const Element*>(shared);
      Strip<0>::convolve(operands, epilogue, in, first, filter, i % kStrips, shared + kInBytes);
      if constexpr (kTwo) {
        Strip<1>::convolve(operands, epilogue, in, first, filter + 1, 0, shared + kInBytes);
      }
    }
    if constexpr (Made::kHere) {
      typedef typename Made::Type Result;
      constexpr int kOfPlane = kShape.filters * kOut;
      store(reinterpret_cast<const Result*>(shared + kInBytes), planes * kOfPlane,
            epilogue.result() + (i64)first * kOfPlane);
    } else {
      __syncthreads();
      store_sums<Geometry, kThreads, kPitch>(epilogue, first * kShape.filters,
                                             planes * kShape.filters,
                                             reinterpret_cast<const float*>(shared + kInBytes));
    }
  }

  // So many elements, which are there when it returns; what remains after whole 16 bytes, at the
  // very end, comes one by one. One copy is slower where far more is read than written.
  static __device__ __forceinline__ void fetch(const Element* x, int count, Element* to) {
    constexpr int kPiece = 16 / (int)sizeof(Element);
    constexpr bool kRest = (i64)kAll * kIn % kPiece != 0;
    const int whole = kRest ? count / kPiece * kPiece : count;
    if constexpr (kRest) {
      if (whole + (int)threadIdx.x < count) to[whole + threadIdx.x] = x[whole + threadIdx.x];
    }
    if constexpr (kHasBulkCopies && kIn <= 2 * kShape.filters * kOut) {
      __shared__ u64 full;
      if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        barrier_init_done();
        barrier_expect(&full, whole * (int)sizeof(Element));
        if (whole > 0) load_bulk(to, x, whole * (int)sizeof(Element), &full);
      }
      __syncthreads();
      barrier_wait(&full, 0);
    } else {
#pragma unroll 4
      for (int i = threadIdx.x * kPiece; i < whole; i += kThreads * kPiece) {
        copy_async<16>(to + i, x + i, 16);
      }
      copies_commit();
      copies_wait<0>();
      __syncthreads();
    }
  }

  // The same from shared memory, once all threads have written there.
  template <typename Result>
  static __device__ __forceinline__ void store(const Result* from, int count, Result* to) {
    constexpr int kPiece = 16 / (int)sizeof(Result);
    static_assert((i64)kPlanes * kShape.filters * kOut % kPiece == 0, "whole pieces");
    constexpr bool kRest = (i64)kAll * kShape.filters * kOut % kPiece != 0;
    const int whole = kRest ? count / kPiece * kPiece : count;
    if constexpr (kHasBulkCopies) stores_fence();
    __syncthreads();
    if constexpr (kHasBulkCopies) {
      if (threadIdx.x == 0) {
        if (whole > 0) store_bulk(to, from, whole * (int)sizeof(Result));
        stores_commit();
      }
    } else {
#pragma unroll 4
      for (int i = threadIdx.x * kPiece; i < whole; i += kThreads * kPiece) {
        store_pack(to + i, load_pack<kPiece>(from + i));
      }
    }
    if constexpr (kRest) {
      if (whole + (int)threadIdx.x < count) to[whole + threadIdx.x] = from[whole + threadIdx.x];
    }
    if constexpr (kHasBulkCopies) stores_wait_read<0>();
  }

  // What the windows of a strip cover of a line; where strips have whole lines, of what there is of
  // it and its padding, else from kBefore on.
  static constexpr int kStep = kShape.stride[2], kApart = kShape.dilation[2];
  static constexpr int kPad = kShape.padding[2], kWidth = kShape.in[2];
  static constexpr int kSpan = (kColumns - 1) * kStep + (kShape.taps[2] - 1) * kApart + 1;
  static constexpr int kBefore = kWholeLines ? 0 : (kAlign - kPad % kAlign) % kAlign;
  static constexpr int kCount =
      kWholeLines ? kSpan : (kBefore + kSpan + kAlign - 1) / kAlign * kAlign;

  // kPlane: of the two that a thread has.
  template <int kPlane>
  struct Strip {
    static constexpr int kOddIn = kPlane * kIn % 2, kOddOut = kPlane * kPitch % 2;
    // Results begin at even places, but for the second plane's.
    static constexpr bool kPairs =
        kTwo || (kPitch % 2 == 0 && ((kColumns % 2 == 0 && kOutColumns % 2 == 0) ||
                                     (kWholeLines && kOutLines % kLines == 0 &&
                                      (kStrips == 1 || kLines * kColumns % 2 == 0))));

    // A whole line; `row` is known in the code where strips have whole planes.
    static __device__ __forceinline__ void load_whole(const Element* plane, int row, bool inside,
                                                      float (&at)[kCount]) {
      constexpr bool kEven = kWidth % 2 == 0 || (kStrips == 1 && (kTwo || kIn % 2 == 0));
      constexpr int kPack = kEven ? 2 : 1;
      const int odd = kEven && kWidth % 2 != 0 ? (kOddIn + row * kWidth) % 2 : kEven * kOddIn;
#pragma unroll
      for (int i = 0; i < kCount; ++i) at[i] = 0;
#pragma unroll
      for (int i = 0; i < kWidth + 1; i += kPack) {
        if (i - odd >= kWidth) continue;
        Pack<Element, kPack> pack{};
        if (inside) pack = load_pack<kPack>(plane + row * kWidth - odd + i);
#pragma unroll
        for (int e = 0; e < kPack; ++e) {
          const int column = i + e - odd;
          const bool covered = column >= 0 && column < kWidth && column + kPad < kCount;
          if (covered) at[column + kPad] = pack.get(e);
        }
      }
    }

    static __device__ __forceinline__ void load_part(const Element* line, int start, bool inside,
                                                     float (&at)[kCount]) {
#pragma unroll
      for (int i = 0; i < kCount; i += kAlign) {
        // Only the first strip's first elements may lie before the line, and the last one's after.
        constexpr int kLast = (kAcross - 1) * kColumns * kStep;
        const int least = i - kPad - kBefore;
        const bool crosses = least < 0 || kLast + least >= kWidth;
        const int place = start - kBefore + i;
        Pack<Element, kAlign> pack{};
        if (inside && (!crosses || (u32)place < (u32)kWidth)) {
          pack = load_pack<kAlign>(line + place);
        }
#pragma unroll
        for (int j = 0; j < kAlign; ++j) at[i + j] = pack.get(j);
      }
    }

    static __device__ __forceinline__ void convolve(const Operands& operands,
                                                    const Epilogue& epilogue, const Element* in,
                                                    int first, int filter, int strip, u8* results) {
      constexpr ConvolutionShape shape = Geometry::kShape;
      constexpr int kTaps1 = shape.taps[1], kTaps2 = shape.taps[2];
      constexpr int kReach = (kTaps1 - 1) * shape.dilation[1];  // lines of a window, less one
      const int line = kDown == 1 ? 0 : strip / kAcross * kLines;
      const int column = kAcross == 1 ? 0 : strip % kAcross * kColumns;
      const i64 weights = (i64)(first * shape.filters + filter) % (shape.groups * shape.filters) *
                          (kTaps1 * kTaps2);
      float by[kTaps1][kTaps2];
#pragma unroll
      for (int t = 0; t < kTaps1 * kTaps2; ++t) {
        by[t / kTaps2][t % kTaps2] = operands.weight(weights + t);
      }
      in += filter / shape.filters * kIn;
      float acc[kLines][kColumns] = {};
      Leaving leaving{epilogue,
                      first * shape.filters + filter,
                      filter * kPitch + line * kOutColumns + column,
                      kOutLines - line,
                      kOutColumns - column,
                      results};
      const int top = line * shape.stride[1] - shape.padding[1];
#pragma unroll
      for (int row = 0; row < (kLines - 1) * shape.stride[1] + kReach + 1; ++row) {
        // Only the first strip's first lines may lie before the plane, and the last one's after it.
        constexpr int kLastTop = (kDown - 1) * kLines * shape.stride[1] - shape.padding[1];
        const bool crosses = row < shape.padding[1] || kLastTop + row >= shape.in[1];
        if (!crosses || kDown > 1) {
          const bool inside = !crosses || (u32)(top + row) < (u32)shape.in[1];
          float at[kCount];
          if constexpr (kWholeLines) {
            load_whole(in, kDown == 1 ? row - shape.padding[1] : top + row, inside, at);
          } else {
            load_part(in + (top + row) * kWidth, column * kStep - kPad, inside, at);
          }
          add(acc, at, by, row);
        }
#pragma unroll
        for (int l = 0; l < kLines; ++l) {
          if (l * shape.stride[1] + kReach == row) leaving.add(acc[l], l);
        }
      }
    }

    // What a line is to the strip's windows.
    static __device__ __forceinline__ void add(float (&acc)[kLines][kColumns],
                                               const float (&at)[kCount],
                                               const float (&by)[kShape.taps[1]][kShape.taps[2]],
                                               int row) {
      constexpr ConvolutionShape shape = Geometry::kShape;
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        const int distance = row - l * shape.stride[1];
        if (distance < 0 || distance % shape.dilation[1] != 0) continue;
        const int t1 = distance / shape.dilation[1];
        if (t1 >= shape.taps[1]) continue;
#pragma unroll
        for (int t2 = 0; t2 < shape.taps[2]; ++t2) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            const int i = j * kStep + t2 * kApart;
            if (kWholeLines && (i < kPad || i >= kPad + kWidth)) continue;
            acc[l][j] += at[kBefore + i] * by[t1][t2];
          }
        }
      }
    }

    // The strip's lines on their way to shared memory, two results at a time: where lines have an
    // odd number, the last waits for the next line's first.
    struct Leaving {
      const Epilogue& epilogue;
      int row, to;         // of the product, and the strip's first place among the results
      int lines, columns;  // of the plane, from the strip's first on
      u8* results;
      float waiting = 0;

      __device__ __forceinline__ void add(const float (&sums)[kColumns], int l) {
        constexpr bool kWaits = kPairs && kWholeLines && kColumns % 2 != 0;
        // A second plane at an odd place begins one later, after nothing.
        const int waits = kWaits ? (l * kColumns + kOddOut) % 2 : 0;
        const bool nothing = waits != 0 && l == 0;
        const int all = waits + kColumns;
        const int now = kWaits && l + 1 < kLines ? all / 2 * 2 : all;
        const bool real = kOutLines % kLines == 0 || l < lines;
#pragma unroll
        for (int s = 0; s < now; s += 8) {
          float v[8];
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            const int j = s + e - waits;
            v[e] = j < 0 ? waiting : s + e < now ? sums[j] : 0.0f;
          }
          const int left = kOutColumns % kColumns == 0 ? now - s : min(now - s, columns - s);
          if (real) leave(v, to + l * kOutColumns - waits + s, nothing && s == 0, left);
        }
        waiting = sums[kColumns - 1];
      }

      // Those of the eight from the first real one to the last.
      __device__ __forceinline__ void leave(float (&v)[8], int place, bool skips, int count) const {
        if constexpr (Made::kHere) {
          Pack<typename Made::Type, 8> pack;
          epilogue(row / kShape.filters, (i64)(row % kShape.filters), (i64)0, v, Eight{}, pack);
          put(pack, reinterpret_cast<typename Made::Type*>(results) + place, skips, count);
        } else {
          Pack<float, 8> pack;
#pragma unroll
          for (int e = 0; e < 8; ++e) pack.v[e] = v[e];
          put(pack, reinterpret_cast<float*>(results) + place, skips, count);
        }
      }
      template <typename T>
      static __device__ __forceinline__ void put(const Pack<T, 8>& pack, T* at, bool skips,
                                                 int count) {
        Pack<T, 2> twos[4];
        memcpy(twos, &pack, sizeof(pack));
#pragma unroll
        for (int e = 0; e < 8; e += 2) {
          const bool low = e < count && !(skips && e == 0), high = e + 1 < count;
          if (kPairs && low && high) {
            store_pack(at + e, twos[e / 2]);
          } else {
            if (low) at[e] = twos[e / 2].v[0];
            if (high) at[e + 1] = twos[e / 2].v[1];
          }
        }
      }
    };
  };
};
