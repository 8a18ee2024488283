// Updates of elements that several threads may update at once, and what combines two values.

struct Adding {
  template <typename T>
  static __device__ __forceinline__ T first() {
    return T(0);
  }
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return T(a + b);
  }
};
struct Multiplying {
  template <typename T>
  static __device__ __forceinline__ T first() {
    return T(1);
  }
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return T(a * b);
  }
};
struct Larger {
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return larger(a, b);
  }
};
struct Smaller {
  template <typename T>
  static __device__ __forceinline__ T of(T a, T b) {
    return smaller(a, b);
  }
};

// Words that the hardware can compare and swap: of 2 bytes for elements of 2, of 4 for shorter
// ones.
template <int kBytes>
struct SwappedWord {
  typedef u32 Type;
};
template <>
struct SwappedWord<2> {
  typedef unsigned short Type;
};
template <>
struct SwappedWord<8> {
  typedef u64 Type;
};

// Takes turns with other threads: reads the word with the element, and writes it unless another
// thread has written in between; then once more.
template <typename How, typename T>
struct Combining {
  template <typename C>
  static __device__ __forceinline__ void at(T* tensor, u64 i, C value) {
    typedef typename SwappedWord<sizeof(T)>::Type Word;
    constexpr int kEach = sizeof(Word) / sizeof(T);  // elements of a word
    // By shifts: what is addressed by a variable would be in memory rather than in a register.
    const int shift = (int)(i % kEach) * (int)sizeof(T) * 8;
    const Word mask = (Word)((Word) ~(Word)0 >> (8 * (sizeof(Word) - sizeof(T))));
    Word* const word = reinterpret_cast<Word*>(tensor + i / kEach * kEach);
    Word seen = *(volatile Word*)word;
    Word before;
    do {
      before = seen;
      Word bits = (Word)(before >> shift);
      T& element = *reinterpret_cast<T*>(&bits);
      store_as(element, How::of(C(to_compute(element)), value));
      const Word after =
          (Word)((before & (Word) ~(Word)(mask << shift)) | (Word)((bits & mask) << shift));
      seen = atomicCAS(word, before, after);
    } while (seen != before);
  }
};
// What the hardware adds by itself.
template <>
struct Combining<Adding, f32> {
  static __device__ __forceinline__ void at(f32* tensor, u64 i, f32 value) {
    atomicAdd(tensor + i, value);
  }
};
template <>
struct Combining<Adding, i32> {
  static __device__ __forceinline__ void at(i32* tensor, u64 i, i32 value) {
    atomicAdd(tensor + i, value);
  }
};

#if __CUDA_ARCH__ >= 900
template <>
struct Combining<Adding, bf16> {
  static __device__ __forceinline__ void at(bf16* tensor, u64 i, f32 value) {
    bf16 stored;
    store_alone(stored, value);
    asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(tensor + i), "h"(stored.bits)
                 : "memory");
  }
};
template <>
struct Combining<Adding, f16> {
  static __device__ __forceinline__ void at(f16* tensor, u64 i, f32 value) {
    f16 stored;
    store_alone(stored, value);
    asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(tensor + i), "h"(stored.bits)
                 : "memory");
  }
};

// Adds neighbours to those at an address that is a multiple of as many.
__device__ __forceinline__ void add_words(f32* at, const uint4& words) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at),
               "f"(__uint_as_float(words.x)), "f"(__uint_as_float(words.y)),
               "f"(__uint_as_float(words.z)), "f"(__uint_as_float(words.w))
               : "memory");
}
__device__ __forceinline__ void add_words(f32* at, u32 word) {
  atomicAdd(at, __uint_as_float(word));
}
__device__ __forceinline__ void add_words(bf16* at, const uint4& words) {
  asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(words.x),
               "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
}
__device__ __forceinline__ void add_words(bf16* at, u32 word) {
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(at), "r"(word) : "memory");
}
__device__ __forceinline__ void add_words(f16* at, const uint4& words) {
  asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(words.x),
               "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
}
__device__ __forceinline__ void add_words(f16* at, u32 word) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(at), "r"(word) : "memory");
}
#endif

template <typename How, typename T, typename C>
__device__ __forceinline__ void combine_at(T* tensor, u64 i, C value) {
  Combining<How, T>::at(tensor, i, value);
}

// Adds N elements that lie side by side to those at an address that is a multiple of as many.
template <int N, typename T>
__device__ __forceinline__ void add_pack(T* at, const Pack<T, N>& pack) {
#if __CUDA_ARCH__ >= 900
  constexpr int kBytes = sizeof(T) * N % 16 == 0 ? 16 : 4;  // of an instruction
  if constexpr (sizeof(T) * N % kBytes == 0) {
    typedef typename Words<kBytes>::Type Word;
#pragma unroll
    for (int i = 0; i < N; i += kBytes / (int)sizeof(T)) {
      add_words(at + i, *reinterpret_cast<const Word*>(pack.v + i));
    }
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < N; ++i) combine_at<Adding>(at, i, pack.get(i));
}
