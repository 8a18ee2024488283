// How the operands of a product go from memory to mma.sync: what threads copy themselves, of any
// stride and alignment. Needs elements.cuh and mma.cuh before it.

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

// Of the eight words of two neighbouring 16 bytes, the four that begin `shift` bytes behind the
// first.
__device__ __forceinline__ uint4 shifted(const uint4& first, const uint4& second, int shift) {
  u32 w[8] = {first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) w[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) w[i] = shift & 4 ? w[i + 1] : w[i];
  const u32 bytes = shift & 2 ? 0x5432u : 0x3210u;
  return {__byte_perm(w[0], w[1], bytes), __byte_perm(w[1], w[2], bytes),
          __byte_perm(w[2], w[3], bytes), __byte_perm(w[3], w[4], bytes)};
}

// Brings the tiles of one operand, in order along k, from the k on that is given. kAlign: as of
// ContractSm80. With two sources (kTwo) each 32 lines (kAcross: columns) of the first are followed
// by those of the second. Lines beyond the tensor and what lies behind a line's end become 0.
//
// A stage holds what was copied: a tile, or (kShifts) the 16-byte chunks that its lines touch,
// where these begin at odd elements of 16 bits, for no asynchronous copy is of two bytes. shift()
// makes a tile of them.
template <typename Element, int kLines, int kLineBytes, int kAlign, bool kAcross, bool kTwo,
          int kThreads>
struct FetchedTiles {
  typedef MmaOperand<Element, kLines, kLineBytes, kAcross> Tile;
  static constexpr int kSize = sizeof(Element);
  static constexpr int kDepth = kLineBytes / kSize;
  static constexpr int kReal = kAlign * kSize < 16 ? kAlign * kSize : 16;
  static constexpr bool kShifts = kReal < 4;
  static constexpr int kPiece = kShifts ? 16 : kReal;
  static constexpr int kRun = Tile::kRun;
  static constexpr int kPerLine = kRun / kPiece;
  static constexpr int kStep = kThreads / kPerLine;  // lines between a thread's pieces
  static constexpr int kPieces = Tile::kBytes / kPiece / kThreads;
  static constexpr int kStageBytes = Tile::kBytes + (kShifts ? kLines * 16 : 0);
  static constexpr bool kTwoByLine = kTwo && !kAcross;
  static constexpr int kSources = kTwoByLine ? 2 : 1;           // of a thread
  static constexpr int kTileLines = kAcross ? kDepth : kLines;  // as they lie in memory
  static constexpr int kMore = kShifts ? 16 / kSize : 0;  // elements behind a tile that are copied
  static_assert(kThreads % kPerLine == 0 && kPieces > 0, "threads keep their place in lines");
  static_assert(!kShifts || (kStep * kReal % 16 == 0 && kTileLines <= kThreads),
                "a thread's lines are shifted alike, and it brings the last chunk of one");
  static_assert(!kShifts || !kTwo || !kAcross, "pieces of 32 columns of a half");

  // A chunk of a line.
  struct Chunk {
    const u8* at;
    int shift;  // bytes that the line begins behind a multiple of 16
    int line;   // of the tensor; kAcross: of the tile
    int left;   // elements of the line that lie behind `at`, if no k is left
  };

  Chunk pieces[kSources];  // the thread's first of each source
  Chunk last;              // behind the line whose number is the thread's
  i64 stride;              // bytes from line to line
  int lines;               // of the tensor
  int depth_left;          // elements of k
  bool inside;             // all of the tile's lines are the tensor's

  __device__ __forceinline__ FetchedTiles(const Element* first, const Element* second,
                                          i64 line_stride, int from, int extent, int k, int depth)
      : stride(line_stride * kSize),
        lines(kTwo ? extent / 2 : extent),
        depth_left(depth - k),
        inside(from + kLines + (kAcross ? kMore : 0) <= extent) {
    const int own = threadIdx.x / kPerLine, byte = threadIdx.x % kPerLine * kPiece;
    pieces[0] = chunk(first, second, own, byte, from, extent, k);
    // Lines that are 32 apart are of the other source.
    if constexpr (kTwoByLine) pieces[1] = chunk(second, first, own, byte, from, extent, k);
    if constexpr (kShifts) last = chunk(first, second, threadIdx.x, kRun, from, extent, k);
  }

  __device__ __forceinline__ Chunk chunk(const Element* first, const Element* second, int own,
                                         int byte, int from, int extent, int k) const {
    Chunk c;
    if constexpr (kTwo && kAcross) {
      const int column = byte / kSize, place = from / 2 + column / 64 * 32 + column % 32;
      c.at = reinterpret_cast<const u8*>((column / 32 % 2 == 1 ? second : first) + place) +
             (k + own) * stride;
      c.shift = 0;
      c.line = own;
      c.left = extent / 2 - place;
      return c;
    }
    const Element* const source = kTwo && own / 32 % 2 == 1 ? second : first;
    c.line = kAcross ? own : kTwo ? from / 2 + own / 64 * 32 + own % 32 : from + own;
    const u8* const at =
        reinterpret_cast<const u8*>(source) +
        (kAcross ? (k + own) * stride + (i64)from * kSize : c.line * stride + (i64)k * kSize);
    c.shift = kShifts ? (int)((u64)at & 15) : 0;
    c.at = at - c.shift + byte;
    c.left = (kAcross ? extent - from : 0) + (c.shift - byte) / kSize;
    return c;
  }

  // Which source piece i is of, and how many lines behind the thread's first.
  static __device__ __forceinline__ constexpr int source_of(int i) {
    return kTwoByLine && kStep < 64 ? i * kStep / 32 % 2 : 0;
  }
  static __device__ __forceinline__ constexpr int lines_behind(int i) {
    return kTwoByLine ? i * kStep / 64 * 32 + (kStep < 64 ? i * kStep % 32 : 0) : i * kStep;
  }
  // Where a thread's piece lies in a tile.
  static __device__ __forceinline__ int placed(int i) {
    const int own = threadIdx.x / kPerLine, byte = threadIdx.x % kPerLine * kPiece;
    if constexpr (kStep % 8 == 0) return Tile::place(own, byte) + i * kStep * kRun;
    return Tile::place(own + i * kStep, byte);
  }

  // Bytes of a piece that are read, so many lines behind the chunk's.
  __device__ __forceinline__ int real(const Chunk& c, int behind) const {
    const int left = max(0, min(kPiece / kSize, c.left + (kAcross ? 0 : depth_left))) * kSize;
    return c.line + behind < (kAcross ? depth_left : lines) ? left : 0;
  }

  template <bool kWhole>
  __device__ __forceinline__ void copy(u8* to, const Chunk& c, int behind) const {
    if constexpr (kWhole) {
      copy_async<kPiece>(to, c.at + behind * stride);
    } else {
      copy_async<kPiece>(to, c.at + behind * stride, real(c, behind));
    }
  }
  template <bool kWhole>
  __device__ __forceinline__ void copy_all(u8* stage) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      copy<kWhole>(stage + (kShifts ? (threadIdx.x + i * kThreads) * 16 : placed(i)),
                   pieces[source_of(i)], lines_behind(i));
    }
    if constexpr (kShifts) {
      if (threadIdx.x < kTileLines) {
        copy<kWhole>(stage + Tile::kBytes + threadIdx.x * 16, last, 0);
      }
    }
  }
  // Copies what the next tile is made of.
  __device__ __forceinline__ void operator()(u8* stage) {
    if (inside && depth_left >= kDepth + (kAcross ? 0 : kMore)) {
      copy_all<true>(stage);
    } else {
      copy_all<false>(stage);
    }
    const i64 step = kAcross ? kDepth * stride : kLineBytes;
#pragma unroll
    for (int s = 0; s < kSources; ++s) pieces[s].at += step;
    last.at += step;
    depth_left -= kDepth;
  }

  __device__ __forceinline__ void shift(const u8* stage, u8* tile) const {
    const int own = threadIdx.x / kPerLine;
    const bool ends = threadIdx.x % kPerLine == kPerLine - 1;
    const int behind = ends ? Tile::kBytes + own * 16 : (threadIdx.x + 1) * 16;
    const int step = ends ? kStep * 16 : kThreads * 16;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const auto load = [&](int at) { return *reinterpret_cast<const uint4*>(stage + at); };
      *reinterpret_cast<uint4*>(tile + placed(i)) =
          shifted(load(threadIdx.x * 16 + i * kThreads * 16), load(behind + i * step),
                  pieces[source_of(i)].shift);
    }
  }
};
