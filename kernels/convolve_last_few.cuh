// Convolutions of few channels that lie last, 16 bits each, for sm_80 and later, as products of a
// short k: rows are the windows of all pixels, columns the filters. Needs elements.cuh, quick.cuh,
// accumulators.cuh, columns.cuh, epilogue.cuh, tile_walk.cuh, mma.cuh, convolve.cuh and
// contract_shallow.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(256, resident) name(...) {
//     ConvolveLastFew<Geometry, Weights, Element, kStrips, kWide, Epilogue>::run(
//         x, weights, Epilogue{...});
//   }
// Geometry: kShape, of one group, over the last two axes, with 31 taps at most and a multiple of 8
// channels, and kStrides, in multiples of 8 elements; x is its first element. Weights::kStrides:
// those of the weights, whose images are filters; Weights::kWhole: neighbouring channels are
// neighbours, and all else, the first one's place as well, is a multiple of 8 elements. The
// epilogue is one of a matrix whose rows are pixels of all images, and whose columns are the
// filters, 32 * kWide at most. Launch: kThreads threads, kSharedBytes of dynamic shared memory, any
// number of blocks, each of which keeps the weights.
//
// Traffic: a warp loads what windows have from the L1, straight into the registers that the tensor
// cores read: 16 bytes a lane, of a channel's eight neighbours. Windows of neighbouring pixels
// overlap there, and blocks beside each other have neighbouring pixels. k counts taps, and in each
// of them channels, in steps of 32.

template <class Geometry, class Weights, typename Element, int kStrips, int kWide, class Epilogue>
struct ConvolveLastFew {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr ConvolutionStrides kStrides = Geometry::kStrides;
  static constexpr int kThreads = 256;
  static constexpr int kTerms = kTermsOf<Epilogue>;
  static constexpr int kTileRows = 16 * kStrips, kTileColumns = 32 * kWide;
  static constexpr int kTaps = kShape.all_taps();
  static constexpr int kEights = kShape.channels / 8;  // of a tap's channels
  static constexpr int kSteps = (kTaps * kEights + 3) / 4;
  static constexpr int kSharedBytes = kSteps * kWide * 2048;
  static constexpr int kRows = kShape.images * kShape.pixels();
  static_assert(kShape.filters <= kTileColumns && kTaps < 32 && kShape.channels % 8 == 0,
                "taps are bits of a word");
  static_assert(Epilogue::Rows::kParts == 0 && Epilogue::Columns::kParts == 0,
                "nothing is reduced");
  typedef WarpStrips<kStrips, Epilogue> Strips;

  // Where a lane's part of each step lies in a window.
  struct Steps {
    int offset[kSteps];
    int tap[kSteps];  // 31: beyond all

    __device__ __forceinline__ Steps() {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const int eight = step * 4 + (int)threadIdx.x % 4, at = eight / kEights;
        tap[step] = eight < kTaps * kEights ? at : 31;
        offset[step] = (int)(at / kShape.taps[2] * kShape.dilation[1] * kStrides.at[1] +
                             at % kShape.taps[2] * kShape.dilation[2] * kStrides.at[2]) +
                       eight % kEights * 8;
      }
    }
  };

  // A row's window: where it begins, and which of its taps the input has, a bit each.
  struct Window {
    const Element* from;
    u32 taps;

    __device__ __forceinline__ Window() {}
    __device__ __forceinline__ Window(const Element* x, int row) {
      const WindowStart start(kShape, row % kShape.pixels());
      from = x + row / kShape.pixels() * kStrides.image + start.at[1] * kStrides.at[1] +
             start.at[2] * kStrides.at[2];
      u32 line = 0;
#pragma unroll
      for (int i = 0; i < kShape.taps[2]; ++i) {
        line |= (u32)start.inside(kShape, 2, i * kShape.dilation[2]) << i;
      }
      taps = 0;
#pragma unroll
      for (int i = 0; i < kShape.taps[1]; ++i) {
        const bool inside = start.inside(kShape, 1, i * kShape.dilation[1]);
        taps |= inside ? line << (i * kShape.taps[2]) : 0;
      }
    }
  };

  static __device__ __forceinline__ void run(const Element* x, const Element* weights,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) uint4 fragments[];  // [step][eight filters][lane]
    constexpr int kUnits = (kRows + kTileRows - 1) / kTileRows;
    const int lane = threadIdx.x % 32;
    fill(weights, fragments);
    __shared__ __align__(16) float terms[kTerms > 0 ? kTerms * kTileColumns : 1];
    const auto kept = with_terms<kTileColumns>(epilogue, terms, 0, threadIdx.x);
    __syncthreads();
    const Steps steps;
    const int stride = gridDim.x * (kThreads / 32);
#pragma unroll 1
    for (int unit = blockIdx.x * (kThreads / 32) + threadIdx.x / 32; unit < kUnits;
         unit += stride) {
      Piece pieces[kWide];
      typename Strips::Operands loaded[kWide];
#pragma unroll
      for (int i = 0; i < kWide; ++i) {
        pieces[i] = Piece{0, unit * kTileRows, i * 32, kRows, kShape.filters};
        Strips::load_operands(epilogue, pieces[i], loaded[i]);
      }
      Window windows[kStrips][2];
#pragma unroll
      for (int i = 0; i < 2 * kStrips; ++i) {
        // Rows beyond the last are computed from it, and never stored.
        windows[i / 2][i % 2] = Window(x, min(unit * kTileRows + i * 8 + lane / 4, kRows - 1));
      }
      typename Strips::Sums sums[kWide] = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint4 rows[kStrips][2];
#pragma unroll
        for (int i = 0; i < 2 * kStrips; ++i) {
          const Window& window = windows[i / 2][i % 2];
          rows[i / 2][i % 2] =
              load_words(reinterpret_cast<const uint4*>(window.from + steps.offset[step]),
                         window.taps >> steps.tap[step] & 1);
        }
#pragma unroll
        for (int j = 0; j < 4 * kWide; ++j) {
          const uint4 column = fragments[(step * 4 * kWide + j) * 32 + lane];
          Strips::template add<Element>(rows, j % 4, column, sums[j / 4]);
        }
      }
#pragma unroll
      for (int i = 0; i < kWide; ++i) Strips::finish(kept, pieces[i], sums[i], loaded[i]);
    }
  }

  static __device__ __forceinline__ void fill(const Element* weights, uint4* fragments) {
    constexpr ConvolutionStrides strides = Weights::kStrides;
#pragma unroll 4
    for (int at = threadIdx.x; at < kSteps * kWide * 128; at += kThreads) {
      const int lane = at % 32, tile = at / 32 % (4 * kWide), step = at / (128 * kWide);
      const int filter = tile / 4 * 32 + Strips::column_of(lane, tile % 4);
      const int eight = step * 4 + lane % 4, tap = eight / kEights;
      const bool real = filter < kShape.filters && eight < kTaps * kEights;
      const Element* const from =
          weights + filter * strides.image + eight % kEights * 8 * strides.channel +
          tap / kShape.taps[2] * strides.at[1] + tap % kShape.taps[2] * strides.at[2];
      if constexpr (Weights::kWhole) {
        fragments[at] = load_words(reinterpret_cast<const uint4*>(from), real);
      } else {
        Pack<Element, 8> own;
#pragma unroll
        for (int i = 0; i < 8; ++i) own.v[i] = load_words(from + i * strides.channel, real);
        memcpy(&fragments[at], &own, 16);
      }
    }
  }
};
