// What the device column of the op table calls. Every function takes the compute types: float,
// double, and for some of them int and long long.

template <typename T>
__device__ __forceinline__ T larger(T a, T b) {
  return a > b || a != a ? a : b;  // NaN wins, as in NumPy
}
template <typename T>
__device__ __forceinline__ T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}
template <typename T>
__device__ __forceinline__ T magnitude(T a) {
  return a < T(0) ? -a : a;
}
__device__ __forceinline__ float magnitude(float a) { return fabsf(a); }
__device__ __forceinline__ double magnitude(double a) { return fabs(a); }

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

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

template <typename T>
__device__ __forceinline__ T gelu_exact(T x) {
  return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752440)));
}
// 0.5 (1 + tanh(y)) is sigmoid(2 y).
template <typename T>
__device__ __forceinline__ T gelu_tanh(T x) {
  return x * sigmoid(T(1.5957691216057307612) * (x + T(0.044715) * x * x * x));
}

// Counter-based random numbers (splitmix64): element i depends on the seed and i alone. It is
// dropped where its 24 bits are below `limit`, which is p 2^24 rounded up.
__device__ __forceinline__ bool dropped(u64 seed, u64 i, u32 limit) {
  u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return (u32)(z >> 40) < limit;
}
