// The functions that device expressions of the op table call. Every function takes the compute
// types: float, double, and for some of them int and long long.

// The ends of a type's range.
template <typename T>
__device__ __forceinline__ T lowest();
template <>
__device__ __forceinline__ float lowest<float>() {
  return -__int_as_float(0x7f800000);
}
template <>
__device__ __forceinline__ double lowest<double>() {
  return -__longlong_as_double(0x7ff0000000000000ll);
}
template <>
__device__ __forceinline__ int lowest<int>() {
  return -2147483647 - 1;
}
template <>
__device__ __forceinline__ i64 lowest<i64>() {
  return -9223372036854775807ll - 1;
}
template <>
__device__ __forceinline__ bool lowest<bool>() {
  return false;
}
template <typename T>
__device__ __forceinline__ T highest() {
  return -lowest<T>();
}
template <>
__device__ __forceinline__ int highest<int>() {
  return 2147483647;
}
template <>
__device__ __forceinline__ i64 highest<i64>() {
  return 9223372036854775807ll;
}
template <>
__device__ __forceinline__ bool highest<bool>() {
  return true;
}

// The lowest number that is not infinite.
template <typename T>
__device__ __forceinline__ T lowest_finite();
template <>
__device__ __forceinline__ float lowest_finite<float>() {
  return -__int_as_float(0x7f7fffff);
}
template <>
__device__ __forceinline__ double lowest_finite<double>() {
  return -__longlong_as_double(0x7fefffffffffffffll);
}

template <typename T>
__device__ __forceinline__ T larger(T a, T b) {
  return a > b || a != a ? a : b;  // NaN wins, as in NumPy
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float larger(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif
template <typename T>
__device__ __forceinline__ T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float smaller(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif
template <typename T>
__device__ __forceinline__ T magnitude(T a) {
  return a < T(0) ? -a : a;
}
__device__ __forceinline__ float magnitude(float a) { return fabsf(a); }
__device__ __forceinline__ double magnitude(double a) { return fabs(a); }

template <typename T>
__device__ __forceinline__ T divide(T a, T b) {
  return a / b;
}
// To two units in the last place. The reciprocal of a divisor that elements share is found once.
__device__ __forceinline__ float divide_rough(float a, float b) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ __forceinline__ float power(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double power(double a, double b) { return pow(a, b); }
// Whole numbers to the power of whole numbers, by squaring; a negative power of anything but 1 and
// -1 is 0.
template <typename T>
__device__ __forceinline__ T power(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  T result = 1;
  for (; b > 0; b >>= 1, a *= a) {
    if (b & 1) result *= a;
  }
  return result;
}

// Whole numbers stay as they are.
template <typename T>
__device__ __forceinline__ T round_down(T a) {
  return a;
}
__device__ __forceinline__ float round_down(float a) { return floorf(a); }
__device__ __forceinline__ double round_down(double a) { return floor(a); }
template <typename T>
__device__ __forceinline__ T round_up(T a) {
  return a;
}
__device__ __forceinline__ float round_up(float a) { return ceilf(a); }
__device__ __forceinline__ double round_up(double a) { return ceil(a); }
template <typename T>
__device__ __forceinline__ T round_even(T a) {
  return a;
}
__device__ __forceinline__ float round_even(float a) { return rintf(a); }
__device__ __forceinline__ double round_even(double a) { return rint(a); }
template <typename T>
__device__ __forceinline__ T round_to_zero(T a) {
  return a;
}
__device__ __forceinline__ float round_to_zero(float a) { return truncf(a); }
__device__ __forceinline__ double round_to_zero(double a) { return trunc(a); }

template <typename T>
__device__ __forceinline__ T sign_of(T a) {
  return T((a > T(0)) - (a < T(0)));
}
template <typename T>
__device__ __forceinline__ bool is_infinite(T) {
  return false;
}
__device__ __forceinline__ bool is_infinite(float a) { return fabsf(a) == highest<float>(); }
__device__ __forceinline__ bool is_infinite(double a) { return fabs(a) == highest<double>(); }

// Of whole numbers: a division by 0 gives 0 and leaves 0 over, as in NumPy.
template <typename T>
__device__ __forceinline__ T truncated_rest(T a, T b) {
  return b == 0 || b == T(-1) ? T(0) : T(a % b);
}
__device__ __forceinline__ float truncated_rest(float a, float b) { return fmodf(a, b); }
__device__ __forceinline__ double truncated_rest(double a, double b) { return fmod(a, b); }
template <typename T>
__device__ __forceinline__ T floored_rest(T a, T b) {
  const T rest = truncated_rest(a, b);
  return rest != T(0) && (rest < T(0)) != (b < T(0)) ? T(rest + b) : rest;
}
template <typename T>
__device__ __forceinline__ T floored_quotient(T a, T b) {
  if (b == 0) return T(0);
  if (b == T(-1)) return T(-a);
  return T(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
}
// a / b alone might round up to the next whole number.
template <typename T>
__device__ __forceinline__ T floored_quotient_of_floats(T a, T b) {
  if (b == T(0)) return a / b;
  const T rest = truncated_rest(a, b);
  const T below = rest != T(0) && (rest < T(0)) != (b < T(0)) ? T(1) : T(0);
  return round_even((a - rest) / b - below);
}
__device__ __forceinline__ float floored_quotient(float a, float b) {
  return floored_quotient_of_floats(a, b);
}
__device__ __forceinline__ double floored_quotient(double a, double b) {
  return floored_quotient_of_floats(a, b);
}

// The low bits of a whole number, as a type of so many bits has them.
template <int kBits, bool kSigned, typename T>
__device__ __forceinline__ T wrap_bits(T x) {
  constexpr int kMore = sizeof(T) * 8 - kBits;
  if (kMore <= 0) return x;
  constexpr int kShift = kMore <= 0 ? 0 : kMore;
  if (kSigned) return T(x << kShift) >> kShift;
  return x & T((1ull << (kBits % 64)) - 1);
}
// A shift by a negative number of bits, or by all of them, shifts everything out.
__device__ __forceinline__ int shift_left(int a, int b) {
  return b < 0 || b >= 32 ? 0 : (int)((u32)a << b);
}
__device__ __forceinline__ i64 shift_left(i64 a, i64 b) {
  return b < 0 || b >= 64 ? 0 : (i64)((u64)a << b);
}
__device__ __forceinline__ int shift_right(int a, int b) { return a >> (b < 0 || b > 31 ? 31 : b); }
__device__ __forceinline__ i64 shift_right(i64 a, i64 b) { return a >> (b < 0 || b > 63 ? 63 : b); }

// exp(x) = 2^(x log2 e): the product is taken in two parts, so that nothing is lost to its
// rounding.
__device__ __forceinline__ float exp_quick(float x) {
  const float high = x * 1.4426950408889634f;
  const float low = fmaf(x, 1.4426950408889634f, -high);
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(high));
  return fmaf(power, low * 0.6931471805599453f, power);
}
__device__ __forceinline__ float sigmoid(float x) {
  // Within these bounds no part of the exponential is infinite; beyond them nothing changes in f32.
  const float bounded = x < -87.0f ? -87.0f : x > 87.0f ? 87.0f : x;
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + exp_quick(-bounded)));
  return result;
}
__device__ __forceinline__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// exp(d) for d up to 8, by way of 2^(d log2 e): what the product rounds off grows with -d, and
// exp(d) falls faster.
__device__ __forceinline__ float exp_below(float d) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(d * 1.4426950408889634f));
  return result;
}
__device__ __forceinline__ double exp_below(double d) { return exp(d); }

template <typename T>
__device__ __forceinline__ T gelu_exact(T x) {
  return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440)));
}
// 0.5 (1 + tanh(y)) is sigmoid(2 y).
template <typename T>
__device__ __forceinline__ T gelu_tanh(T x) {
  return x * sigmoid(T(1.5957691216057307612) * (x + T(0.044715) * x * x * x));
}

template <typename T>
__device__ __forceinline__ T softplus(T x, T beta, T threshold) {
  return x * beta > threshold ? x : log1p(exp(x * beta)) / beta;
}
// Equal infinities have no difference.
template <typename T>
__device__ __forceinline__ T log_add_exp(T a, T b) {
  const T apart = a == b ? T(0) : magnitude(a - b);
  return larger(a, b) + log1p(exp(-apart));
}
template <typename T>
__device__ __forceinline__ T x_log_y(T a, T b) {
  return b != b ? b : a == T(0) ? T(0) : a * log(b);
}
template <typename T>
__device__ __forceinline__ T finite_or(T a, T not_a_number, T low, T high) {
  return a != a ? not_a_number : !is_infinite(a) ? a : a < T(0) ? low : high;
}
// tanh(log(1 + e)) is n / (n + 2) with n = e (e + 2); beyond 20 it is 1 in every type.
template <typename T>
__device__ __forceinline__ T mish(T x) {
  const T e = exp(x > T(20) ? T(20) : x);
  const T n = e * (e + T(2));
  return x > T(20) ? x : x * (n / (n + T(2)));
}
template <typename T>
__device__ __forceinline__ T selu(T x) {
  const T below = T(1.6732632423543772848) * expm1(x);
  return T(1.0507009873554804934) * (x > T(0) ? x : below);
}
template <typename T>
__device__ __forceinline__ T hard_sigmoid(T x) {
  return smaller(larger(x + T(3), T(0)), T(6)) / T(6);
}

// Losses of single elements.
template <typename T>
__device__ __forceinline__ T huber(T a, T b, T delta) {
  const T d = magnitude(a - b);
  return d <= delta ? T(0.5) * d * d : delta * (d - T(0.5) * delta);
}
template <typename T>
__device__ __forceinline__ T smooth_l1(T a, T b, T beta) {
  const T d = magnitude(a - b);
  return d < beta ? T(0.5) * d * d / beta : d - T(0.5) * beta;
}
template <typename T>
__device__ __forceinline__ T binary_cross_entropy(T p, T target) {
  return (target - T(1)) * larger(log1p(-p), T(-100)) - target * larger(log(p), T(-100));
}

// Derivatives, by which gradients are multiplied.
template <typename T>
__device__ __forceinline__ T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}
template <typename T>
__device__ __forceinline__ T hard_sigmoid_slope(T x) {
  return magnitude(x) < T(3) ? T(1) / T(6) : T(0);
}
template <typename T>
__device__ __forceinline__ T hard_swish_slope(T x) {
  return x > T(3) ? T(1) : x < T(-3) ? T(0) : x / T(3) + T(0.5);
}
template <typename T>
__device__ __forceinline__ T gelu_slope_exact(T x) {
  return T(0.5) * (T(1) + erf(x * T(0.70710678118654752440))) +
         T(0.39894228040143267794) * x * exp(T(-0.5) * x * x);
}
template <typename T>
__device__ __forceinline__ T gelu_slope_tanh(T x) {
  const T s = sigmoid(T(1.5957691216057307612) * (x + T(0.044715) * x * x * x));
  const T slope = T(1.5957691216057307612) * (T(1) + T(3 * 0.044715) * x * x);
  return s + x * s * (T(1) - s) * slope;
}

// For results that are stored in 16 bits or less, to about 1e-6 of themselves where nothing else is
// said: what is rounded to such a type anyway takes a third to a half of the instructions.
__device__ __forceinline__ float exp_narrow(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.4426950408889634f));
  return result;
}
__device__ __forceinline__ float sigmoid_narrow(float x) {
  float power;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.4426950408889634f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}
__device__ __forceinline__ float gelu_tanh_narrow(float x) {
  const float slope = fmaf(x * x, 1.5957691216057307612f * 0.044715f, 1.5957691216057307612f);
  return x * sigmoid_narrow(x * slope);
}
// x times the normal distribution at x, of which the part below -|x| is 2 to the power of a
// polynomial: to 2.5e-4 of the result from -5.5 on, to 7e-3 below, where it is less than 1e-7. One
// special function; beyond 13 the polynomial goes on to fall. In f16 it is half a step at most.
__device__ __forceinline__ float gelu_narrow(float x) {
  const float t = fabsf(x);
  float p = fmaf(t, -5.012229280509928e-07f, 2.5294119041063823e-05f);
  p = fmaf(p, t, -0.0005373205640353262f);
  p = fmaf(p, t, 0.0063750105910003185f);
  p = fmaf(p, t, -0.047976747155189514f);
  p = fmaf(p, t, -0.4664996862411499f);
  p = fmaf(p, t, -1.1471861600875854f);
  p = fmaf(p, t, -1.0003347396850586f);
  float below;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(below) : "f"(p));
  return x * (x > 0.0f ? 1.0f - below : below);
}
// To 2^-11 of the result: an eighth of a step of bf16, but half a step of f16.
__device__ __forceinline__ float tanh_rough(float x) {
#if __CUDA_ARCH__ >= 750
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return tanhf(x);
#endif
}
__device__ __forceinline__ float sqrt_narrow(float x) {
  float result;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
// sin(r + n pi) is sin(r), r in [-pi / 2, pi / 2], with another sign where n is odd: by the last
// bit of n + 1.5 2^23. To 1.1e-4 of the result. Far from 0 the two parts of pi leave too little of
// r.
__device__ __forceinline__ float sine_beyond(float x, float n, u32 bits) {
  const float r = fmaf(n, 8.742277657347586e-08f, fmaf(n, -3.1415927410125732f, x));
  const float s = r * r;
  const float p = fmaf(s, 0.007602903321443068f, -0.16596011648387576f);
  return __uint_as_float(__float_as_uint(r * fmaf(p, s, 0.9998918212352553f)) ^ bits << 31);
}
constexpr float kFarAngle = 105615.0f;
__device__ __forceinline__ float sin_narrow(float x) {
  const float shifted = fmaf(x, 0.31830988618379067f, 12582912.0f);
  float result = sine_beyond(x, shifted - 12582912.0f, __float_as_uint(shifted));
  if (!(fabsf(x) < kFarAngle)) result = sinf(x);
  return result;
}
// cos(r + (n + 1 / 2) pi) is -sin(r), with another sign where n is odd.
__device__ __forceinline__ float cos_narrow(float x) {
  const float shifted = fmaf(x, 0.31830988618379067f, -0.5f) + 12582912.0f;
  float result = sine_beyond(x, shifted - 12582912.0f + 0.5f, ~__float_as_uint(shifted));
  if (!(fabsf(x) < kFarAngle)) result = cosf(x);
  return result;
}

// Dropped where the draw from [0, 2^24) of element i alone, as src/graph/dropout.hpp has it, lies
// below `limit`, which is p 2^24 rounded up. `seed` is a constant, and so is its key; what
// neighbours have in common is computed once. What is left for each are two products of 32 bits:
// beside the tensor cores products take their cycles, and those of 64 bits many.
__device__ __forceinline__ bool dropped(u64 seed, u64 i, u32 limit) {
  u64 key = seed + 0x9e3779b97f4a7c15ull;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ull;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebull;
  key ^= key >> 31;
  const u32 low = (u32)i, high = (u32)(i >> 32);
  u32 x = low * 0x9e3779b9u + (high * 0x85ebca6bu + (u32)key);
  x = (x ^ (x >> 16)) * 0x21f0aaadu ^ ((u32)(key >> 32) + high);
  x = (x ^ (x >> 15)) * 0xd35a2d97u;
  return (x ^ (x >> 15)) >> 8 < limit;
}
