// Pointwise functions for epilogues, in a few instructions each: right to about 1e-5 of the result
// (gelu's exact form: 5.5e-4), inside what bf16 and f16 can tell apart. The precise ones of
// arithmetic.cuh would take longer than the tensor cores take for the tile; even so, a 128 x 256
// tile needs 2048 cycles for every use of a special function (a multiprocessor does 16 a cycle).
// Subnormal numbers count as 0: minding them doubles the instructions.

__device__ __forceinline__ float quick_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float quick_log2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float quick_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// One instruction, or none: a conversion to 16 bits takes it in. NaN stays NaN.
__device__ __forceinline__ float quick_relu(float x) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(result) : "f"(x));
  return result;
#else
  return x < 0 ? 0 : x;
#endif
}

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

__device__ __forceinline__ float quick_exp(float x) { return quick_exp2(x * kLog2E); }
__device__ __forceinline__ float quick_log(float x) { return quick_log2(x) * kLn2; }
__device__ __forceinline__ float quick_divide(float a, float b) { return a * quick_reciprocal(b); }
// Near 0 the logarithm of a sum would lose what the series has.
__device__ __forceinline__ float quick_log1p(float x) {
  const float near = x * fmaf(x, fmaf(x, 0.33333333f, -0.5f), 1.0f);
  return fabsf(x) < 0.02f ? near : quick_log2(1.0f + x) * kLn2;
}
__device__ __forceinline__ float quick_sigmoid(float x) {
  return quick_reciprocal(1.0f + quick_exp2(-kLog2E * x));
}
__device__ __forceinline__ float quick_silu(float x) { return x * quick_sigmoid(x); }
__device__ __forceinline__ float quick_tanh(float x) {
  const float far = fmaf(-2.0f, quick_reciprocal(1.0f + quick_exp2(2.0f * kLog2E * x)), 1.0f);
  const float x2 = x * x;
  const float near = x * fmaf(x2, fmaf(x2, 0.13333333f, -0.33333333f), 1.0f);
  return fabsf(x) < 0.1f ? near : far;
}
// x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))).
__device__ __forceinline__ float quick_gelu_tanh(float x) {
  constexpr float kLinear = -1.5957691216057307f * kLog2E;
  return x * quick_reciprocal(1.0f + quick_exp2(x * fmaf(0.044715f * kLinear, x * x, kLinear)));
}
// x Phi(x). The logit of Phi is odd: log(Phi(x) / Phi(-x)) = x q, q = 1.59423 + 0.074652 s -
// 0.00079 s^2 with s = x^2, so that the result is right to 5.5e-4 of itself down to -3.5, where
// -8e-4 is left of it, and to 2e-6 below. One special function less than with a q that follows the
// logit on.
__device__ __forceinline__ float quick_gelu(float x) {
  const float s = fminf(x * x, 60.0f);  // beyond, q would fall
  const float q =
      fmaf(s, fmaf(s, kLog2E * 7.8973803e-4f, -kLog2E * 0.074652429f), -kLog2E * 1.5942319f);
  return x * quick_reciprocal(1.0f + quick_exp2(x * q));
}
