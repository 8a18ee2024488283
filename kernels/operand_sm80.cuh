// How the operands of a product go from memory to mma.sync: what threads copy themselves, of any
// stride and alignment. Needs elements.cuh, epilogue.cuh and mma.cuh before it.

// One operand's tiles in shared memory: kLines (rows of A, columns of B) by kLineBytes of k. Not
// kAcross: K-major, a line of kLineBytes for each row. kAcross: it lies as [k][line] in memory, and
// a tile is a line of kLines elements for each k. Chunks of 16 bytes are permuted so that no two of
// a matrix's rows share banks.
template <typename Element, int kLines, int kLineBytes, bool kAcross>
struct MmaOperand {
  static constexpr int kSize = sizeof(Element);
  static constexpr int kBytes = kLines * kLineBytes;
  static constexpr int kRun = kAcross ? kLines * kSize : kLineBytes;  // bytes that lie side by side

  static __device__ __forceinline__ int place(int line, int byte) {
    int swap = 0;
    if constexpr (kAcross) {
      swap = kSize == 2 ? line & 7 : (line & 3) << 1;
    } else {
      swap = kLineBytes == 128 ? line & 7 : line >> 1 & 3;
    }
    return line * kRun + (((byte >> 4) ^ swap) << 4 | (byte & 15));
  }

  // Two 8 x 32-byte matrices of lines `line`.. and two of those 8 further on, at 32 bytes of k:
  // r[0], r[1] (kLinesFirst: r[0], r[2]) of the first lines.
  template <bool kLinesFirst>
  static __device__ __forceinline__ void fragment(const u8* tile, int line, int more, int slice,
                                                  u32 (&r)[4]) {
    const int lane = threadIdx.x % 32, q = lane / 8;
    const int upper = (kLinesFirst ? q & 1 : q >> 1) * 8, behind = kLinesFirst ? q >> 1 : q & 1;
    if constexpr (!kAcross) {
      load_matrices(tile + place(line + lane % 8 + upper, slice * 32 + behind * 16) + more * kRun,
                    r);
    } else if constexpr (kSize == 2) {
      load_matrices_transposed(
          tile + place(slice * 16 + lane % 8 + behind * 8, (line + more + upper) * 2), r);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int next = kLinesFirst ? i & 1 : i >> 1, after = kLinesFirst ? i >> 1 : i & 1;
        r[i] = *reinterpret_cast<const u32*>(tile + place(slice * 8 + lane % 4 + after * 4,
                                                          (line + more + lane / 4 + next * 8) * 4));
      }
    }
  }
};

// The four words that begin `shift` bytes (even, less than a load's 4 * (kWords - 4)) behind the
// first of kWords.
template <int kWords>
__device__ __forceinline__ uint4 shifted(const u32 (&held)[kWords], int shift) {
  u32 w[kWords];
#pragma unroll
  for (int i = 0; i < kWords; ++i) w[i] = held[i];
  if constexpr (kWords == 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
  }
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
  const u32 bytes = shift & 2 ? 0x5432u : 0x3210u;
  return {__byte_perm(w[0], w[1], bytes), __byte_perm(w[1], w[2], bytes),
          __byte_perm(w[2], w[3], bytes), __byte_perm(w[3], w[4], bytes)};
}

// Brings the tiles of one operand, in order along k. kAlign: as of ContractSm80. With two sources
// (kTwo) each 32 lines of the first are followed by those of the second. Lines beyond the tensor
// and what lies behind a line's end become 0.
//
// Pieces of 16 bytes are copied asynchronously. Shorter ones would be as many instructions as there
// are pieces: threads load whole 16 bytes instead, one step ahead, and shift them.
template <typename Element, int kLines, int kLineBytes, int kAlign, bool kAcross, bool kTwo,
          int kThreads>
struct FetchedTiles {
  typedef MmaOperand<Element, kLines, kLineBytes, kAcross> Tile;
  static constexpr int kSize = sizeof(Element);
  static constexpr int kDepth = kLineBytes / kSize;
  static constexpr int kReal = kAlign * kSize < 16 ? kAlign * kSize : 16;
  static constexpr bool kShifts = kReal < 8;
  static constexpr int kLoad = 8;  // bytes
  static constexpr int kPiece = kShifts ? 16 : kReal;
  static constexpr int kPerLine = Tile::kRun / kPiece;
  static constexpr int kStep = kThreads / kPerLine;  // lines between a thread's pieces
  static constexpr int kPieces = Tile::kBytes / kPiece / kThreads;
  static constexpr int kSources = kTwo ? 2 : 1;
  static_assert(kThreads % kPerLine == 0 && kPieces > 0, "threads keep their place in lines");
  static_assert(!kShifts || (kStep * kReal) % 16 == 0, "a thread's lines are shifted alike");

  const u8* at[kSources];  // the thread's first piece, of each source
  int shift[kSources];
  i64 stride;       // bytes from line to line
  int to;           // place of the first piece in the tile
  int line, lines;  // kAcross: of k, which are left; otherwise of the tensor
  int left;         // elements of the line from the piece's first on
  int held_left;
  static constexpr int kWords = 4 + kLoad / 4;
  u32 held[kShifts ? kPieces : 1][kWords];

  __device__ __forceinline__ FetchedTiles(const Element* first, const Element* second,
                                          i64 line_stride, int from, int extent, int depth)
      : stride(line_stride * kSize) {
    const int byte = threadIdx.x % kPerLine * kPiece;
    const int own = threadIdx.x / kPerLine;
    to = Tile::place(own, byte);
    line = kAcross || kTwo ? own : from + own;
    lines = kAcross ? depth : extent;
    left = (kAcross ? extent - from : depth) - byte / kSize;
    const Element* const sources[2] = {first, second};
    if constexpr (kTwo) {
      // The tile begins at line from / 2 of each source.
      const bool other = own / 32 % 2 == 1;
      const int own_line = from / 2 + own / 64 * 32 + own % 32;
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const Element* const source = kStep < 64 ? sources[s] : sources[other ? 1 : 0];
        place_source(s, source, (i64)own_line * stride + byte);
      }
      line = from / 2;
      lines = extent / 2;
    } else {
      const i64 offset = kAcross ? (i64)own * stride + (i64)from * kSize + byte
                                 : (i64)(from + own) * stride + byte;
      place_source(0, first, offset);
    }
    if constexpr (kShifts) load();
  }
  __device__ __forceinline__ void place_source(int s, const Element* source, i64 offset) {
    const u8* const p = reinterpret_cast<const u8*>(source) + offset;
    shift[s] = kShifts ? (int)((u64)p % kLoad) : 0;
    at[s] = p - shift[s];
  }

  // Which source piece i is of, and how many lines behind the first piece's.
  static __device__ __forceinline__ constexpr int source_of(int i) {
    return kTwo && kStep < 64 ? i * kStep / 32 % 2 : 0;
  }
  static __device__ __forceinline__ constexpr int lines_behind(int i) {
    return kTwo ? i * kStep / 64 * 32 + (kStep < 64 ? i * kStep % 32 : 0) : i * kStep;
  }
  __device__ __forceinline__ int placed(int i) const {
    if constexpr (kStep % 8 == 0) return to + i * kStep * Tile::kRun;
    return Tile::place(threadIdx.x / kPerLine + i * kStep, threadIdx.x % kPerLine * kPiece);
  }
  // Of the piece's bytes, those that are real.
  __device__ __forceinline__ int real_of(int i, int real) const {
    if constexpr (kTwo) {
      const int own = threadIdx.x / kPerLine;
      return line + own / 64 * 32 + own % 32 + lines_behind(i) < lines ? real : 0;
    } else {
      return line + lines_behind(i) < lines ? real : 0;
    }
  }
  __device__ __forceinline__ void advance() {
    if constexpr (kAcross) {
      at[0] += kDepth * stride;
      lines -= kDepth;
    } else {
#pragma unroll
      for (int s = 0; s < kSources; ++s) at[s] += kLineBytes;
      left -= kDepth;
    }
  }

  __device__ __forceinline__ void load() {
    const int real = max(0, min(16 / kSize, left)) * kSize;
    held_left = real;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int s = source_of(i);
      const u8* const from = at[s] + lines_behind(i) * stride;
      const int bytes = real_of(i, real);
#pragma unroll
      for (int h = 0; h < kWords * 4 / kLoad; ++h) {
        const auto words = load_words(reinterpret_cast<const Pack<u32, kLoad / 4>*>(from) + h,
                                      h * kLoad < shift[s] + bytes && bytes > 0);
        memcpy(&held[i][h * (kLoad / 4)], &words, kLoad);
      }
#pragma unroll
      for (int h = 0; h < kWords; ++h) asm volatile("" : "+r"(held[i][h]));
    }
  }
  __device__ __forceinline__ void store(u8* tile) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      uint4 words = shifted(held[i], shift[source_of(i)]);
      if (!kAcross && held_left < 16) {
        u32* const w = &words.x;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int bits = max(0, min(32, (held_left - 4 * j) * 8));
          w[j] &= bits == 32 ? ~0u : (1u << bits) - 1;
        }
      }
      *reinterpret_cast<uint4*>(tile + placed(i)) = words;
    }
  }

  // The next one.
  __device__ __forceinline__ void operator()(u8* tile) {
    if constexpr (kShifts) {
      store(tile);
      advance();
      load();
    } else {
      const int real = max(0, min(kPiece / kSize, left)) * kSize;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        copy_async<kPiece>(tile + placed(i), at[source_of(i)] + lines_behind(i) * stride,
                           real_of(i, real));
      }
      advance();
    }
  }
};
