// Convolutions of one channel in a group over small planes, with an epilogue (epilogue.cuh), for
// sm_80 and later: bound by memory, whatever the length of a line. Needs elements.cuh, quick.cuh,
// accumulators.cuh, epilogue.cuh, mma.cuh and convolve.cuh before it.
//
// Element: of the input, whose planes (a channel of an image) follow each other without gaps, the
// first at a multiple of 16 bytes; planes have two axes. Operands is a struct that the generator
// writes:
//   __device__ float weight(i64 element) const;  // numbered in its own order
// Geometry: kShape. A block holds kPlanes planes at a time, which begin at multiples of 16 bytes,
// and fetches the next ones meanwhile. A thread computes kLines lines of kColumns neighbouring
// pixels of one filter. kAlign: lines of the input, and what threads load of them, begin at
// multiples of so many elements (1, 2 or 4).
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, any number of blocks.
//
// Traffic: planes come as one stream of 16 bytes a thread, each once, and windows overlap in shared
// memory alone. Sums go through it, too: the epilogue takes eight neighbours of a plane, which are
// no multiple of a thread's pixels, and neighbouring threads store neighbours.

template <class Geometry, typename Element, int kPlanes, int kLines, int kColumns, int kAlign,
          class Operands, class Epilogue>
struct ConvolvePlanes {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr int kThreads = 128;
  static constexpr int kTileRows = kPlanes, kTileColumns = kLines * kColumns;
  static constexpr int kIn = kShape.in[1] * kShape.in[2], kOut = kShape.pixels();
  static constexpr int kAll = kShape.images * kShape.groups;  // planes
  static constexpr int kChunks = (kAll + kPlanes - 1) / kPlanes;
  static constexpr int kPiece = 16 / (int)sizeof(Element);
  static constexpr int kBufferBytes = kPlanes * kIn * (int)sizeof(Element);
  static constexpr int kPitch = (kOut + 3) / 4 * 4;  // of a plane's sums
  static constexpr int kSums = kPlanes * kShape.filters * kPitch;
  static constexpr int kSharedBytes = 2 * kBufferBytes + kSums * 4;
  // Strips of a plane.
  static constexpr int kAcross = (kShape.out[2] + kColumns - 1) / kColumns;
  static constexpr int kStrips = (kShape.out[1] + kLines - 1) / kLines * kAcross;
  static_assert(kShape.channels == 1 && kShape.in[0] == 1 && kShape.taps[0] == 1, "planes");
  static_assert(kBufferBytes % 16 == 0, "chunks begin at multiples of 16 bytes");

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    float* const sums = reinterpret_cast<float*>(shared + 2 * kBufferBytes);
    fetch(x, blockIdx.x, shared);
    int buffer = 0;
    for (int chunk = blockIdx.x; chunk < kChunks; chunk += gridDim.x, buffer ^= 1) {
      copies_wait<0>();
      __syncthreads();
      if (chunk + (int)gridDim.x < kChunks) {
        fetch(x, chunk + gridDim.x, shared + (buffer ^ 1) * kBufferBytes);
      }
      const int planes = min(kPlanes, kAll - chunk * kPlanes);
      const Element* const in = reinterpret_cast<const Element*>(shared + buffer * kBufferBytes);
      for (int i = threadIdx.x; i < planes * kShape.filters * kStrips; i += kThreads) {
        convolve(operands, in, chunk * kPlanes, i, sums);
      }
      __syncthreads();
      store(epilogue, chunk * kPlanes, planes, sums);
    }
  }

  // The planes of a chunk. What remains after whole pieces, at the very end, comes by elements.
  static __device__ __forceinline__ void fetch(const Element* x, int chunk, u8* to) {
    if (chunk >= kChunks) return;
    const int count = min(kPlanes, kAll - chunk * kPlanes) * kIn;
    x += (i64)chunk * (kPlanes * kIn);
    for (int i = threadIdx.x * kPiece; i < count; i += kThreads * kPiece) {
      if (kAll * (i64)kIn % kPiece == 0 || i + kPiece <= count) {
        copy_async<16>(to + i * sizeof(Element), x + i, 16);
      } else {
        for (int j = i; j < count; ++j) reinterpret_cast<Element*>(to)[j] = x[j];
      }
    }
    copies_commit();
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
      const int place = start - kBefore + i;
      Pack<Element, kAlign> pack{};
      if ((u32)place < (u32)shape.in[2]) pack = load_pack<kAlign>(line + place);
#pragma unroll
      for (int j = 0; j < kAlign; ++j) at[i + j] = pack.get(j);
    }
  }

  static __device__ __forceinline__ void convolve(const Operands& operands, const Element* in,
                                                  int first, int item, float* sums) {
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
    // Two sums at a time, where all pixels of two lie at even places.
    constexpr int kPair = kColumns % 2 == 0 && shape.out[2] % 2 == 0 ? 2 : 1;
    float* const to = sums + filter * kPitch + line * shape.out[2] + column;
#pragma unroll
    for (int l = 0; l < kLines; ++l) {
      if (shape.out[1] % kLines != 0 && line + l >= shape.out[1]) continue;
#pragma unroll
      for (int j = 0; j < kColumns; j += kPair) {
        if (shape.out[2] % kColumns != 0 && column + j >= shape.out[2]) continue;
        Pack<float, kPair> pack;
#pragma unroll
        for (int e = 0; e < kPair; ++e) pack.v[e] = acc[l][j + e];
        store_pack(to + l * shape.out[2] + j, pack);
      }
    }
  }

  // Eight neighbours a thread; those at the end of a plane come last, so that few warps have any.
  static __device__ __forceinline__ void store(const Epilogue& epilogue, int first, int planes,
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
