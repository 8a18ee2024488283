// Pointwise functions for epilogues, in a few instructions each: right to about 1e-5 of the result,
// far inside what bf16 and f16 can tell apart, where the precise ones of arithmetic.cuh would take
// longer than the tensor cores take for the tile (of a multiprocessor's 16 special functions a
// cycle, a 128 x 256 tile needs 2048 cycles each time every element uses one).

__device__ __forceinline__ float quick_divide(float a, float b) { return __fdividef(a, b); }
__device__ __forceinline__ float quick_sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + __expf(-x));
}
__device__ __forceinline__ float quick_silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }
__device__ __forceinline__ float quick_tanh(float x) {
  // Near 0 the quotient would lose what the series has.
  const float far = 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x));
  const float x2 = x * x;
  const float near = x * fmaf(x2, fmaf(x2, 0.13333333f, -0.33333333f), 1.0f);
  return fabsf(x) < 0.1f ? near : far;
}
__device__ __forceinline__ float quick_gelu_tanh(float x) {
  return __fdividef(x, 1.0f + __expf(-1.5957691216057307f * fmaf(0.044715f * x * x, x, x)));
}
__device__ __forceinline__ float quick_log1p(float x) {
  const float near = x * fmaf(x, fmaf(x, fmaf(x, -0.25f, 0.33333333f), -0.5f), 1.0f);
  return fabsf(x) < 0.05f ? near : __logf(1.0f + x);
}
