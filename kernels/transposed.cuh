// Tiles that a block of threads transposes on chip.
//
// A tile is an array of words: word (q, b) holds R neighbouring columns, from the R * q-th on, of
// row b, as they are stored. Threads read groups of N elements of R columns, and write the words of
// N rows 16 bytes at a time; the loop over rows takes N / R words for a group. So a word passes
// through shared memory once for R elements, and in both directions all lanes find other banks.
// kTileRows, which the code before it defines, is a multiple of 32.

// Columns that share a word, in groups of N.
template <typename T, int N>
constexpr u32 kShared = sizeof(T) >= 4 ? 1 : (4 / sizeof(T) < N ? 4 / sizeof(T) : N);

// The place of a word. Lanes that are eight rows of four groups side by side, and those that are
// eight groups of rows side by side, have all banks.
template <typename T, int N>
__device__ __forceinline__ u32 word_place(u32 q, u32 b) {
  constexpr u32 kWords = N / kShared<T, N>;  // of a group of columns
  return q * kTileRows + (b ^ (q / kWords % 4 * 8) ^ ((b & 32) >> 3));
}

// The N elements from number i on, wherever they begin, of a tensor of `count`; kInside: with
// another group behind them.
template <int N, bool kInside, typename T>
__device__ __forceinline__ Pack<T, N> load_anywhere(const T* tensor, u64 i, u64 count) {
  if constexpr (N * sizeof(T) % 4 == 0) {
    if constexpr (kInside) {
      const u32 past = (u32)i % N;
      return load_across<N>(tensor + (i - past), past, 2 * N);
    } else if (count - i >= N) {
      const u64 first = i / N * N;
      const u64 left = count - first;
      return load_across<N>(tensor + first, (u32)(i - first), left < 2 * N ? (u32)left : 2 * N);
    }
  }
  Pack<T, N> result = {};
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (i + j < count) result.v[j] = tensor[i + j];
  }
  return result;
}

// The words of N rows, of the same row of each of several columns.
template <typename T, int N, u32 kColumns, typename W>
__device__ __forceinline__ void make_words(const Pack<T, N> (&column)[kColumns], W (&words)[N]) {
  if constexpr (kColumns == 1) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      words[j] = 0;
      memcpy(words + j, column[0].v + j, sizeof(T));
    }
  } else if constexpr (kColumns == 2 && N * sizeof(T) % 4 == 0 && sizeof(T) == 2) {
#pragma unroll
    for (int k = 0; k < N / 2; ++k) {
      const u32 first = reinterpret_cast<const u32*>(column[0].v)[k];
      const u32 second = reinterpret_cast<const u32*>(column[1].v)[k];
      words[2 * k] = __byte_perm(first, second, 0x5410);
      words[2 * k + 1] = __byte_perm(first, second, 0x7632);
    }
  } else if constexpr (kColumns == 4 && N % 4 == 0 && sizeof(T) == 1) {
#pragma unroll
    for (int k = 0; k < N / 4; ++k) {
      u32 x[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) x[r] = reinterpret_cast<const u32*>(column[r].v)[k];
      const u32 first = __byte_perm(x[0], x[1], 0x5140);
      const u32 second = __byte_perm(x[2], x[3], 0x5140);
      const u32 third = __byte_perm(x[0], x[1], 0x7362);
      const u32 fourth = __byte_perm(x[2], x[3], 0x7362);
      words[4 * k] = __byte_perm(first, second, 0x5410);
      words[4 * k + 1] = __byte_perm(first, second, 0x7632);
      words[4 * k + 2] = __byte_perm(third, fourth, 0x5410);
      words[4 * k + 3] = __byte_perm(third, fourth, 0x7632);
    }
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      words[j] = 0;
#pragma unroll
      for (u32 r = 0; r < kColumns; ++r)
        memcpy((u8*)(words + j) + r * sizeof(T), column[r].v + j, sizeof(T));
    }
  }
}

// Rows b to b + N of the columns of word q: column c, the word's first, of a tensor's `columns` has
// them from number `at` on, the next one `pitch` further. Columns that there are not are zeros;
// kInside: there are all, and as many elements more as a group has.
template <int N, bool kAligned, bool kInside, typename T, typename W>
__device__ __forceinline__ void fill_words(W* tile, u32 q, u32 b, const T* tensor, idx at,
                                           idx pitch, idx c, idx columns, u64 count) {
  constexpr u32 kColumns = kShared<T, N>;
  Pack<T, N> column[kColumns] = {};
#pragma unroll
  for (u32 r = 0; r < kColumns; ++r) {
    if (!kInside && c + r >= columns) continue;
    const idx from = at + r * pitch;
    column[r] =
        kAligned ? load_pack<N>(tensor + from) : load_anywhere<N, kInside>(tensor, from, count);
  }
  W words[N];
  make_words<T, N>(column, words);
  constexpr int kTogether = N * sizeof(W) < 16 ? N : 16 / sizeof(W);
#pragma unroll
  for (int j = 0; j < N; j += kTogether) {
    Pack<W, kTogether> pack;
#pragma unroll
    for (int k = 0; k < kTogether; ++k) pack.v[k] = words[j + k];
    store_pack<kTogether>(tile + word_place<T, N>(q, b + j), pack);
  }
}

// Columns x to x + N of row b; x is a multiple of N if they are aligned.
template <int N, bool kAligned, typename T, typename W>
__device__ __forceinline__ Pack<T, N> take_group(const W* tile, u32 x, u32 b) {
  constexpr u32 kColumns = kShared<T, N>;
  constexpr int kWords = N / kColumns;
  const u32 q = x / kColumns;
  const u32 past = kAligned ? 0 : x % kColumns;
  W words[kWords + 1] = {};
#pragma unroll
  for (int i = 0; i < kWords; ++i) words[i] = tile[word_place<T, N>(q + i, b)];
  Pack<T, N> result;
  if constexpr (kColumns > 1) {
    if (past > 0) words[kWords] = tile[word_place<T, N>(q + kWords, b)];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = __funnelshift_r(words[i], words[i + 1], past * sizeof(T) * 8);
    }
    memcpy(&result, words, sizeof(result));
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) memcpy(result.v + i, words + i, sizeof(T));
  }
  return result;
}

// Column x of row b of a tile that is taken in groups of N.
template <int N, typename T, typename W>
__device__ __forceinline__ Pack<T, 1> take_one(const W* tile, u32 x, u32 b) {
  constexpr u32 kColumns = kShared<T, N>;
  const W word = tile[word_place<T, N>(x / kColumns, b)] >> (x % kColumns * sizeof(T) * 8);
  Pack<T, 1> result;
  memcpy(result.v, &word, sizeof(T));
  return result;
}

// Copies lines of 4-byte elements, of which the first begins with number `start` of a tensor of
// `count`, the next one `pitch` further, to where they lie like in memory: element i of line l is
// at l * kPitch + start % 4 + i, and a group of 16 bytes where one can be. kPitch is as far beyond
// a multiple of four as `pitch`. Each has `length` elements, at most kLength.
template <u32 kLines, u32 kLength, u32 kPitch, u32 kThreads, typename T>
__device__ __forceinline__ void fill_lines(T* tile, const T* tensor, idx start, idx pitch,
                                           u32 length, u64 count) {
  constexpr u32 kGroups = (3 + kLength + 3) / 4;  // that a line may touch
#pragma unroll 2
  for (u32 n = threadIdx.x; n < kLines * kGroups; n += kThreads) {
    const u32 line = n / kGroups, k = n % kGroups * 4;
    const idx first = start + line * pitch;
    const u32 past = (u32)first % 4;
    if (k >= past + length) continue;
    const idx at = first - past + k;
    T* const to = tile + (line * kPitch + (u32)start % 4 - past + k);
    if (at < count && count - at >= 4) {
      copy_async(*reinterpret_cast<Pack<T, 4>*>(to), tensor + at);
      continue;
    }
    for (u32 j = 0; j < 4; ++j) {
      const idx one = at + j;
      if (one < count) to[j] = tensor[one];
    }
  }
}
