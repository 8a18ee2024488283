// Attention (attention.cuh) of few queries, for sm_80 and everything after it: a block handles all
// queries of all heads that share a key head, and some of the keys. Needs elements.cuh, quick.cuh,
// accumulators.cuh, columns.cuh, epilogue.cuh, attention.cuh, mma.cuh and attention_sm80.cuh before
// it.
//
// An entry is
//   extern "C" __global__ void
//       __launch_bounds__(AttentionFew<...>::kThreads, AttentionFew<...>::kBlocksPerSm)
//       name(const Element* q, const Element* k, const Element* v, ..., u8* work) {
//     AttentionFew<Element, kHead, kRowTiles, kStages, kParts, kCausal, Scores, Epilogue>::run(
//         OperandRows<Element>{q, ...}, keys, values, shape, tiles, Scores{...}, Epilogue{...},
//         work);
//   }
// `keys` and `values` are OperandRows<Element>, or PagedRows where a table tells where they lie.
// Element: bf16, f16 or f32. kHead: as for sm_80. A key head's rows, queries * heads / key_heads of
// them, are at most kTileRows. Launch: kThreads threads, kSharedBytes of dynamic shared memory,
// grid {kParts, key_heads, batches}: each block has `tiles` tiles of the visible keys. If kParts is
// more than 1, `work` has kRowWorkspaceBytes for each row of the result's matrices and 4 bytes for
// each batch's key head, all zero before the first launch.
//
// Traffic: q, k and v are read once from memory, and the result is written once. Reading k and v
// takes the time: kStages - 1 tiles of both are always on their way. All warps that have the same
// rows have other keys of a tile, and a softmax of their own; they merge at the end. So do blocks
// that share a key head, through memory that the L2 holds: the last of them to finish reads what
// all have left. Entries of a table are read once for each key that a thread copies, mostly from
// the L1, or once a tile where that lies in one page.

// Rows in pages: a page is kRows rows, `row` apart, and an entry of the table counts pages, `page`
// apart, from `first` on. `batch`: entries of one batch.
template <typename Element, typename Entry, int kRows>
struct PagedRows {
  const Element* first;
  const Entry* table;
  i64 page, row, head, batch;

  __device__ __forceinline__ PagedRows of(int in_batch, int in_head) const {
    return {first + in_head * head, table + in_batch * batch, page, row, head, batch};
  }
  template <int kTile>
  __device__ __forceinline__ auto tile(int from) const {
    if constexpr (kRows % kTile == 0) {
      // From where row 0 would be.
      return OperandRows<Element>{at(from) - from * row, row, head, 0};
    } else {
      return *this;
    }
  }
  __device__ __forceinline__ const Element* at(int line) const {
    const i64 entry = (i64)__ldg(table + (u32)line / kRows);
    return first + entry * page + (i64)((u32)line % kRows) * row;
  }
};

template <typename Element, int kHead, int kRowTiles, int kStages, int kParts, bool kCausal,
          class Scores, class Epilogue>
struct AttentionFew {
  typedef AttentionTile<Element, kHead> Tile;
  static constexpr int kKeyWarps = 4;
  static constexpr int kTileRows = 16 * kRowTiles;
  static constexpr int kTileKeys = 16 * kKeyWarps;
  static constexpr int kThreads = 32 * kKeyWarps * kRowTiles;
  static constexpr int kBlocksPerSm = kRowTiles == 1 && kHead <= 128 ? 2 : 1;
  static constexpr int kOperandBytes = kTileKeys * Tile::kLineBytes;
  static constexpr int kStageBytes = 2 * kOperandBytes;
  // Beside the stages, the largest score and the sum of each warp's rows.
  static constexpr int kStateBytes = 2 * kKeyWarps * kTileRows * sizeof(float);
  // Behind them the queries, as operands of mma, if registers have no room for them.
  static constexpr bool kHoldsQueries = Tile::kLineBytes <= 256;
  static constexpr int kQueryBytes = kHoldsQueries ? 0 : kTileRows * Tile::kLineBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes + kStateBytes + kQueryBytes;
  // The sums of values that a row's parts leave, and their states.
  static constexpr int kRowWorkspaceBytes = kParts > 1
                                                ? kParts*(kHead * sizeof(float) + sizeof(float2))
                                                : 0;
  static_assert(kStages >= 2 && kStages >= kRowTiles, "warps leave their sums in the stages");
  static_assert(kParts * kTileRows * sizeof(float) + kTileRows * kHead * sizeof(float) <=
                    kStages * kStageBytes,
                "the last block holds every part's factor");

  // Of a block: rows are numbered by head, then query.
  struct Place {
    const AttentionShape& shape;
    int batch, key_head;

    __device__ __forceinline__ int group() const { return shape.heads / shape.key_heads; }
    __device__ __forceinline__ int rows() const { return group() * shape.queries; }
    __device__ __forceinline__ int head_of(int row) const {
      return key_head * group() + min(row, rows() - 1) / shape.queries;
    }
    __device__ __forceinline__ int query_of(int row) const {
      return row < rows() ? row % shape.queries : shape.queries;
    }
    // A row's number over all batches.
    __device__ __forceinline__ i64 number(int row) const {
      return ((i64)batch * shape.key_heads + key_head) * rows() + row;
    }
  };

  struct Work {
    float* values;   // [row][part][kHead]
    float2* states;  // [row][part]: the largest score and the sum
    u32* arrived;    // blocks of a key head

    __device__ __forceinline__ Work(u8* work, const AttentionShape& shape) {
      const i64 parts = (i64)shape.batches * shape.heads * shape.queries * kParts;
      values = reinterpret_cast<float*>(work);
      states = reinterpret_cast<float2*>(values + parts * kHead);
      arrived = reinterpret_cast<u32*>(states + parts);
    }
  };

  template <class Keys, class Values>
  static __device__ __forceinline__ void run(const OperandRows<Element>& q, const Keys& all_keys,
                                             const Values& all_values, const AttentionShape& shape,
                                             int tiles, const Scores& scores,
                                             const Epilogue& epilogue, u8* work = nullptr) {
    extern __shared__ __align__(128) u8 shared[];
    const int part = blockIdx.x;
    const Place place{shape, (int)blockIdx.z, (int)blockIdx.y};
    const Keys k = all_keys.of(place.batch, place.key_head);
    const Values v = all_values.of(place.batch, place.key_head);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int key_warp = warp / kRowTiles, row = warp % kRowTiles * 16 + lane / 4;
    const int first = hidden_blocks<kCausal, kTileKeys>(shape, 0) + part * tiles;
    const int count = min(tiles, key_blocks<kCausal, kTileKeys>(shape, shape.queries - 1) - first);
    const float to_log2 = Scores::kActive ? kLog2E : shape.scale * kLog2E;
    const auto fetch = [&](int i) {
      if (i < count) {
        u8* const stage = shared + i % kStages * kStageBytes;
        const int key = (first + i) * kTileKeys;
        Tile::template fetch<kTileKeys, kThreads>(stage, k.template tile<kTileKeys>(key), key,
                                                  shape.keys, shape.size);
        Tile::template fetch<kTileKeys, kThreads>(stage + kOperandBytes,
                                                  v.template tile<kTileKeys>(key), key, shape.keys,
                                                  shape.value_size);
      }
      copies_commit();  // none is a group, too: groups are counted
    };
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) fetch(i);

    u32 held[Tile::kSteps][4];
    uint4* const queries = reinterpret_cast<uint4*>(shared + kStages * kStageBytes + kStateBytes) +
                           warp % kRowTiles * Tile::kSteps * 32 + lane;  // 32 apart
    if (kHoldsQueries || key_warp == 0) {
      load_queries(q, place, row, held);
      if constexpr (!kHoldsQueries) {
#pragma unroll
        for (int d = 0; d < Tile::kSteps; ++d) memcpy(queries + d * 32, held[d], 16);
      }
    }
    const ScoreRows rows{{place.head_of(row), place.head_of(row + 8)},
                         {place.query_of(row), place.query_of(row + 8)},
                         0,
                         shape.queries - 1};
    ScoreBlocks<Scores, 8> score_blocks(shape, scores, place.batch, rows);
    OnlineSoftmax softmax;
    float o[kHead / 2] = {};
    for (int i = 0; i < count; ++i) {
      copies_wait<kStages - 2>();
      __syncthreads();  // tile i has arrived, and all have read the one before
      fetch(i + kStages - 1);
      const u8* const keys = shared + i % kStages * kStageBytes + key_warp * 16 * Tile::kLineBytes;
      const int key = (first + i) * kTileKeys + key_warp * 16;
      float s[8] = {};
      const auto load = [&](int d, u32(&a)[4]) {
        if constexpr (kHoldsQueries) {
          memcpy(a, held[d], 16);
        } else {
          memcpy(a, queries + d * 32, 16);
        }
      };
      Tile::multiply_keys(s, load, keys);
      Tile::template weigh_scores<kCausal>(score_blocks, softmax, to_log2, key, s, o);
      Tile::weigh_values(o, s, keys + kOperandBytes);
    }
    copies_wait<0>();
    __syncthreads();
    leave_sums(softmax, to_log2, key_warp, row, o, shared);
    if constexpr (kParts > 1) {
      leave_part(place, part, to_log2, shared, Work(work, shape));
      merge_parts(place, to_log2, shared, epilogue, Work(work, shape));
    } else {
      for_eights(place, [&](int r, int column) {
        float v8[8], most;
        const float sum = merged(shared, to_log2, r, column, v8, most);
        store(place, r, column, v8, OnlineSoftmax::inverse_of(sum), epilogue);
        if (column == 0) store_sum(place, r, most, sum, to_log2, epilogue);
      });
    }
  }

  // As operands of mma: rows `row` and the eighth after it.
  static __device__ __forceinline__ void load_queries(const OperandRows<Element>& q,
                                                      const Place& place, int row,
                                                      u32 (&a)[Tile::kSteps][4]) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const int r = row + x % 2 * 8;
      const bool inside = r < place.rows();
      const Element* const line =
          inside ? q.of(place.batch, place.head_of(r)).at(place.query_of(r)) : q.first;
#pragma unroll
      for (int d = 0; d < Tile::kSteps; ++d) {
        const int column = (d * 8 + x / 2 * 4 + (int)threadIdx.x % 4) * (Tile::kOfChunk / 4);
        a[d][x] = inside && column < place.shape.size
                      ? load_input(reinterpret_cast<const u32*>(line + column))
                      : 0u;
      }
    }
  }

  // Where a warp's sum of values lies: the rows of one store are in different banks.
  static __device__ __forceinline__ float* sum_at(u8* shared, int key_warp, int row, int column) {
    return reinterpret_cast<float*>(shared) + (key_warp * kTileRows + row) * kHead +
           (column ^ (row & 3) << 3);
  }
  static __device__ __forceinline__ float* state_at(u8* shared, int key_warp, int row) {
    return reinterpret_cast<float*>(shared + kStages * kStageBytes) +
           2 * (key_warp * kTileRows + row);
  }
  static __device__ __forceinline__ float factor_of(float most, float largest, float to_log2) {
    return most == lowest() ? 0.0f : quick_exp2((most - largest) * to_log2);
  }

  static __device__ __forceinline__ void leave_sums(const OnlineSoftmax& softmax, float to_log2,
                                                    int key_warp, int row,
                                                    const float (&o)[kHead / 2], u8* shared) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = softmax.total(half);
      const int r = row + 8 * half;
      if (lane % 4 == 0) {
        state_at(shared, key_warp, r)[0] = softmax.most[half];
        state_at(shared, key_warp, r)[1] = sum;
      }
#pragma unroll
      for (int g = 0; g < kHead / 8; ++g) {
        *reinterpret_cast<float2*>(sum_at(shared, key_warp, r, g * 8) + lane % 4 * 2) = {
            o[g * 4 + half * 2], o[g * 4 + half * 2 + 1]};
      }
    }
    __syncthreads();
  }

  // Calls f(row, column) for every eight columns of the block's rows.
  template <class F>
  static __device__ __forceinline__ void for_eights(const Place& place, const F& f) {
    for (int i = threadIdx.x; i < place.rows() * (kHead / 8); i += kThreads) {
      const int column = i % (kHead / 8) * 8;
      if (column < place.shape.value_size) f(i / (kHead / 8), column);
    }
  }

  // Eight columns of a row, summed over the block's warps relative to the largest score; returns
  // the sum of the row's weights.
  static __device__ __forceinline__ float merged(u8* shared, float to_log2, int row, int column,
                                                 float (&v)[8], float& most) {
    most = lowest();
#pragma unroll
    for (int w = 0; w < kKeyWarps; ++w) most = fmaxf(most, state_at(shared, w, row)[0]);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = 0.0f;
#pragma unroll
    for (int w = 0; w < kKeyWarps; ++w) {
      const float factor = factor_of(state_at(shared, w, row)[0], most, to_log2);
      sum += state_at(shared, w, row)[1] * factor;
      const float* const at = sum_at(shared, w, row, column);
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] += at[j] * factor;
    }
    return sum;
  }

  static __device__ __forceinline__ void store(const Place& place, int row, int column,
                                               float (&v)[8], float inverse,
                                               const Epilogue& epilogue) {
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] *= inverse;
    epilogue(place.batch, place.head_of(row), (i64)place.query_of(row), (i64)column, v, Eight{});
  }

  static __device__ __forceinline__ void store_sum(const Place& place, int row, float most,
                                                   float sum, float to_log2,
                                                   const Epilogue& epilogue) {
    if constexpr (Epilogue::kSums) {
      epilogue.row_sum(place.batch, place.head_of(row), (i64)place.query_of(row),
                       OnlineSoftmax::log_of(most, sum, to_log2));
    }
  }

  static __device__ __forceinline__ void leave_part(const Place& place, int part, float to_log2,
                                                    u8* shared, const Work& work) {
    for_eights(place, [&](int row, int column) {
      float v[8], most;
      const float sum = merged(shared, to_log2, row, column, v, most);
      const i64 at = place.number(row) * kParts + part;
      float4* const to = reinterpret_cast<float4*>(work.values + at * kHead + column);
      to[0] = {v[0], v[1], v[2], v[3]};
      to[1] = {v[4], v[5], v[6], v[7]};
      if (column == 0) work.states[at] = {most, sum};
    });
  }

  // The last block of a key head merges the parts of all, in a fixed order.
  static __device__ __forceinline__ void merge_parts(const Place& place, float to_log2, u8* shared,
                                                     const Epilogue& epilogue, const Work& work) {
    u32& last = *reinterpret_cast<u32*>(state_at(shared, 0, 0));
    __syncthreads();  // all have left their parts and read the states
    if (threadIdx.x == 0) {
      u32* const arrived = work.arrived + place.batch * place.shape.key_heads + place.key_head;
      last = arrive_at(arrived, 1) == kParts - 1;
      if (last) *arrived = 0;  // for the next launch
    }
    __syncthreads();
    if (!last) return;
    const int rows = place.rows(), lane = threadIdx.x % 32;
    float* const factors = reinterpret_cast<float*>(shared);  // [row][part]
    float* const sums = factors + kTileRows * kParts;         // [row][kHead]
    for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) {
      const float2* const states = work.states + place.number(row) * kParts;
      float most = lowest(), sum = 0.0f;
      for (int i = lane; i < kParts; i += 32) most = fmaxf(most, __ldcg(states + i).x);
#pragma unroll
      for (int mask = 16; mask >= 1; mask /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, mask));
      }
      for (int i = lane; i < kParts; i += 32) {
        const float2 state = __ldcg(states + i);
        const float factor = factor_of(state.x, most, to_log2);
        factors[row * kParts + i] = factor;
        sum += state.y * factor;
      }
#pragma unroll
      for (int mask = 16; mask >= 1; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      const float inverse = OnlineSoftmax::inverse_of(sum);
      if (lane == 0) store_sum(place, row, most, sum, to_log2, epilogue);
      __syncwarp();
      for (int i = lane; i < kParts; i += 32) factors[row * kParts + i] *= inverse;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < rows * (kHead / 4); i += kThreads) {
      const int row = i / (kHead / 4), column = i % (kHead / 4) * 4;
      const float* const from = work.values + place.number(row) * kParts * kHead + column;
      float4 sum = {};
      if (column < place.shape.value_size) {
#pragma unroll 16
        for (int p = 0; p < kParts; ++p) {
          const float4 x = __ldcg(reinterpret_cast<const float4*>(from + p * kHead));
          const float factor = factors[row * kParts + p];
          sum.x = fmaf(x.x, factor, sum.x);
          sum.y = fmaf(x.y, factor, sum.y);
          sum.z = fmaf(x.z, factor, sum.z);
          sum.w = fmaf(x.w, factor, sum.w);
        }
      }
      *reinterpret_cast<float4*>(sums + row * kHead + column) = sum;
    }
    __syncthreads();
    for_eights(place, [&](int row, int column) {
      float v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = sums[row * kHead + column + j];
      store(place, row, column, v, 1.0f, epilogue);
    });
  }
};
