// The accumulators of reductions in an epilogue: each thread, warp and block reduces its part of a
// row or column, then states are merged. A State is a few floats, so that shuffles and partial
// results in memory work the same way for all of them. rows.cuh has accumulators of the same names
// for kernels that reduce whole rows, in any type; src/graph/accumulator.hpp lists both. Needs
// quick.cuh before it.

struct NoReduction {
  struct State {
    float part[1];
  };
  static constexpr int kParts = 0;
  static __device__ __forceinline__ State none() { return {}; }
  static __device__ __forceinline__ State of(float) { return {}; }
  static __device__ __forceinline__ State merge(State a, State) { return a; }
  static __device__ __forceinline__ State of_row(const float (&)[8], int) { return {}; }
};

__device__ __forceinline__ float lowest() { return __uint_as_float(0xff800000u); }  // -infinity

// The larger of two, NaN if either is.
__device__ __forceinline__ float max_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a > b || a != a ? a : b;
#endif
}

struct Largest {
  struct State {
    float part[1];
  };
  static constexpr int kParts = 1;
  static __device__ __forceinline__ State none() { return {lowest()}; }
  static __device__ __forceinline__ State of(float v) { return {v}; }
  static __device__ __forceinline__ State merge(State a, State b) {
    return {max_or_nan(a.part[0], b.part[0])};
  }
  static __device__ __forceinline__ State of_row(const float (&v)[8], int valid) {
    float most = lowest();
#pragma unroll
    for (int i = 0; i < 8; ++i) most = i < valid ? max_or_nan(most, v[i]) : most;
    return {most};
  }
};

struct Sum {
  struct State {
    float part[1];
  };
  static constexpr int kParts = 1;
  static __device__ __forceinline__ State none() { return {0.0f}; }
  static __device__ __forceinline__ State of(float v) { return {v}; }
  static __device__ __forceinline__ State merge(State a, State b) {
    return {a.part[0] + b.part[0]};
  }
  static __device__ __forceinline__ State of_row(const float (&v)[8], int valid) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += i < valid ? v[i] : 0.0f;
    return {sum};
  }
};

// The sum of squares.
struct SquareSum {
  typedef Sum::State State;
  static constexpr int kParts = 1;
  static __device__ __forceinline__ State none() { return {0.0f}; }
  static __device__ __forceinline__ State of(float v) { return {v * v}; }
  static __device__ __forceinline__ State merge(State a, State b) { return Sum::merge(a, b); }
  static __device__ __forceinline__ State of_row(const float (&v)[8], int valid) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = i < valid ? fmaf(v[i], v[i], sum) : sum;
    return {sum};
  }
};

// The largest value so far, and the sum of exp(value - largest).
struct ExponentialSum {
  struct State {
    float part[2];
  };
  static constexpr int kParts = 2;
  static __device__ __forceinline__ State none() { return {lowest(), 0.0f}; }
  static __device__ __forceinline__ State of(float v) { return {v, 1.0f}; }
  // If the maximum is -infinity, any finite base is right: every exponential is 0.
  static __device__ __forceinline__ float base_of(float most) {
    return most == lowest() ? 0.0f : most * kLog2E;
  }
  static __device__ __forceinline__ State merge(State a, State b) {
    const float most = max_or_nan(a.part[0], b.part[0]);
    const float base = base_of(most);
    return {most, a.part[1] * quick_exp2(fmaf(a.part[0], kLog2E, -base)) +
                      b.part[1] * quick_exp2(fmaf(b.part[0], kLog2E, -base))};
  }
  // Takes the largest of the eight first, so that each value needs one exponential only.
  static __device__ __forceinline__ State of_row(const float (&v)[8], int valid) {
    const float most = Largest::of_row(v, valid).part[0];
    const float base = base_of(most);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum += i < valid ? quick_exp2(fmaf(v[i], kLog2E, -base)) : 0.0f;
    }
    return {most, sum};
  }
  static __device__ __forceinline__ float result(State s) { return s.part[0] + logf(s.part[1]); }
};

// The number of values, their mean, and the sum of their squared distances from it, merged in a way
// that avoids cancellation.
struct Moments {
  struct State {
    float part[3];
  };
  static constexpr int kParts = 3;
  static __device__ __forceinline__ State none() { return {0.0f, 0.0f, 0.0f}; }
  static __device__ __forceinline__ State of(float v) { return {1.0f, v, 0.0f}; }
  static __device__ __forceinline__ State merge(State a, State b) {
    const float count = a.part[0] + b.part[0];
    const float share = count > 0.0f ? __fdividef(b.part[0], count) : 0.0f;
    const float apart = b.part[1] - a.part[1];
    return {count, fmaf(apart, share, a.part[1]),
            a.part[2] + b.part[2] + apart * apart * a.part[0] * share};
  }
  static __device__ __forceinline__ State of_row(const float (&v)[8], int valid) {
    const float mean = Sum::of_row(v, valid).part[0] * quick_reciprocal((float)valid);
    float distances = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) distances += i < valid ? (v[i] - mean) * (v[i] - mean) : 0.0f;
    return {(float)valid, mean, distances};
  }
  static __device__ __forceinline__ float mean(State s) { return s.part[1]; }
  static __device__ __forceinline__ float variance(State s) { return s.part[2] / s.part[0]; }
};

template <class Accumulator>
__device__ __forceinline__ typename Accumulator::State merge_with_lane(
    typename Accumulator::State s, int mask) {
  typename Accumulator::State other;
#pragma unroll
  for (int p = 0; p < Accumulator::kParts; ++p) {
    other.part[p] = __shfl_xor_sync(0xffffffffu, s.part[p], mask);
  }
  return Accumulator::merge(s, other);
}
