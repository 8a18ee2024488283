// The measurement's own kernels: they prepare what is measured and are never measured themselves.

typedef unsigned long long u64;

constexpr unsigned kThreads = 256;  // of a block, but for hold()

// Loads a buffer and stores nothing, so that it pushes everything else out of the L2 and leaves no
// dirty line behind. (A memset would leave the L2 full of lines that the next kernel's range pays
// for.) What it loads must be used: ptxas drops unused loads, even asm volatile ones. One thread
// in four thousand million writes four bytes to the sink.
extern "C" __global__ void __launch_bounds__(kThreads)
    sweep(const uint4* buffer, u64 vectors, unsigned* sink) {
  const u64 stride = (u64)gridDim.x * blockDim.x;
  unsigned all = 0;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
    const uint4 v = buffer[i];
    all ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (all == 0x5eed5eedu) *sink = all;
}

// Holds the stream until the host raises the flag, so that the launches behind it are all queued
// before the first one starts. It times out: a host process that died must not block the GPU.
extern "C" __global__ void hold(const volatile unsigned* flag, u64 most_ns) {
  u64 begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*flag == 0 && now - begin < most_ns);
}

// Counter-based random numbers (splitmix64): element i depends on the seed and i alone.
__device__ u64 random_bits(u64 seed, u64 i) {
  u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// A float as a narrower one, towards zero. The range is the caller's.
__device__ unsigned narrow_float(float value, int exponent_bits, int mantissa_bits) {
  const unsigned bits = __float_as_uint(value);
  const int exponent = (int)(bits >> 23 & 0xff) - 127 + (1 << (exponent_bits - 1)) - 1;
  const unsigned sign = bits >> 31 << (exponent_bits + mantissa_bits);
  const unsigned mantissa = bits & 0x7fffff;
  if (exponent > 0) {
    return sign | (unsigned)exponent << mantissa_bits | mantissa >> (23 - mantissa_bits);
  }
  const int shift = 24 - mantissa_bits - exponent;  // a subnormal
  return shift > 31 ? sign : sign | (mantissa | 0x800000) >> shift;
}

// How fill() writes an element and compare() reads it: bits, then the types in the order that the
// host has them in (src/core/dtype.hpp). src/reference/random.cpp says what each element holds.
enum ElementKind {
  kBits64,
  kBits8,
  kFloat64,
  kFloat32,
  kTfloat32,
  kFloat16,
  kBfloat16,
  kFloat8E4m3,
  kFloat8E5m2,
  kFloat4E2m1,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kInt4,
  kUint4,
  kBool
};

// The draw of element i as a real number. The fused multiply-add is spelt out: the host repeats it.
__device__ double random_real(u64 seed, u64 i, double low, double high) {
  return fma(high - low, (double)(random_bits(seed, i) >> 11) * 0x1p-53, low);
}

__device__ unsigned random_nibble(u64 seed, u64 i, int kind, double low, double high) {
  const double real = random_real(seed, i, low, high);
  return kind == kFloat4E2m1 ? narrow_float((float)real, 2, 1) : (unsigned)(int)floor(real) & 15u;
}

// `elements` counts what is stored whole: bytes, where a type has 4 bits. Draws repeat after
// `period` elements, if that is not 0.
extern "C" __global__ void __launch_bounds__(kThreads)
    fill(void* buffer, u64 elements, int kind, double low, double high, u64 seed, u64 period) {
  const u64 stride = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += stride) {
    const u64 draw = period == 0 ? i : i % period;
    const u64 bits = random_bits(seed, draw);
    const double real = random_real(seed, draw, low, high);
    switch (kind) {
      case kBits64: ((u64*)buffer)[i] = bits; break;
      case kBits8: ((unsigned char*)buffer)[i] = (unsigned char)bits; break;
      case kFloat64: ((double*)buffer)[i] = real; break;
      case kFloat32: ((float*)buffer)[i] = (float)real; break;
      case kTfloat32: ((unsigned*)buffer)[i] = __float_as_uint((float)real) & ~0x1fffu; break;
      case kFloat16: ((unsigned short*)buffer)[i] = narrow_float((float)real, 5, 10); break;
      case kBfloat16: ((unsigned short*)buffer)[i] = __float_as_uint((float)real) >> 16; break;
      case kFloat8E4m3: ((unsigned char*)buffer)[i] = narrow_float((float)real, 4, 3); break;
      case kFloat8E5m2: ((unsigned char*)buffer)[i] = narrow_float((float)real, 5, 2); break;
      case kInt64: ((long long*)buffer)[i] = (long long)floor(real); break;
      case kInt32: ((int*)buffer)[i] = (int)floor(real); break;
      case kInt16: ((short*)buffer)[i] = (short)(int)floor(real); break;
      case kInt8:
      case kUint8: ((unsigned char*)buffer)[i] = (unsigned char)(int)floor(real); break;
      case kBool: ((unsigned char*)buffer)[i] = (unsigned char)(bits >> 63); break;
      case kFloat4E2m1:
      case kInt4:
      case kUint4: {  // elements 2i and 2i + 1, the first in the low half
        const u64 first = period == 0 ? 2 * i : 2 * i % period;
        const u64 second = period == 0 ? 2 * i + 1 : (2 * i + 1) % period;
        ((unsigned char*)buffer)[i] =
            (unsigned char)(random_nibble(seed, first, kind, low, high) |
                            random_nibble(seed, second, kind, low, high) << 4);
        break;
      }
    }
  }
}

// A narrow float as a double. e4m3 and e2m1 have no infinity, e2m1 has nothing but numbers.
__device__ double wide_float(unsigned bits, int exponent_bits, int mantissa_bits,
                             bool has_infinity) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const int top = (1 << exponent_bits) - 1;
  const int exponent = (int)(bits >> mantissa_bits) & top;
  const bool negative = bits >> (mantissa_bits + exponent_bits) & 1;
  double magnitude = 0;
  if (exponent == top && has_infinity) {
    magnitude = mantissa == 0 ? __longlong_as_double(0x7ff0000000000000ll) : nan("");
  } else if (exponent == top && mantissa_bits == 3 && mantissa == 7) {
    magnitude = nan("");
  } else {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const unsigned leading = exponent == 0 ? 0 : 1u << mantissa_bits;
    magnitude =
        scalbn((double)(mantissa | leading), (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

__device__ double element(const void* buffer, u64 i, int kind) {
  const unsigned char byte_pair = kind == kFloat4E2m1 || kind == kInt4 || kind == kUint4
                                      ? ((const unsigned char*)buffer)[i / 2]
                                      : (unsigned char)0;
  const unsigned nibble = byte_pair >> (i % 2 * 4) & 15u;
  switch (kind) {
    case kFloat64: return ((const double*)buffer)[i];
    case kFloat32:
    case kTfloat32: return ((const float*)buffer)[i];
    case kFloat16: return wide_float(((const unsigned short*)buffer)[i], 5, 10, true);
    case kBfloat16: return wide_float(((const unsigned short*)buffer)[i], 8, 7, true);
    case kFloat8E4m3: return wide_float(((const unsigned char*)buffer)[i], 4, 3, false);
    case kFloat8E5m2: return wide_float(((const unsigned char*)buffer)[i], 5, 2, true);
    case kFloat4E2m1: return wide_float(nibble, 2, 1, false);
    case kInt64: return (double)((const long long*)buffer)[i];
    case kInt32: return ((const int*)buffer)[i];
    case kInt16: return ((const short*)buffer)[i];
    case kInt8: return ((const signed char*)buffer)[i];
    case kInt4: return (int)(nibble << 28) >> 28;
    case kUint4: return nibble;
    default: return ((const unsigned char*)buffer)[i];
  }
}

// What one block of compare() found.
struct Differences {
  double excess;     // the largest |a - b| / (absolute + relative * max(|a|, |b|))
  u64 worst;         // where
  u64 beyond;        // elements whose excess is above 1
  double magnitude;  // the largest finite |a|
};

__device__ void join(Differences& into, const Differences& other) {
  if (other.excess > into.excess || (other.excess == into.excess && other.worst < into.worst)) {
    into.excess = other.excess;
    into.worst = other.worst;
  }
  into.beyond += other.beyond;
  into.magnitude = fmax(into.magnitude, other.magnitude);
}

// Infinities and NaN are equal to their own kind only.
extern "C" __global__ void __launch_bounds__(kThreads)
    compare(const void* a, const void* b, u64 elements, int kind, double absolute, double relative,
            Differences* results) {
  __shared__ Differences found[kThreads];
  const double infinity = __longlong_as_double(0x7ff0000000000000ll);
  Differences mine = {0, ~0ull, 0, 0};
  const u64 stride = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < elements; i += stride) {
    const double x = element(a, i, kind);
    const double y = element(b, i, kind);
    double excess = 0;
    if (isfinite(x) && isfinite(y)) {
      const double difference = fabs(x - y);
      const double allowed = absolute + relative * fmax(fabs(x), fabs(y));
      excess = difference == 0 ? 0 : difference / allowed;
    } else if (x != y && !(isnan(x) && isnan(y))) {
      excess = infinity;
    }
    const double magnitude = isfinite(x) ? fabs(x) : 0;
    const Differences here = {excess, i, excess > 1 ? 1ull : 0ull, magnitude};
    join(mine, here);
  }
  found[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) join(found[threadIdx.x], found[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) results[blockIdx.x] = found[0];
}
