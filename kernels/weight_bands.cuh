// Bands of weights for convolutions of one channel in a group by tensor cores: a line of a window,
// moved along by one column after another, is a matrix with a band. Needs elements.cuh and
// convolve.cuh before it.
//
// kFirst: the first tap's row of a band; kEights: of its rows. Operands has the weights, numbered
// in their own order: __device__ float weight(i64 element) const.

template <class Geometry, typename Element, int kFirst, int kEights>
struct WeightBands {
  static constexpr ConvolutionShape kShape = Geometry::kShape;
  static constexpr int kTaps1 = kShape.taps[1], kTaps2 = kShape.taps[2];
  static constexpr int kStep1 = kShape.stride[1], kStep2 = kShape.stride[2];
  static constexpr int kApart1 = kShape.dilation[1], kApart2 = kShape.dilation[2];
  typedef u32 Band[kTaps1][kEights][2];

  // A lane's part of the bands: columns lane / 4 * 2 and the next of the result, two neighbouring
  // rows of each eight. Lane i first has what lies i - 1 and i columns behind a line's first tap.
  template <class Operands>
  static __device__ __forceinline__ void make(const Operands& operands, int filter, Band& band) {
    constexpr int kSpan = (kTaps2 - 1) * kApart2 + 1;
    static_assert(kSpan < 31, "a lane for each, and one for zeros");
    const int lane = threadIdx.x % 32;
    const i64 weights = (i64)filter * (kTaps1 * kTaps2);
    u32 twos[kTaps1];
#pragma unroll
    for (int t1 = 0; t1 < kTaps1; ++t1) {
      Pack<Element, 2> two;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int distance = lane - 1 + e;
        const bool real = (u32)distance < (u32)kSpan && distance % kApart2 == 0;
        store_as(two.v[e],
                 real ? operands.weight(weights + t1 * kTaps2 + distance / kApart2) : 0.0f);
      }
      memcpy(&twos[t1], &two, 4);
    }
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int distance = eight * 8 + lane % 4 * 2 - kFirst - (lane / 4 * 2 + half) * kStep2;
        const int source = distance < -1 || distance >= kSpan ? 31 : distance + 1;
#pragma unroll
        for (int t1 = 0; t1 < kTaps1; ++t1) {
          band[t1][eight][half] = __shfl_sync(0xffffffffu, twos[t1], source);
        }
      }
    }
  }

  // The tap that takes a line of the input for a line of the result, or -1.
  static __device__ __forceinline__ constexpr int tap_of(int line_in, int line) {
    const int distance = line_in - line * kStep1;
    const bool taken =
        distance >= 0 && distance <= (kTaps1 - 1) * kApart1 && distance % kApart1 == 0;
    return taken ? distance / kApart1 : -1;
  }
  // Whether one of so many lines of the result does.
  static __device__ __forceinline__ constexpr bool is_taken(int line_in, int lines) {
    for (int line = 0; line < lines; ++line) {
      if (tap_of(line_in, line) >= 0) return true;
    }
    return false;
  }
};
