// Elements in memory and in registers: the types that tensors are stored in, the type that each is
// computed in, and loads and stores of up to 16 bytes a thread.
//
// The generator names a stored type (f32, bf16, ...), and to_compute()/store_as() do the rest. No
// CUDA header is included: a machine that measures need not have a toolkit.

typedef unsigned char u8;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};
struct fp8_e4m3 {
  u8 bits;
};
struct fp8_e5m2 {
  u8 bits;
};
// Two elements a byte, the first in the low half.
struct i4 {
  u8 bits;
};
struct u4 {
  u8 bits;
};
struct fp4_e2m1 {
  u8 bits;
};

// What an element is computed in.

__device__ __forceinline__ float to_compute(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ float to_compute(f16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
// A small float without infinities of its own (e4m3) or with them (e5m2), by way of f16, whose
// exponent is as wide as e5m2's.
__device__ __forceinline__ float to_compute(fp8_e5m2 x) {
  return to_compute(f16{(unsigned short)(x.bits << 8)});
}
__device__ __forceinline__ float to_compute(fp8_e4m3 x) {
  const u32 magnitude = x.bits & 0x7fu;
  if (magnitude == 0x7fu) return __uint_as_float(0x7fffffffu);
  // As the bits of an f32 it is 2^120 too small.
  const float value = __uint_as_float(magnitude << 20) * 0x1p120f;
  return x.bits & 0x80u ? -value : value;
}
__device__ __forceinline__ f32 to_compute(f32 x) { return x; }
__device__ __forceinline__ f64 to_compute(f64 x) { return x; }
__device__ __forceinline__ i32 to_compute(u8 x) { return x; }
__device__ __forceinline__ i32 to_compute(i8 x) { return x; }
__device__ __forceinline__ i32 to_compute(i16 x) { return x; }
__device__ __forceinline__ i32 to_compute(i32 x) { return x; }
__device__ __forceinline__ i64 to_compute(i64 x) { return x; }
__device__ __forceinline__ bool to_compute(bool x) { return x; }

// A computed value as it is stored.

__device__ __forceinline__ void store_as(bf16& to, float x) {
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
#else
  const u32 bits = __float_as_uint(x);
  to.bits = x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}
__device__ __forceinline__ void store_as(f16& to, float x) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
}
// Two as a word, the first in the low half.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ u32 pack_pair(float first, float second, bf16) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
  return result;
}
__device__ __forceinline__ u32 pack_pair(float first, float second, f16) {
  u32 result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
  return result;
}
#else
template <typename T>
__device__ __forceinline__ u32 pack_pair(float first, float second, T) {
  T low, high;
  store_as(low, first);
  store_as(high, second);
  return low.bits | (u32)high.bits << 16;
}
#endif

// Rounds to nearest even; what is too large becomes the largest (e4m3) or infinite (e5m2).
__device__ __forceinline__ u8 small_float(float x, int exponent_bits, int mantissa_bits, u32 most,
                                          u32 beyond, u32 not_a_number) {
  const u32 bits = __float_as_uint(x);
  const u32 sign = bits >> 31 << 7;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (u8)(sign | not_a_number);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (int)(magnitude >> 23) - 127 + bias;
  int drop = 23 - mantissa_bits;
  u32 value;
  if (exponent > 0) {
    value = ((u32)exponent << 23) | (magnitude & 0x7fffffu);
  } else {
    drop += 1 - exponent;
    if (drop > 24) return (u8)sign;
    value = (magnitude & 0x7fffffu) | 0x800000u;
  }
  const u32 half = 1u << (drop - 1);
  const u32 kept = value >> drop;
  const u32 rest = value & ((1u << drop) - 1);
  const u32 rounded = kept + (rest > half || (rest == half && (kept & 1u)) ? 1u : 0u);
  return (u8)(sign | (rounded > most ? beyond : rounded));
}
#if __CUDA_ARCH__ >= 890
__device__ __forceinline__ void store_as(fp8_e4m3& to, float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  to.bits = (u8)pair;
}
// The instruction stops at the largest number.
__device__ __forceinline__ void store_as(fp8_e5m2& to, float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  to.bits = (u8)(fabsf(x) >= 61440.0f ? (pair & 0x80u) | 0x7cu : pair);
}
#else
__device__ __forceinline__ void store_as(fp8_e4m3& to, float x) {
  to.bits = small_float(x, 4, 3, 0x7eu, 0x7eu, 0x7fu);
}
__device__ __forceinline__ void store_as(fp8_e5m2& to, float x) {
  to.bits = small_float(x, 5, 2, 0x7bu, 0x7cu, 0x7fu);
}
#endif
__device__ __forceinline__ void store_as(f32& to, f32 x) { to = x; }
__device__ __forceinline__ void store_as(f64& to, f64 x) { to = x; }
__device__ __forceinline__ void store_as(u8& to, i32 x) { to = (u8)x; }
__device__ __forceinline__ void store_as(i8& to, i32 x) { to = (i8)x; }
__device__ __forceinline__ void store_as(i16& to, i32 x) { to = (i16)x; }
__device__ __forceinline__ void store_as(i32& to, i32 x) { to = x; }
__device__ __forceinline__ void store_as(i64& to, i64 x) { to = x; }
__device__ __forceinline__ void store_as(bool& to, bool x) { to = x; }

// One that has no neighbour, as a half of a pair: the compiler may have numbers that are converted
// alone wait for the unit of the special functions.
template <typename T, typename C>
__device__ __forceinline__ void store_alone(T& to, C x) {
  store_as(to, x);
}
__device__ __forceinline__ void store_alone(bf16& to, float x) {
  to.bits = (unsigned short)pack_pair(x, 0.0f, bf16{});
}
__device__ __forceinline__ void store_alone(f16& to, float x) {
  to.bits = (unsigned short)pack_pair(x, 0.0f, f16{});
}

// N elements that lie side by side, moved 16 bytes at a time where they are that many.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T v[N];
  __device__ __forceinline__ auto get(int j) const { return to_compute(v[j]); }
};
// Two elements are a word, of which one instruction makes either.
template <int N>
struct alignas(sizeof(bf16) * N < 16 ? sizeof(bf16) * N : 16) Pack<bf16, N> {
  bf16 v[N];
  __device__ __forceinline__ float get(int j) const {
    if (N == 1) return to_compute(v[0]);
    const u32 pair = reinterpret_cast<const u32*>(v)[j / 2];
    return __uint_as_float(j % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
  }
};

template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_pack(const T* at) {
  return *reinterpret_cast<const Pack<T, N>*>(at);
}
template <int N, typename T>
__device__ __forceinline__ void store_pack(T* at, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(at) = pack;
}

template <int kBytes>
struct Words {
  static_assert(kBytes % 16 == 0, "of several instructions");
  typedef uint4 Type;
};
template <>
struct Words<1> {
  typedef u8 Type;
};
template <>
struct Words<2> {
  typedef unsigned short Type;
};
template <>
struct Words<4> {
  typedef u32 Type;
};
template <>
struct Words<8> {
  typedef uint2 Type;
};

// The same for what no other thread takes, and what is to leave the L2 before what others do.
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_pack_once(const T* at) {
  typedef typename Words<sizeof(Pack<T, N>)>::Type Word;
  constexpr int kWords = sizeof(Pack<T, N>) / sizeof(Word);
  Word words[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = __ldcs(reinterpret_cast<const Word*>(at) + i);
  Pack<T, N> pack;
  memcpy(&pack, words, sizeof(pack));
  return pack;
}
template <int N, typename T>
__device__ __forceinline__ void store_pack_once(T* at, const Pack<T, N>& pack) {
  typedef typename Words<sizeof(Pack<T, N>)>::Type Word;
  constexpr int kWords = sizeof(Pack<T, N>) / sizeof(Word);
  Word words[kWords];
  memcpy(words, &pack, sizeof(pack));
#pragma unroll
  for (int i = 0; i < kWords; ++i) __stcs(reinterpret_cast<Word*>(at) + i, words[i]);
}

// The N elements from number i on, a multiple of N: those that are among the `count` of the tensor.
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_within(const T* tensor, u64 i, u64 count) {
  if (i < count && count - i >= N) return load_pack<N>(tensor + i);
  Pack<T, N> result = {};
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (i < count && j < count - i) result.v[j] = tensor[i + j];
  }
  return result;
}

// The place on chip of an element of a run: each 32 of them are followed by a gap, so that lanes
// that are several elements apart find other banks.
__device__ __forceinline__ u32 with_gaps(u32 element) { return element + element / 32; }

// The N elements from number i on, which need not be a multiple of N, of a tensor of `count`: out
// of the two groups that they lie in.
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_across(const T* tensor, u32 i, u32 count) {
  constexpr int kWords = N * sizeof(T) / 4;
  static_assert(kWords > 0 && N * sizeof(T) % 4 == 0, "groups are whole words");
  const u32 past = i % N;  // elements of the first group that are left out
  const T* const first = tensor + (i - past);
  alignas(16) u32 words[2 * kWords] = {};
  *reinterpret_cast<Pack<T, N>*>(words) = load_pack<N>(first);
  if (past > 0) {
    Pack<T, N>& second = *reinterpret_cast<Pack<T, N>*>(words + kWords);
    if (i - past + 2 * N <= count) {
      second = load_pack<N>(first + N);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (i - past + N + j < count) second.v[j] = first[N + j];
      }
    }
  }
  const u32 bytes = past * sizeof(T);
#pragma unroll
  for (int step = kWords / 2; step > 0; step /= 2) {
#pragma unroll
    for (int k = 0; k + step < 2 * kWords; ++k) {
      words[k] = bytes / 4 & step ? words[k + step] : words[k];
    }
  }
  Pack<T, N> result;
  u32* const to = reinterpret_cast<u32*>(&result);
#pragma unroll
  for (int k = 0; k < kWords; ++k) {
    to[k] = sizeof(T) < 4 ? __funnelshift_r(words[k], words[k + 1], bytes % 4 * 8) : words[k];
  }
  return result;
}

// Whether two elements are made a word by one instruction.
template <typename T>
constexpr bool kPairs = false;
template <>
constexpr bool kPairs<bf16> = true;
template <>
constexpr bool kPairs<f16> = true;

// The N elements from `v` on, as they are stored.
template <typename T, int N>
__device__ __forceinline__ void store_lanes(Pack<T, N>& pack, const float* v) {
  if constexpr (kPairs<T> && N > 1) {
    u32 words[N / 2];
#pragma unroll
    for (int j = 0; j < N; j += 2) words[j / 2] = pack_pair(v[j], v[j + 1], T{});
    memcpy(&pack, words, sizeof(words));
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) store_as(pack.v[j], v[j]);
  }
}

// A quad's lanes q = 0..3 each hold words 4q..4q + 3; afterwards lane q holds words q, 4 + q, 8 + q
// and 12 + q.
__device__ __forceinline__ void transpose_in_quad(u32 (&x)[4]) {
#pragma unroll
  for (int apart = 1; apart <= 2; ++apart) {
    const bool upper = threadIdx.x & apart;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & apart) continue;
      u32 &low = x[i], &high = x[i + apart];
      const u32 came = __shfl_xor_sync(0xffffffffu, upper ? low : high, apart);
      (upper ? low : high) = came;
    }
  }
}

// Eight elements of each lane, at any place, where a quad's 32 are neighbours and the warp is
// whole; whether they are. A lane's words would lie 16 or 32 bytes from the next lane's: each store
// writes a part of twice to eight times as many sectors as there are bytes for. The quad exchanges
// words, so that a store writes 16 bytes side by side; halves of words come from the lane before.
template <int kAlign, typename T>
__device__ __forceinline__ bool store_in_quad(T* at, const Pack<T, 8>& pack) {
  constexpr int kWords = 8 * sizeof(T) / 4;
  constexpr bool kHalves = kAlign * sizeof(T) < 4;  // lines may begin between words
  const int q = threadIdx.x & 3;
  const u64 row = (u64)(at - 8 * q);
  if (__activemask() != 0xffffffffu) return false;
  if (!__all_sync(0xffffffffu, row == __shfl_sync(0xffffffffu, row, threadIdx.x & 28))) {
    return false;
  }
  u32 words[kWords];
  memcpy(words, &pack, sizeof(words));
  const bool between = kHalves && (row & 2) != 0;
  if constexpr (kHalves) {
    u32 before = __shfl_up_sync(0xffffffffu, words[kWords - 1], 1);
    if (between && q == 0) at[0] = pack.v[0];
    if (between && q == 3) at[7] = pack.v[7];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const u32 own = words[i];
      words[i] = between ? __byte_perm(before, own, 0x5432) : own;
      before = own;
    }
  }
  u32* const to = reinterpret_cast<u32*>(row & ~(u64)3) + q;
#pragma unroll
  for (int i = 0; i < kWords; i += 4) {
    u32 part[4] = {words[i], words[i + 1], words[i + 2], words[i + 3]};
    transpose_in_quad(part);
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const bool first = i + lane == 0;  // of a row, the half before it is not its own
      if (!(first && between && q == 0)) to[lane * kWords + i] = part[lane];
    }
  }
  return true;
}

// Eight words of each lane of a warp, at multiples of 16 bytes, where pairs of lanes mostly have
// neighbours: two stores of 16 bytes would each write half of the sectors that they touch, so a
// pair exchanges halves.
template <typename T>
__device__ __forceinline__ void store_in_pair(T* at, const Pack<T, 8>& pack) {
  static_assert(sizeof(T) == 4, "words");
  const bool odd = threadIdx.x & 1;
  u32 words[8];
  memcpy(words, &pack, sizeof(words));
  const u64 own = (u64)at, other = __shfl_xor_sync(0xffffffffu, own, 1);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32 came = __shfl_xor_sync(0xffffffffu, odd ? words[i] : words[4 + i], 1);
    words[i] = odd ? came : words[i];
    words[4 + i] = odd ? words[4 + i] : came;
  }
  // The first lane's eight, then the second's.
  *reinterpret_cast<uint4*>(odd ? other + 16 : own) =
      make_uint4(words[0], words[1], words[2], words[3]);
  *reinterpret_cast<uint4*>(odd ? own + 16 : other) =
      make_uint4(words[4], words[5], words[6], words[7]);
}

// Element i of a tensor.
template <typename T>
__device__ __forceinline__ auto fetch(const T* tensor, u64 i) {
  return to_compute(tensor[i]);
}
__device__ __forceinline__ u32 nibble(const u8* bytes, u64 i) {
  return bytes[i >> 1] >> (u32)(i & 1) * 4 & 0xfu;
}
__device__ __forceinline__ i32 fetch(const u4* tensor, u64 i) {
  return (i32)nibble(reinterpret_cast<const u8*>(tensor), i);
}
__device__ __forceinline__ i32 fetch(const i4* tensor, u64 i) {
  return ((i32)nibble(reinterpret_cast<const u8*>(tensor), i) ^ 8) - 8;
}
__device__ __forceinline__ float fetch(const fp4_e2m1* tensor, u64 i) {
  const u32 bits = nibble(reinterpret_cast<const u8*>(tensor), i);
  const u32 magnitude = bits & 7u;
  // 0 0.5 1 1.5 2 3 4 6: from 1 on the bits of an f32, but for its bias.
  const float value =
      magnitude < 2 ? 0.5f * magnitude : __uint_as_float((magnitude << 22) + (126u << 23));
  return bits & 8u ? -value : value;
}

__device__ __forceinline__ constexpr bool is_signed(i4) { return true; }
__device__ __forceinline__ constexpr bool is_signed(u4) { return false; }

// N elements of a packed type, from a multiple of N on.
template <int N, typename T>
struct Nibbles {
  alignas(N < 32 ? (N + 1) / 2 : 16) T pair[(N + 1) / 2];
  u32 odd;  // N being 1: whether it is the second of its byte
  __device__ __forceinline__ auto get(int j) const { return fetch(pair, (u64)(j + odd)); }
  // An integer as a float, in two instructions where eight lie in a word: under the exponent of
  // 2^23, whose bits it becomes the last of, and from there in one step.
  __device__ __forceinline__ float as_float(int j) const {
    if constexpr (N < 8) {
      return (float)get(j);
    } else {
      u32 word;
      memcpy(&word, pair + j / 8 * 4, 4);
      if (j % 8 >= 4) word >>= 16;
      const int shift = j % 4 * 4;
      const u32 sign = is_signed(T{}) ? 8u << shift : 0u;
      const float scale = 1.0f / (float)(1 << shift);
      u32 bits;  // (word & mask) ^ (sign | exponent)
      asm("lop3.b32 %0, %1, %2, %3, 0x6a;"
          : "=r"(bits)
          : "r"(word), "r"(0xfu << shift), "r"(sign | 0x4b000000u));
      return fmaf(__uint_as_float(bits), scale,
                  -8388608.0f * scale - (is_signed(T{}) ? 8.0f : 0.0f));
    }
  }
};
template <int N, typename T>
__device__ __forceinline__ Nibbles<N, T> load_nibbles(const T* tensor, u64 i) {
  Nibbles<N, T> result;
  result.odd = N == 1 ? (u32)(i & 1) : 0;
  *reinterpret_cast<Pack<T, (N + 1) / 2>*>(result.pair) = load_pack<(N + 1) / 2>(tensor + (i >> 1));
  return result;
}

template <typename T, typename C>
__device__ __forceinline__ void put(T* tensor, u64 i, C value) {
  store_as(tensor[i], value);
}

// Adds to a count that blocks share, and returns the count before. A block that finds another's add
// in it sees what the other's threads wrote before the barrier ahead of that add.
__device__ __forceinline__ u32 arrive_at(u32* count, u32 more) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(count), "r"(more)
               : "memory");
  return before;
}
__device__ __forceinline__ u32 look_at(const u32* count) {
  u32 now;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
  return now;
}
