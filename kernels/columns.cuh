// Neighbouring columns of a row, where C may end among them and rows may begin anywhere: how many
// are real, and their loads and stores in the widest words that there are. Needs elements.cuh
// before it.

// How many of a group of columns exist: all eight, known at compile time; all or none, where a
// row's length is a multiple of the group; or an int.
struct Eight {
  __device__ __forceinline__ constexpr operator int() const { return 8; }
};
// The same of all lanes of a warp, which run the epilogue together.
struct EightOfWarp : Eight {};
struct AllOrNone {
  u32 all;  // 0 or 1
  __device__ __forceinline__ operator int() const { return all != 0 ? 8 : 0; }
};
template <class Valid>
constexpr bool kCounts = false;
template <>
constexpr bool kCounts<int> = true;

// What a kernel does not write, or writes only from the thread that read it before (an output in
// place of an operand): the compiler may move the load over stores. Where not `all`, nothing is
// touched, and 0 is read, without a branch.
template <typename T>
__device__ __forceinline__ T load_words(const T* at, u32 all) {
  T result;
  if constexpr (sizeof(T) == 16) {
    uint4 bits;
    asm("{.reg .pred p; setp.ne.u32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
        "mov.b32 %3, 0; @p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];}"
        : "=&r"(bits.x), "=&r"(bits.y), "=&r"(bits.z), "=&r"(bits.w)
        : "l"(at), "r"(all));
    memcpy(&result, &bits, 16);
  } else if constexpr (sizeof(T) == 8) {
    uint2 bits;
    asm("{.reg .pred p; setp.ne.u32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0; "
        "@p ld.global.nc.v2.u32 {%0, %1}, [%2];}"
        : "=&r"(bits.x), "=&r"(bits.y)
        : "l"(at), "r"(all));
    memcpy(&result, &bits, 8);
  } else if constexpr (sizeof(T) == 4) {
    u32 bits;
    asm("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.u32 %0, [%1];}"
        : "=&r"(bits)
        : "l"(at), "r"(all));
    memcpy(&result, &bits, 4);
  } else if constexpr (sizeof(T) == 2) {
    unsigned short bits;
    asm("{.reg .pred p; setp.ne.u32 p, %2, 0; mov.b16 %0, 0; @p ld.global.nc.u16 %0, [%1];}"
        : "=&h"(bits)
        : "l"(at), "r"(all));
    memcpy(&result, &bits, 2);
  } else {
    u8 bits = 0;
    if (all != 0) bits = *reinterpret_cast<const u8*>(at);
    memcpy(&result, &bits, 1);
  }
  return result;
}
template <typename T>
__device__ __forceinline__ T load_input(const T* at) {
  return load_words(at, 1);
}

// Eight neighbours of 16 bits, long before they are used: the compiler may not move the load down.
// They are read once, so that on sm_90 they are the first to leave the L2, where the operands of
// the product should stay.
template <typename T>
__device__ __forceinline__ Pack<T, 8> load_ahead(const T* at, u32 all) {
  uint4 bits;
#if __CUDA_ARCH__ >= 900
  constexpr u64 kFirstToLeave = 0x12f0000000000000ull;
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
      "mov.b32 %3, 0; @p ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, "
      "[%4], %6;}"
      : "=&r"(bits.x), "=&r"(bits.y), "=&r"(bits.z), "=&r"(bits.w)
      : "l"(at), "r"(all), "l"(kFirstToLeave));
#else
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
      "mov.b32 %3, 0; @p ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];}"
      : "=&r"(bits.x), "=&r"(bits.y), "=&r"(bits.z), "=&r"(bits.w)
      : "l"(at), "r"(all));
#endif
  Pack<T, 8> result;
  memcpy(&result, &bits, 16);
  return result;
}

// From the DRAM to the L2: eight neighbours; or so many, a multiple of 16 bytes, on sm_90.
template <typename T>
__device__ __forceinline__ void prefetch_eight(const T* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}
template <typename T>
__device__ __forceinline__ void prefetch_line(const T* at, int count) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(count * (int)sizeof(T))
               : "memory");
}

// One instruction without a branch, where the compiler would split the store of some packs into
// their elements.
template <class T>
__device__ __forceinline__ void store_words(void* at, const T& from, u32 all) {
  if constexpr (sizeof(T) == 16) {
    uint4 bits;
    memcpy(&bits, &from, 16);
    asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; @p st.global.v4.u32 [%4], {%0, %1, %2, %3};}"
                 :
                 : "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w), "l"(at), "r"(all));
  } else if constexpr (sizeof(T) == 8) {
    u64 bits;
    memcpy(&bits, &from, 8);
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u64 [%1], %0;}"
                 :
                 : "l"(bits), "l"(at), "r"(all));
  } else if constexpr (sizeof(T) == 4) {
    u32 bits;
    memcpy(&bits, &from, 4);
    asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; @p st.global.u32 [%1], %0;}"
                 :
                 : "r"(bits), "l"(at), "r"(all));
  } else if (all != 0) {
    *reinterpret_cast<T*>(at) = from;
  }
}

template <typename T>
__device__ __forceinline__ constexpr bool is_bf16(T) {
  return false;
}
__device__ __forceinline__ constexpr bool is_bf16(bf16) { return true; }

// The two bf16 of a word, with ALU instructions only: the compiler would use a multiplication for
// half of it, and each instruction on the FMA pipe takes a cycle from the tensor cores of the next
// tile (contract_sm90.cuh).
__device__ __forceinline__ void split(u32 word, float& first, float& second) {
  u32 low;
  asm("prmt.b32 %0, %1, 0, 0x1044;" : "=r"(low) : "r"(word));
  first = __uint_as_float(low);
  second = __uint_as_float(word & 0xffff0000u);
}

template <typename T, int kPack>
__device__ __forceinline__ void unpack(const Pack<T, kPack>& pack, float* v) {
  if constexpr (is_bf16(T{}) && kPack > 1) {
    u32 words[kPack / 2];
    memcpy(words, &pack, sizeof(words));
#pragma unroll
    for (int j = 0; j < kPack; j += 2) split(words[j / 2], v[j], v[j + 1]);
  } else {
#pragma unroll
    for (int j = 0; j < kPack; ++j) v[j] = (float)to_compute(pack.v[j]);
  }
}

// Adjacent elements of a tensor whose rows begin at multiples of kAlign elements (1, 2, 4 or 8).
// Beyond `valid` nothing is touched, and 0 is read.
template <int kAlign, typename T, class Valid, int kCount>
__device__ __forceinline__ void load_columns(const T* at, Valid valid, float (&v)[kCount]) {
  constexpr int kMost = 16 / sizeof(T) < kCount ? 16 / sizeof(T) : kCount;
  constexpr int kPack = kAlign < kMost ? kAlign : kMost;
  typedef Pack<T, kPack> Packed;
#pragma unroll
  for (int i = 0; i < kCount; i += kPack) {
    const Packed* const pack = reinterpret_cast<const Packed*>(at + i);
    if constexpr (!kCounts<Valid>) {
      unpack(load_words(pack, valid != 0), v + i);
    } else if (i + kPack <= valid) {
      unpack(load_input(pack), v + i);
    } else {
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        v[i + e] = i + e < valid ? (float)to_compute(load_input(at + i + e)) : 0.0f;
      }
    }
  }
}

// kCount adjacent elements, all of them real, where one begins at a multiple of kAlign.
template <int kAlign, int kCount, typename T>
__device__ __forceinline__ Pack<T, kCount> load_neighbours(const T* at) {
  constexpr int kMost = 16 / sizeof(T) < kCount ? 16 / sizeof(T) : kCount;
  constexpr int kPack = kAlign < kMost ? kAlign : kMost;
  Pack<T, kCount> result;
#pragma unroll
  for (int i = 0; i < kCount; i += kPack) {
    const auto pack = load_input(reinterpret_cast<const Pack<T, kPack>*>(at + i));
#pragma unroll
    for (int j = 0; j < kPack; ++j) result.v[i + j] = pack.v[j];
  }
  return result;
}

template <class Valid>
constexpr bool kAllEight = false;
template <>
constexpr bool kAllEight<Eight> = true;
template <>
constexpr bool kAllEight<EightOfWarp> = true;
template <class Valid>
constexpr bool kWholeWarp = false;
template <>
constexpr bool kWholeWarp<EightOfWarp> = true;

template <int kAlign, typename T, class Valid, int kCount>
__device__ __forceinline__ void store_columns(T* at, Valid valid, const float (&v)[kCount]) {
  constexpr int kMost = 16 / sizeof(T) < kCount ? 16 / sizeof(T) : kCount;
  if constexpr (kAllEight<Valid> && sizeof(T) >= 2 && sizeof(T) <= 4 && kAlign * sizeof(T) <= 4) {
    Pack<T, 8> pack;
    store_lanes(pack, v);
    if (store_in_quad<kAlign>(at, pack)) return;
  }
  if constexpr (kWholeWarp<Valid> && sizeof(T) == 4 && kAlign >= 4) {
    Pack<T, 8> pack;
    store_lanes(pack, v);
    return store_in_pair(at, pack);
  }
  constexpr int kPack = kAlign < kMost ? kAlign : kMost;
#pragma unroll
  for (int i = 0; i < kCount; i += kPack) {
    if (kCounts<Valid> && i + kPack > valid) {
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        if (i + e < valid) store_as(at[i + e], v[i + e]);
      }
    } else {
      Pack<T, kPack> pack;
      store_lanes(pack, v + i);
      store_words(at + i, pack, kCounts<Valid> || valid != 0);
    }
  }
}
