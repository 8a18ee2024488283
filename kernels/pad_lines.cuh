// Copies lines of elements to lines that begin at multiples of 16 bytes, which the copy engine
// takes, and which asynchronous copies bring with the fewest instructions. Needs elements.cuh
// before it.
//
// Traffic: every line is read once and written once, 16 bytes by a thread at a time; kEach of those
// are under way.

// Of inner x outer matrices; distances in elements, `first` from the tensor's beginning. The lines
// that are made are `padded` apart, with zeros at their ends; one matrix follows the other.
struct PaddedLines {
  u32 length, padded, lines, inner, outer, first, line, to_inner, to_outer;

  __device__ __forceinline__ constexpr u32 end() const {
    return first + (outer - 1) * to_outer + (inner - 1) * to_inner + (lines - 1) * line + length;
  }
};

// All lines begin at multiples of kAlign elements.
template <typename Element, int kAlign>
struct PadLines {
  static constexpr int kThreads = 256, kEach = 4;
  static constexpr int kChunks = kThreads * kEach;  // of 16 bytes, of a block
  static constexpr int kPack = 16 / sizeof(Element);
  typedef Pack<Element, kPack> Packed;

  // A block's share.
  static __device__ __forceinline__ void copy(u32 block, const Element* from, u8* to,
                                              const PaddedLines& s) {
    const u32 chunks = s.padded / kPack, all = chunks * s.lines * s.inner * s.outer;
    const u32 own = block * kChunks + threadIdx.x;
    Packed loaded[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const u32 chunk = min(own + i * kThreads, all - 1);
      const u32 line = chunk / chunks, column = chunk % chunks * kPack, matrix = line / s.lines;
      const u32 at = s.first + line % s.lines * s.line + matrix % s.inner * s.to_inner +
                     matrix / s.inner * s.to_outer + column;
      loaded[i] = load(from, at, s.end(), (int)(s.length - column));
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const u32 chunk = own + i * kThreads;
      if (chunk < all) store_pack<kPack>(reinterpret_cast<Element*>(to) + chunk * kPack, loaded[i]);
    }
  }

  // Of a line that has so many elements left.
  static __device__ __forceinline__ Packed load(const Element* from, u32 at, u32 end, int left) {
    Packed pack;
    if (left < kPack) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) pack.v[i] = i < left ? from[at + i] : Element{};
    } else if constexpr (kAlign * sizeof(Element) < 4) {
      pack = load_across<kPack>(from, at, end);
    } else {
#pragma unroll
      for (int i = 0; i < kPack; i += kAlign) {
        const auto word = load_pack<kAlign>(from + at + i);
#pragma unroll
        for (int j = 0; j < kAlign; ++j) pack.v[i + j] = word.v[j];
      }
    }
    return pack;
  }
};
