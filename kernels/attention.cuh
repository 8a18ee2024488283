// What both attention kernels share. Needs elements.cuh, quick.cuh, accumulators.cuh and
// epilogue.cuh before it.
//
// out[b][h][i] = sum over j of softmax_j(f(scale q[b][h][i] . k[b][g][j])) v[b][g][j]. Scores are
// never written to memory: each block holds some queries, streams over the keys, and keeps for
// every row the largest score so far, the sum of exponentials and the weighted sum of values, both
// relative to it and rescaled when a larger score comes. A row without any visible key is 0.
//
// Scores is a struct that the generator writes for what happens between scale and softmax, and
// between softmax and values, or PlainScores where nothing does:
//   static constexpr bool kActive;
//   __device__ float operator()(int batch, int head, i64 query, i64 key, float score) const;
//       if kActive: an additive mask, for example; -infinity hides a key
//   static constexpr bool kWeighs;
//   __device__ float weight(int batch, int head, i64 query, i64 key, float score) const;
//       if kWeighs: a dropout, for example. It must be proportional to the weight, so that it can
//       be applied before the row's sum is known.
// Epilogue is a struct, too:
//   __device__ void operator()(int batch, int head, i64 query, i64 column, float (&v)[8], Eight)
//   const;
//       v holds columns column..column+7 of a row of the result; it stores them.

struct AttentionShape {
  int batches, heads, key_heads;  // heads is a multiple of key_heads
  int queries, keys;
  int diagonal;  // causal: query i sees keys up to i + diagonal
  float scale;
  // Elements of a query and of a value: multiples of 8, up to the head size that the kernel is made
  // for. The rest of that is 0.
  int size, value_size;
};

struct PlainScores {
  static constexpr bool kActive = false, kWeighs = false, kInProportion = true;
};

// The first in the low half.
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

// Blocks of kKeys keys that queries up to `last_query` may see.
template <bool kCausal, int kKeys>
__device__ __forceinline__ int key_blocks(const AttentionShape& shape, int last_query) {
  int keys = shape.keys;
  if constexpr (kCausal) keys = min(keys, last_query + shape.diagonal + 1);
  return keys <= 0 ? 0 : (keys + kKeys - 1) / kKeys;
}

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

  // One over each row's sum, 0 where it has none.
  __device__ __forceinline__ void finish(float (&inverse)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = sum[half] + __shfl_xor_sync(0xffffffffu, sum[half], 1);
      all += __shfl_xor_sync(0xffffffffu, all, 2);
      inverse[half] = all > 0.0f || all != all ? 1.0f / all : 0.0f;
    }
  }
};

// Scores of one block of keys: hides what lies beyond the keys or above the diagonal, and applies
// the generator's function.
template <bool kCausal, int kCount, class Scores>
__device__ __forceinline__ void prepare_scores(const AttentionShape& shape, const Scores& scores,
                                               int batch, int head, int query, int key,
                                               float (&s)[kCount]) {
  const int lane = threadIdx.x % 32;
  constexpr int kKeys = kCount * 2;
  const bool hides =
      key + kKeys > shape.keys || (kCausal && key + kKeys - 1 > query + shape.diagonal);
  if constexpr (!Scores::kActive) {
    if (!hides) return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int row = query + lane / 4 + i / 2 % 2 * 8;
    const int column = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
    const bool hidden = column >= shape.keys || (kCausal && column > row + shape.diagonal);
    if constexpr (Scores::kActive) {
      const bool outside = hidden || row >= shape.queries;
      s[i] = outside ? lowest() : scores(batch, head, row, column, s[i] * shape.scale);
    } else {
      s[i] = hidden ? lowest() : s[i];
    }
  }
}

// Applies the generator's function to the weights of those scores.
template <int kCount, class Scores>
__device__ __forceinline__ void change_weights(const AttentionShape& shape, const Scores& scores,
                                               int batch, int head, int query, int key,
                                               float (&s)[kCount]) {
  if constexpr (Scores::kWeighs) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int row = query + lane / 4 + i / 2 % 2 * 8;
      const int column = key + i / 4 * 8 + lane % 4 * 2 + i % 2;
      const bool outside = row >= shape.queries || column >= shape.keys;
      s[i] = outside ? 0.0f : scores.weight(batch, head, row, column, s[i]);
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
