// Convolutions of one channel in a group and one filter for it, of an input with its channels last
// and with a result of the same form, with an epilogue (epilogue.cuh): bound by memory, or by
// ordinary arithmetic where windows are large. Needs elements.cuh, quick.cuh, accumulators.cuh,
// epilogue.cuh and convolve.cuh before it.
//
// Element: of the input; four neighbouring channels begin at multiples of their size, but for more
// than 16 bytes. Operands is a
// struct that the generator writes:
//   __device__ float weight(i64 element) const;  // numbered in its own order
// Geometry: kShape and kStrides; planes have two axes. The epilogue is one of a matrix whose rows
// are the pixels of all images, and whose columns are channels.
// A block has 4 kFours channels, of which a thread has four, in a strip of kLines x kColumns
// pixels; kFours and kColumns are even. Threads of the same channels have neighbouring strips,
// kRounds times. Launch: kThreads threads for each kRounds rounds of strips of each 4 kFours
// channels.
//
// Traffic: neighbouring threads have neighbouring channels, so that loads are whole lines, and
// strips that overlap find each other's lines in the L1 or the L2. A thread loads and converts a
// line of the input once for all windows of its strip, ahead of the one that it multiplies.
// Weights are in shared memory: those of a large window would fill the registers.

template <class Geometry, typename Element, int kLines, int kColumns, int kFours, int kRounds,
          class Operands, class Epilogue>
struct ConvolveLast {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr ConvolutionStrides kStrides = Geometry::kStrides;
  static constexpr int kThreads = 128;
  static constexpr int kTileRows = 4 * kFours, kTileColumns = kLines * kColumns;
  static constexpr u32 kSharedBytes = 0;
  static constexpr int kTaps1 = kShape.taps[1], kTaps2 = kShape.taps[2];
  static constexpr int kTaps = kTaps1 * kTaps2;
  static constexpr int kChunks = kShape.groups / (4 * kFours);
  static constexpr int kBeside = kThreads / kFours;  // strips at a time
  static constexpr int kAcross = (kShape.out[2] + kColumns - 1) / kColumns;
  static constexpr int kDown = (kShape.out[1] + kLines - 1) / kLines;
  static constexpr int kAll = kShape.images * kDown * kAcross;
  // Lines of the input that the windows of a strip cover, and columns.
  static constexpr int kReach = (kTaps1 - 1) * kShape.dilation[1];
  static constexpr int kRows = (kLines - 1) * kShape.stride[1] + kReach + 1;
  static constexpr int kSpan =
      (kColumns - 1) * kShape.stride[2] + (kTaps2 - 1) * kShape.dilation[2] + 1;
  // The weights of a tap; neighbouring taps are stored to different banks.
  static constexpr int kPitch = 4 * kFours + 4;
  // Four elements, as words until they are used.
  struct Four {
    u32 words[(int)sizeof(Element)];

    __device__ __forceinline__ void unpack_to(float (&v)[4]) const {
      if constexpr (is_bf16(Element{})) {
        split(words[0], v[0], v[1]);
        split(words[1], v[2], v[3]);
      } else {
        Pack<Element, 4> pack;
        memcpy(&pack, words, sizeof(pack));
        unpack(pack, v);
      }
    }
  };
  static_assert(kShape.channels == 1 && kShape.filters == 1 && kStrides.channel == 1, "planes");
  static_assert(kShape.groups % (4 * kFours) == 0 && kFours % 2 == 0 && kColumns % 2 == 0 &&
                    kSpan <= 32,
                "two lanes have eight channels of two pixels");

  static __device__ __forceinline__ void run(const Element* x, const Operands& operands,
                                             const Epilogue& epilogue) {
    __shared__ __align__(16) float weights[kTaps * kPitch];
    const int channel0 = (int)(blockIdx.x % kChunks) * 4 * kFours;
    for (int i = threadIdx.x; i < kTaps * 4 * kFours; i += kThreads) {
      weights[i % kTaps * kPitch + i / kTaps] = operands.weight((i64)channel0 * kTaps + i);
    }
    __syncthreads();
    const int four = threadIdx.x % kFours, own = threadIdx.x / kFours;
    const int begin = (int)(blockIdx.x / kChunks) * kRounds * kBeside;
#pragma unroll 1
    for (int first = begin; first < min(begin + kRounds * kBeside, kAll); first += kBeside) {
      const bool real = own < kBeside && first + own < kAll;
      const int strip = real ? first + own : kAll - 1;
      float acc[kLines][kColumns][4] = {};
      const int image = strip / (kAcross * kDown);
      const int line = strip / kAcross % kDown * kLines, column = strip % kAcross * kColumns;
      convolve(x + image * kStrides.image + channel0 + 4 * four, weights + 4 * four, line, column,
               acc);
      leave(epilogue, image, line, column, channel0 + four / 2 * 8, real, acc);
    }
  }

  // Most strips reach beyond no end of a line: their warps do without conditions.
  static __device__ __forceinline__ void convolve(const Element* x, const float* weights, int line,
                                                  int column, float (&acc)[kLines][kColumns][4]) {
    const int top = line * kShape.stride[1] - kShape.padding[1];
    const int left = column * kShape.stride[2] - kShape.padding[2];
    u32 inside = 0;
#pragma unroll
    for (int i = 0; i < kSpan; ++i) inside |= (u32)((u32)(left + i) < (u32)kShape.in[2]) << i;
    constexpr u32 kWhole = (u32)(((u64)1 << kSpan) - 1);
    x += top * kStrides.at[1] + left * kStrides.at[2];
    if (__all_sync(0xffffffffu, inside == kWhole)) {
      add_lines(x, weights, top, kWhole, acc);
    } else {
      add_lines(x, weights, top, inside, acc);
    }
  }

  static __device__ __forceinline__ void add_lines(const Element* x, const float* weights, int top,
                                                   u32 inside, float (&acc)[kLines][kColumns][4]) {
    Four ahead[kSpan] = {};
    if (has_line(top)) load(x, inside, ahead);
#pragma unroll 1
    for (int row = 0; row < kRows; ++row) {
      float at[kSpan][4];
#pragma unroll
      for (int i = 0; i < kSpan; ++i) ahead[i].unpack_to(at[i]);
      if (row + 1 < kRows && has_line(top + row + 1)) {
        load(x + (row + 1) * kStrides.at[1], inside, ahead);
      }
      if (!has_line(top + row)) continue;
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        const int distance = row - l * kShape.stride[1];
        if (distance < 0 || distance > kReach || distance % kShape.dilation[1] != 0) continue;
        const float* const by = weights + distance / kShape.dilation[1] * kTaps2 * kPitch;
#pragma unroll
        for (int t = 0; t < kTaps2; ++t) {
          const float4 w = *reinterpret_cast<const float4*>(by + t * kPitch);
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            const int i = j * kShape.stride[2] + t * kShape.dilation[2];
            acc[l][j][0] += at[i][0] * w.x;
            acc[l][j][1] += at[i][1] * w.y;
            acc[l][j][2] += at[i][2] * w.z;
            acc[l][j][3] += at[i][3] * w.w;
          }
        }
      }
    }
  }

  static __device__ __forceinline__ bool has_line(int row) { return (u32)row < (u32)kShape.in[1]; }
  static __device__ __forceinline__ void load(const Element* line, u32 inside, Four (&to)[kSpan]) {
#pragma unroll
    for (int i = 0; i < kSpan; ++i) {
      to[i] = load_words(reinterpret_cast<const Four*>(line + i * kStrides.at[2]), inside >> i & 1);
    }
  }

  // Two neighbouring lanes have four channels each of two pixels; then each has all eight of one.
  static __device__ __forceinline__ void leave(const Epilogue& epilogue, int image, int line,
                                               int column, int channel, bool real,
                                               const float (&acc)[kLines][kColumns][4]) {
    const bool odd = threadIdx.x % 2 != 0;
#pragma unroll
    for (int l = 0; l < kLines; ++l) {
#pragma unroll
      for (int j = 0; j < kColumns; j += 2) {
        float v[8];
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const float own = odd ? acc[l][j + 1][c] : acc[l][j][c];
          const float given = odd ? acc[l][j][c] : acc[l][j + 1][c];
          const float taken = __shfl_xor_sync(0xffffffffu, given, 1);
          v[c] = odd ? taken : own;
          v[4 + c] = odd ? own : taken;
        }
        const int at = column + j + odd;
        const bool inside = real && line + l < kShape.out[1] && at < kShape.out[2];
        const i64 pixel = ((i64)image * kShape.out[1] + line + l) * kShape.out[2] + at;
        epilogue(0, inside ? pixel : 0, (i64)channel, v, EightOrNone{inside});
      }
    }
  }
};
