// What both attention kernels share. Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh
// and epilogue.cuh before it.
//
// out[b][h][i] = sum over j of softmax_j(f(scale q[b][h][i] . k[b][g][j])) v[b][g][j]. Scores are
// never written to memory: each block holds some queries, streams over the keys, and keeps for
// every row the largest score so far, the sum of exponentials and the weighted sum of values, both
// relative to it and rescaled when a larger score comes. A row without any visible key is 0.
//
// Scores is a struct that the generator writes for what happens between scale and softmax, and
// between softmax and values, or PlainScores where nothing does:
//   static constexpr bool kActive;
//   template <int kCount>
//   __device__ auto operator()(int batch, int head, i64 query, i64 column) const;
//       if kActive: loads what kCount neighbouring keys' scores need, an additive mask, for
//       example, and returns what then changes the scores, float (&)[kCount]; -infinity hides a key
//   static constexpr bool kWeighs;
//   template <int kCount>
//   __device__ auto weight(int batch, int head, i64 query, i64 column) const;
//       if kWeighs: the same for weights, a dropout, for example. It must be proportional to the
//       weight, so that it can be applied before the row's sum is known.
//   static constexpr int kTogether;
//       2 if there is an even number of keys, else 1: the kCount that kernels may ask for
//   static constexpr bool kEights;
//       whether a kCount of 8 will do as well, and loads from one tensor alone
// Epilogue is a struct, too:
//   __device__ void operator()(int batch, int head, i64 query, i64 column, float (&v)[8], Eight)
//   const;
//       v holds columns column..column+7 of a row of the result; it stores them.
//   static constexpr bool kSums;
//   template <class T>
//   __device__ void row_sum(int batch, int head, i64 query, T sum) const;
//       if kSums: stores the logarithm of the sum of a row's exponentials, -infinity where no key
//       is visible

struct AttentionShape {
  int batches, heads, key_heads;  // heads is a multiple of key_heads
  int queries, keys;
  int diagonal;  // causal: query i sees keys up to i + diagonal, the last of them
  int window;    // causal: how many keys a query sees at most
  float scale;
  // Elements of a query and of a value: multiples of 8, up to the head size that the kernel is made
  // for. The rest of that is 0.
  int size, value_size;
};

struct PlainScores {
  static constexpr bool kActive = false, kWeighs = false, kInProportion = true;
  static constexpr int kTogether = 2;
  static constexpr bool kEights = false;
};

// Blocks of kKeys keys that queries up to `last_query` may see.
template <bool kCausal, int kKeys>
__device__ __forceinline__ int key_blocks(const AttentionShape& shape, int last_query) {
  int keys = shape.keys;
  if constexpr (kCausal) keys = min(keys, last_query + shape.diagonal + 1);
  return keys <= 0 ? 0 : (keys + kKeys - 1) / kKeys;
}

// How many blocks of kKeys keys lie before those that queries from `first_query` on may see.
template <bool kCausal, int kKeys>
__device__ __forceinline__ int hidden_blocks(const AttentionShape& shape, int first_query) {
  return kCausal ? max(0, first_query + shape.diagonal + 1 - shape.window) / kKeys : 0;
}

// The queries of a block of kRows. Grid: {blocks of queries, heads, batches}; where it is causal,
// {heads, blocks of queries, groups of so many heads, of all batches}, and the blocks with the most
// keys come first. A group's keys and values stay in the L2 until all of its blocks have read them.
template <bool kCausal, int kRows>
struct QueryBlock {
  int query, head, batch;
  bool none;  // in the last group

  __device__ __forceinline__ explicit QueryBlock(const AttentionShape& shape) {
    const int number = blockIdx.z * gridDim.x + blockIdx.x;
    query = (kCausal ? gridDim.y - 1 - blockIdx.y : blockIdx.x) * kRows;
    head = kCausal ? number % shape.heads : blockIdx.y;
    batch = kCausal ? number / shape.heads : blockIdx.z;
    none = kCausal && batch >= shape.batches;
  }
};

// The running softmax of a lane's two rows (lane / 4 and 8 below it). Scores lie as mma and wgmma
// leave them: s[(8-key group) * 4 + half * 2 + e] is row 8 * half below, key 2 * (lane % 4) + e.
struct OnlineSoftmax {
  float most[2], sum[2];

  __device__ __forceinline__ OnlineSoftmax() {
    most[0] = most[1] = lowest();
    sum[0] = sum[1] = 0.0f;
  }

  // Turns scores into weights exp(score - largest so far); factor is what sums from before must be
  // multiplied by. Powers of two are what the hardware has: `to_log2` turns a score into their
  // exponent.
  template <int kCount>
  __device__ __forceinline__ void step(float (&s)[kCount], float to_log2, float (&factor)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = most[half];
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i) {
        now = fmaxf(now, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      }
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      const float base = now == lowest() ? 0.0f : now * to_log2;
      factor[half] = quick_exp2(most[half] * to_log2 - base);
      most[half] = now;
      float total = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount / 4; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * i + 2 * half + e];
          x = quick_exp2(fmaf(x, to_log2, -base));
          total += x;
        }
      }
      sum[half] = sum[half] * factor[half] + total;
    }
  }

  // A row's sum; each of its four lanes has a part.
  __device__ __forceinline__ float total(int half) const {
    const float two = sum[half] + __shfl_xor_sync(0xffffffffu, sum[half], 1);
    return two + __shfl_xor_sync(0xffffffffu, two, 2);
  }

  // One over a row's sum, 0 where it has none.
  static __device__ __forceinline__ float inverse_of(float all) {
    return all > 0.0f || all != all ? 1.0f / all : 0.0f;
  }

  // The logarithm of a row's sum of exponentials, of which `all` are relative to the largest.
  static __device__ __forceinline__ float log_of(float largest, float all, float to_log2) {
    return largest == lowest() ? lowest() : fmaf(largest, to_log2, quick_log2(all)) * kLn2;
  }

  __device__ __forceinline__ void finish(float to_log2, float (&inverse)[2],
                                         float (&logs)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float all = total(half);
      inverse[half] = inverse_of(all);
      logs[half] = log_of(most[half], all, to_log2);
    }
  }
};

// Which rows of scores a lane has, and the first and last query of its warp.
struct ScoreRows {
  int head[2], query[2];  // a query beyond the last is no row
  int first, last;

  // 16 queries of a head.
  static __device__ __forceinline__ ScoreRows of(int head, int first) {
    const int query = first + threadIdx.x % 32 / 4;
    return {{head, head}, {query, query + 8}, first, first + 15};
  }
};

// What a lane does with its scores, a block of keys after the other. Where what the generator's
// function loads for a pair of scores fits in kAheadBytes, it is loaded ahead: eight neighbours at
// a time, if possible, which a quad then distributes. (Pairs would take four times as many
// instructions for the same sectors.)
template <class Scores, int kCount, int kAheadBytes = 0>
struct ScoreBlocks {
  static constexpr int kWidth = Scores::kTogether;
  static constexpr int kKeys = kCount * 2;
  static constexpr int kWords = kAheadBytes > 4 ? kAheadBytes / 4 : 1;

  const AttentionShape& shape;
  const Scores& scores;
  int batch;
  const ScoreRows& rows;
  u32 loaded[kAheadBytes > 0 ? kCount / kWidth : 1][kWords];

  __device__ __forceinline__ ScoreBlocks(const AttentionShape& of, const Scores& by, int in,
                                         const ScoreRows& at)
      : shape(of), scores(by), batch(in), rows(at) {}

  static __device__ __forceinline__ int half_of(int i) { return i / 2 % 2; }
  static __device__ __forceinline__ int column_of(int i, int key) {
    return key + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
  }
  // What is to be done with kEach neighbours, from `column` on, in the row of score i. Rows and
  // keys that do not exist read those of the last: no load is conditional.
  template <int kEach, bool kInside>
  __device__ __forceinline__ auto change_of(int i, int column) const {
    const int query = min(rows.query[half_of(i)], shape.queries - 1);
    return scores.template operator()<kEach>(batch, rows.head[half_of(i)], query,
                                             kInside ? column : min(column, shape.keys - kEach));
  }
  template <int kEach>
  static __device__ __forceinline__ constexpr int size_of_change() {
    return sizeof(
        decltype(static_cast<const ScoreBlocks*>(nullptr)->template change_of<kEach, true>(0, 0)));
  }
  static __device__ __forceinline__ constexpr bool is_ahead() {
    if constexpr (Scores::kActive && kAheadBytes > 0) {
      return size_of_change<kWidth>() <= kAheadBytes;
    } else {
      return false;
    }
  }
  // A pair's operand is then a word of its eight's.
  static __device__ __forceinline__ constexpr bool loads_eights() {
    if constexpr (is_ahead() && Scores::kEights && kCount % 16 == 0) {
      return size_of_change<2>() == 4 && size_of_change<8>() == 16;
    } else {
      return false;
    }
  }

  // Loads what prepare() of these keys needs: eights a block ahead (most blocks are inside, and a
  // lane's addresses then differ by constants), others while their product is computed.
  template <bool kBlockAhead>
  __device__ __forceinline__ void load(int key) {
    if constexpr (is_ahead() && loads_eights() == kBlockAhead) {
      if (kBlockAhead && (shape.keys % kKeys == 0 || key + kKeys <= shape.keys)) {
        load_block<kBlockAhead>(key);
      } else {
        load_block<false>(key);
      }
    }
  }

  template <bool kInside>
  __device__ __forceinline__ void load_block(int key) {
    if constexpr (loads_eights()) {
#pragma unroll
      for (int i = 0; i < kCount; i += 8) {  // half i / 8 % 2 of 32 keys
        const auto change = change_of<8, kInside>(i / 4, key + i / 16 * 32 + threadIdx.x % 4 * 8);
        u32 words[4];
        memcpy(words, &change, sizeof(change));
#pragma unroll
        for (int j = 0; j < 4; ++j) loaded[i / 2 + j][0] = words[j];
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += kWidth) {
        const auto change = change_of<kWidth, kInside>(i, column_of(i, key));
        memcpy(loaded[i / kWidth], &change, sizeof(change));
      }
    }
  }

  // Has the quad exchange what it loaded: loaded[i / 2] becomes that of scores i and i + 1.
  __device__ __forceinline__ void distribute() {
#pragma unroll
    for (int i = 0; i < kCount; i += 16) {
      u32 x[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 4; ++j) x[half][j] = loaded[i / 2 + half * 4 + j][0];
        transpose_in_quad(x[half]);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) loaded[i / 2 + j][0] = x[j % 2][j / 2];
    }
  }

  // Applies the generator's function to the products of a block of keys, from `key` on, and hides
  // what lies beyond the keys, above the diagonal or before the window.
  template <bool kCausal>
  __device__ __forceinline__ void prepare(float (&s)[kCount], int key) {
    if constexpr (loads_eights()) distribute();
    if constexpr (Scores::kActive) {
#pragma unroll
      for (int i = 0; i < kCount; i += kWidth) {
        float x[kWidth];
#pragma unroll
        for (int e = 0; e < kWidth; ++e) x[e] = s[i + e] * shape.scale;
        if constexpr (is_ahead()) {
          typedef decltype(change_of<kWidth, true>(0, 0)) Change;
          (*reinterpret_cast<const Change*>(loaded[i / kWidth]))(x);
        } else {
          change_of<kWidth, false>(i, column_of(i, key))(x);
        }
#pragma unroll
        for (int e = 0; e < kWidth; ++e) s[i + e] = x[e];
      }
    }
    const bool hides =
        key + kKeys > shape.keys || (kCausal && (key + kKeys - 1 > rows.first + shape.diagonal ||
                                                 key + shape.window <= rows.last + shape.diagonal));
    if (!hides) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int column = column_of(i, key);
      const int last = rows.query[half_of(i)] + shape.diagonal;
      const bool hidden =
          column >= shape.keys || (kCausal && (column > last || column + shape.window <= last));
      s[i] = hidden ? lowest() : s[i];
    }
  }

  // Applies the generator's function to the weights of those scores.
  __device__ __forceinline__ void change_weights(float (&s)[kCount], int key) const {
    if constexpr (Scores::kWeighs) {
#pragma unroll
      for (int i = 0; i < kCount; i += kWidth) {
        float x[kWidth];
#pragma unroll
        for (int e = 0; e < kWidth; ++e) x[e] = s[i + e];
        const int query = min(rows.query[half_of(i)], shape.queries - 1);
        scores.template weight<kWidth>(batch, rows.head[half_of(i)], query,
                                       min(column_of(i, key), shape.keys - kWidth))(x);
        const bool outside = column_of(i, key) >= shape.keys;
#pragma unroll
        for (int e = 0; e < kWidth; ++e) s[i + e] = outside ? 0.0f : x[e];
      }
    }
  }
};

// Of a warp's 16 rows: their logarithms of sums, to the epilogue that takes them.
template <class Epilogue>
__device__ __forceinline__ void store_sums(const AttentionShape& shape, const Epilogue& epilogue,
                                           int batch, int head, int query, const float (&logs)[2]) {
  if constexpr (Epilogue::kSums) {
    if (threadIdx.x % 4 != 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = query + threadIdx.x % 32 / 4 + 8 * half;
      if (row < shape.queries) epilogue.row_sum(batch, head, (i64)row, logs[half]);
    }
  }
}

// A warp's 16 rows of the result, kHead columns, to the epilogue.
template <int kHead, class Epilogue>
__device__ __forceinline__ void store_rows(const AttentionShape& shape, const Epilogue& epilogue,
                                           int batch, int head, int query,
                                           const float (&o)[kHead / 2], const float (&inverse)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int group = 0; group < kHead / 32; ++group) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float x[4][2], v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x[i / 2][i % 2] = o[(group * 4 + i / 2) * 4 + half * 2 + i % 2] * inverse[half];
      }
      columns_of_quad(x, v);
      const i64 row = (i64)query + lane / 4 + 8 * half, column = (i64)group * 32 + lane % 4 * 8;
      if (row < shape.queries && column < shape.value_size) {
        epilogue(batch, head, row, column, v, Eight{});
      }
    }
  }
}
