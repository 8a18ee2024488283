// A product's first operand, made by the kernel in place of one that lies in memory. Needs
// elements.cuh, columns.cuh, epilogue.cuh and tile_walk.cuh before it.
//
// A Prologue is a struct that the generator writes:
//   static constexpr bool kHere = true;
//   static constexpr int kBeside;         // blocks whose tiles lie side by side share the lines
//   static constexpr i64 kInner, kOuter;  // lines from one matrix of a batch to the next
//   typedef Eight Valid;                  // or int, where k is no multiple of 8
//   auto load(i64 q, i64 column, Valid valid) const;
//       loads what columns column..column+7 of line q are made of, the first `valid` of them real,
//       and returns a function of u32 (&words)[4] that makes them; column is a multiple of 8
// Loading and making are apart so that a thread loads what it makes next before it makes what it
// has loaded.
//
// Traffic: every kBeside tiles of columns make the lines of A again, out of what the L2 holds of
// their sources; all of it is worth while where columns are few.

struct NoPrologue {
  static constexpr bool kHere = false;
  static constexpr int kBeside = 1;
};

// A loaded function that can be replaced by another one. The compiler may not move loads down from
// where they are written.
template <class Function>
struct Loaded {
  static constexpr int kWords = ((int)sizeof(Function) + 3) / 4;
  alignas(16) u32 words[kWords];
  __device__ __forceinline__ void operator=(const Function& function) {
    memcpy(words, &function, sizeof(Function));
#pragma unroll
    for (int i = 0; i < (int)sizeof(Function) / 4; ++i) asm volatile("" : "+r"(words[i]));
  }
  __device__ __forceinline__ void operator()(u32 (&made)[4]) const {
    (*reinterpret_cast<const Function*>(words))(made);
  }
};

// Of so many chunks of a thread, those it loads ahead: as many as leave registers for the rest.
__device__ constexpr int loads_ahead(int chunks, int bytes) {
  return chunks == 1 || chunks * bytes <= 320 ? chunks : loads_ahead(chunks / 2, bytes);
}

// Bytes that a thread keeps for a chunk.
template <class Prologue, class = void>
constexpr int kLoadedBytes = 0;
template <class Prologue>
constexpr int kLoadedBytes<Prologue, decltype((void)sizeof(typename Prologue::Valid))> =
    sizeof(static_cast<const Prologue*>(nullptr)->load(0, 0, typename Prologue::Valid{}));

// A tile of kLines by kDepth that kThreads threads make in chunks of eight elements: neighbouring
// threads those of one line.
template <class Prologue, int kLines, int kDepth, int kThreads>
struct PrologueTile {
  typedef typename Prologue::Valid Valid;
  typedef decltype(static_cast<const Prologue*>(nullptr)->load(0, 0, Valid{})) Function;
  static constexpr int kPerLine = kDepth / 8;
  static constexpr int kChunks = kLines * kPerLine / kThreads;
  static constexpr int kStep = kThreads / kPerLine;  // lines between a thread's chunks
  // Chunks loaded ahead, of this tile or of several to come.
  static constexpr int kAhead = loads_ahead(kChunks * Prologue::kBeside, (int)sizeof(Function));

  static __device__ __forceinline__ int line(int thread) { return thread / kPerLine; }
  static __device__ __forceinline__ int column(int thread) { return thread % kPerLine * 8; }

  // The chunk of a matrix whose first line is q; lines beyond it are its last one again.
  static __device__ __forceinline__ Function load(const Prologue& prologue,
                                                  const ContractShape& shape, i64 q, int line,
                                                  int k) {
    q += min(line, shape.m - 1);
    if constexpr (kCounts<Valid>) {
      return prologue.load(q, k, min(8, shape.k - k));
    } else {
      return prologue.load(q, min(k, shape.k - 8), Valid{});
    }
  }
  // What lies behind a line's end is 0, whatever is made there.
  static __device__ __forceinline__ uint4 make(const Loaded<Function>& loaded,
                                               const ContractShape& shape, int k) {
    u32 words[4];
    loaded(words);
    const bool inside = k < shape.k;
    return inside ? uint4{words[0], words[1], words[2], words[3]} : uint4{0, 0, 0, 0};
  }
};

// The first line of a batch's matrix.
template <class Prologue>
__device__ __forceinline__ i64 first_line(const ContractShape& shape, int batch) {
  return (i64)(batch / shape.inner) * Prologue::kOuter +
         (i64)(batch % shape.inner) * Prologue::kInner;
}
