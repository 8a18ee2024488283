// The same as convolve_sm80.cuh for windows of several taps over at most two axes, of 16-bit
// elements: what all windows of a tile cover of 32 channels is in shared memory once, and each tap
// takes its own lines of it. Needs convolve_sm80.cuh before it.
//
// kLines: of the patch, a multiple of 32 and at least as many as the lines of the input that the
// windows of any tile reach have elements. Launch: as ConvolveSm80, with this kSharedBytes.
//
// Traffic: each element is loaded once for all taps, neighbouring threads neighbouring pixels,
// while the taps of the channels before it are multiplied.

template <typename Element, class Geometry, int kRows, bool kLast, int kLines, class Epilogue>
struct ConvolvePatchSm80 : ConvolveSm80<Element, Element, Geometry, 32, kRows, kLast, Epilogue> {
  typedef ConvolveSm80<Element, Element, Geometry, 32, kRows, kLast, Epilogue> Base;
  static constexpr int kTileColumns = Base::kTileColumns, kTaps = Base::kTaps;
  static constexpr int kThreads = Base::kThreads, kPiece = Base::kPiece;
  static constexpr int kBlocks = (Base::kChannels + 31) / 32;  // of channels
  static constexpr int kBuffers = kBlocks > 1 ? 2 : 1;
  // One line more, of zeros, for what lies beyond the input.
  static constexpr int kBufferBytes = (kLines + 2) * Base::kLineBytes;
  static constexpr int kSharedBytes = Base::kStages * Base::kBytesA + kBuffers * kBufferBytes;
  static constexpr int kItems = 4 * kLines;  // 16 bytes of a patch
  static constexpr int kAtOnce = (kItems + kThreads * kTaps - 1) / (kThreads * kTaps);
  static_assert(kLines % 32 == 0 && sizeof(Element) == 2, "a warp has one chunk of its lines");
  static_assert(Geometry::kShape.in[0] == 1 && Geometry::kShape.taps[0] == 1, "two axes");
  typedef typename Base::Piece16 Piece16;

  // The lines of the input that a tile's windows reach, counted over all images.
  struct Reach {
    int first, last;

    __device__ __forceinline__ explicit Reach(int number) {
      constexpr ConvolutionShape shape = Geometry::kShape;
      constexpr int kColumns = shape.eights() * 8;
      const int begin = number % kColumns / shape.out[2];
      first = number / kColumns * shape.in[1] + max(0, begin * shape.stride[1] - shape.padding[1]);
      const int end = number + kTileColumns - 1;
      const bool beyond = end / kColumns >= shape.images;
      const int image = beyond ? shape.images - 1 : end / kColumns;
      const int pixel = beyond ? shape.pixels() - 1 : min(end % kColumns, shape.pixels() - 1);
      last = image * shape.in[1] +
             min(shape.in[1] - 1, pixel / shape.out[2] * shape.stride[1] - shape.padding[1] +
                                      (shape.taps[1] - 1) * shape.dilation[1]);
    }
  };

  static __device__ __forceinline__ void load_item(Piece16& piece, const Element* x,
                                                   const Reach& reach, int block, int item) {
    constexpr ConvolutionShape shape = Geometry::kShape;
    constexpr ConvolutionStrides strides = Geometry::kStrides;
    const int number = reach.first * shape.in[2] + item % kLines;
    const int channel = block * 32 + item / kLines * kPiece;
    const int plane = shape.in[1] * shape.in[2];
    const Element* const from = x + number / plane * strides.image + channel * strides.channel +
                                number % plane / shape.in[2] * strides.at[1] +
                                number % shape.in[2] * strides.at[2];
    const bool inside = item < kItems && number < (reach.last + 1) * shape.in[2];
    const Element none{};
#pragma unroll
    for (int e = 0; e < kPiece; ++e) {
      const bool real = Base::kChannels % 32 == 0 || channel + e < Base::kChannels;
      piece.v[e] = inside && real ? load_input(from + e * strides.channel) : none;
    }
  }
  static __device__ __forceinline__ void store_item(const Piece16& piece, u8* buffer, int item) {
    if (item >= kItems) return;
    Pack<Element, kPiece> pack;
#pragma unroll
    for (int e = 0; e < kPiece; ++e) pack.v[e] = piece.v[e];
    *reinterpret_cast<Pack<Element, kPiece>*>(
        buffer + Base::place(item % kLines, item / kLines * 16)) = pack;
  }

  // A lane's pixel of a fragment: where its window begins, and the line of the patch there.
  struct Pixel {
    int at[2];
    int line;

    __device__ __forceinline__ void find(const Reach& reach, int number) {
      constexpr ConvolutionShape shape = Geometry::kShape;
      constexpr int kColumns = shape.eights() * 8;
      const int image = number / kColumns, pixel = number % kColumns;
      const bool real = image < shape.images && pixel < shape.pixels();
      at[0] = pixel / shape.out[2] * shape.stride[1] - shape.padding[1];
      at[1] = pixel % shape.out[2] * shape.stride[2] - shape.padding[2];
      line = (image * shape.in[1] + at[0] - reach.first) * shape.in[2] + at[1];
      if (!real) at[0] = -(1 << 30);
    }
    __device__ __forceinline__ int line_of(int d1, int d2) const {
      constexpr ConvolutionShape shape = Geometry::kShape;
      const bool inside =
          (u32)(at[0] + d1) < (u32)shape.in[1] && (u32)(at[1] + d2) < (u32)shape.in[2];
      return inside ? line + d1 * shape.in[2] + d2 : kLines;
    }
  };

  static __device__ __forceinline__ void run(const Element* packed, const Element* x,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(128) u8 shared[];
    u8* const buffers = shared + Base::kStages * Base::kBytesA;
    constexpr ConvolutionShape shape = Geometry::kShape;
    constexpr ConvolutionStrides strides = Geometry::kStrides;
    constexpr int kUnits = (shape.filters + kRows - 1) / kRows;
    const int filter = (int)(blockIdx.x % kUnits) * kRows;
    const int group = (int)(blockIdx.x / kUnits % shape.groups);
    const int first = (int)(blockIdx.x / kUnits / shape.groups) * kTileColumns;
    packed += ((i64)group * shape.filters + filter) * Base::kPackedLine;
    x += (i64)group * shape.channels * strides.channel;
    const Reach reach(first);
    constexpr int kSteps = kBlocks * kTaps;
    const auto fetch_step = [&](int step) {
      if (step < kSteps) {
        Base::fetch_weights(shared + step % Base::kStages * Base::kBytesA, packed, filter, step);
      }
      copies_commit();
    };
    for (int step = 0; step < Base::kStages - 1; ++step) fetch_step(step);
    if (threadIdx.x < 4 * kBuffers) {
      *reinterpret_cast<uint4*>(buffers + threadIdx.x / 4 * kBufferBytes +
                                Base::place(kLines, threadIdx.x % 4 * 16)) = uint4{0, 0, 0, 0};
    }
#pragma unroll 2
    for (int item = threadIdx.x; item < kItems; item += kThreads) {
      Piece16 piece;
      load_item(piece, x, reach, 0, item);
      store_item(piece, buffers, item);
    }

    constexpr int kWarpsAcross = kTileColumns / 32;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, q = lane / 8;
    const int warp_m = warp / kWarpsAcross * 64, warp_n = warp % kWarpsAcross * 32;
    Pixel pixels[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      pixels[j].find(reach, first + warp_n + j * 16 + lane % 8 + (q >> 1) * 8);
    }
    float acc[4][4][4] = {};
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      const u8* const patch = buffers + block % kBuffers * kBufferBytes;
      u8* const next = buffers + (block + 1) % kBuffers * kBufferBytes;
      const bool more = block + 1 < kBlocks;
#pragma unroll 1
      for (int tap = 0; tap < kTaps; ++tap) {
        const int step = block * kTaps + tap;
        copies_wait<Base::kStages - 2>();
        __syncthreads();
        fetch_step(step + Base::kStages - 1);
        Piece16 pieces[kAtOnce];
        if (more) {
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            load_item(pieces[i], x, reach, block + 1,
                      (tap * kAtOnce + i) * kThreads + (int)threadIdx.x);
          }
        }
        const int d1 = tap / shape.taps[2] * shape.dilation[1];
        const int d2 = tap % shape.taps[2] * shape.dilation[2];
        const int lines[2] = {pixels[0].line_of(d1, d2), pixels[1].line_of(d1, d2)};
        const u8* const a = shared + step % Base::kStages * Base::kBytesA;
#pragma unroll
        for (int slice = 0; slice < 2; ++slice) {
          u32 fb[2][4];
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            load_matrices(patch + Base::place(lines[j], slice * 32 + (q & 1) * 16), fb[j]);
          }
          Base::multiply_slice(a, warp_m, slice, fb, acc);
        }
        if (more) {
#pragma unroll
          for (int i = 0; i < kAtOnce; ++i) {
            store_item(pieces[i], next, (tap * kAtOnce + i) * kThreads + (int)threadIdx.x);
          }
        }
      }
    }
    copies_wait<0>();
    Base::finish_all(group, filter + warp_m, first + warp_n, acc, epilogue);
  }
};
