// Attention (attention.cuh) for sm_90a by blocks of one warpgroup, which copies its own tiles.
// Needs what attention_sm90.cuh needs, and that, before it; maps and grid are as for its blocks.
//
// An entry is
//   extern "C" __global__ void
//       __launch_bounds__(AttentionAloneSm90<...>::kThreads, AttentionAloneSm90<...>::kBlocksPerSm)
//       name(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
//            const __grid_constant__ TensorMap v, ...) {
//     AttentionAloneSm90<Element, kKeys, kCausal, PlainScores, Epilogue>::run(
//         q, k, v, shape, PlainScores{}, Epilogue{...});
//   }
// Heads of 64 with plain scores. kKeys: of a tile, a multiple of 16, at most 128. Launch: kThreads
// threads, kSharedBytes of dynamic shared memory.
//
// A multiprocessor runs three such blocks, whose products, exponentials and copies overlap without
// an order between them, and which begin and end on their own. That is faster than blocks of three
// warpgroups where there are few queries, and slower where keys and values are read so often that
// the L2 bounds it.

template <typename Element, int kKeys, bool kCausal, class Scores, class Epilogue>
struct AttentionAloneSm90 : AttentionTilesSm90<Element, 64, 64, kKeys> {
  typedef AttentionTilesSm90<Element, 64, 64, kKeys> Tiles;
  using Tiles::kTileRows, Tiles::kTileKeys, Tiles::kBoxQ, Tiles::kBoxK, Tiles::kBytesQ,
      Tiles::kBytesK;
  static constexpr int kHead = 64;
  static constexpr int kBlocksPerSm = 3;
  static constexpr int kStages = 2;
  static constexpr int kThreads = 128;
  static constexpr u32 kSharedBytes = kBytesQ + 2 * kStages * kBytesK + 128;

  static_assert(!Scores::kActive && !Scores::kWeighs, "registers have no room for more");

  struct Barriers {
    u64 queries, keys[kStages], values[kStages];
  };

  // Copies the block's tiles of keys and values, from the last on.
  struct Copies {
    const TensorMap &k, &v;
    u8 *tiles_k, *tiles_v;
    Barriers& barriers;
    int end, blocks, key_head, batch;

    __device__ __forceinline__ void keys(int i) const {
      if (i >= blocks) return;
      Tiles::fetch(tiles_k + i % kStages * kBytesK, kBoxK, k, &barriers.keys[i % kStages],
                   (end - 1 - i) * kTileKeys, key_head, batch);
    }
    __device__ __forceinline__ void values(int i) const {
      if (i >= blocks) return;
      Tiles::fetch(tiles_v + i % kStages * kBytesK, kBoxK, v, &barriers.values[i % kStages],
                   (end - 1 - i) * kTileKeys, key_head, batch);
    }
  };

  static __device__ __forceinline__ void run(const TensorMap& q, const TensorMap& k,
                                             const TensorMap& v, const AttentionShape& shape,
                                             const Scores& scores, const Epilogue& epilogue) {
    const QueryBlock<kCausal, kTileRows> at(shape);
    if (at.none) return;
    const int query = at.query, head = at.head, batch = at.batch;
    extern __shared__ __align__(1024) u8 shared[];
    u8* const tile_q = shared;
    u8* const tiles_k = shared + kBytesQ;
    u8* const tiles_v = tiles_k + kStages * kBytesK;
    Barriers& barriers = *reinterpret_cast<Barriers*>(tiles_v + kStages * kBytesK);
    const int end =
        key_blocks<kCausal, kTileKeys>(shape, min(query + kTileRows, shape.queries) - 1);
    const int blocks = end - hidden_blocks<kCausal, kTileKeys>(shape, query);
    const int first = query + threadIdx.x / 32 * 16;
    float o[kHead / 2] = {}, inverse[2] = {0.0f, 0.0f}, logs[2] = {lowest(), lowest()};
    if (blocks > 0) {
      const Copies copies{k,        v,   tiles_k, tiles_v,
                          barriers, end, blocks,  head / (shape.heads / shape.key_heads),
                          batch};
      if (threadIdx.x == 0) {
        barrier_init(&barriers.queries, 1);
        for (int s = 0; s < kStages; ++s) {
          barrier_init(&barriers.keys[s], 1);
          barrier_init(&barriers.values[s], 1);
        }
        barrier_init_done();
        Tiles::fetch(tile_q, kBoxQ, q, &barriers.queries, query, head, batch);
        for (int s = 0; s < kStages; ++s) {
          copies.keys(s);
          copies.values(s);
        }
      }
      __syncthreads();
      consume(shape, scores, copies, head, first, tile_q, o, inverse, logs);
    }
    store_sums(shape, epilogue, batch, head, first, logs);
    store_rows<kHead>(shape, epilogue, batch, head, first, o, inverse);
  }

  static __device__ __forceinline__ void consume(const AttentionShape& shape, const Scores& scores,
                                                 const Copies& copies, int head, int first,
                                                 u8* tile_q, float (&o)[kHead / 2],
                                                 float (&inverse)[2], float (&logs)[2]) {
    const u64 desc_q = wgmma_operand(tile_q, 0);
    const u64 desc_k = wgmma_operand(copies.tiles_k, 0);
    const u64 desc_v = wgmma_operand(copies.tiles_v, kBoxK);
    const float to_log2 = shape.scale * kLog2E;
    const bool has_rows = first < shape.queries;  // of this warp: others compute no exponentials
    const int blocks = copies.blocks;
    Barriers& barriers = copies.barriers;
    const ScoreRows rows = ScoreRows::of(head, first);
    ScoreBlocks<Scores, kTileKeys / 2> score_blocks(shape, scores, copies.batch, rows);
    OnlineSoftmax softmax;
    float s[kTileKeys / 2], factor[2] = {1.0f, 1.0f};
    u32 weights[kTileKeys / 16][4];
    int key = (copies.end - 1) * kTileKeys;
    barrier_wait(&barriers.queries, 0);
    for (int i = 0; i < blocks; ++i, key -= kTileKeys) {
      const int stage = i % kStages, before = (i + 1) % kStages;
      barrier_wait(&barriers.keys[stage], i / kStages & 1);
      Tiles::multiply_keys(s, desc_q, desc_k + (u32)stage * (kBytesK >> 4));
      wgmma_commit();
      if (i > 0) {
        barrier_wait(&barriers.values[before], (i - 1) / kStages & 1);
        Tiles::weigh_values(o, weights, desc_v + (u32)before * (kBytesK >> 4), i > 1);
        wgmma_commit();
        wgmma_wait<1>();
      } else {
        wgmma_wait<0>();
      }
      pin(s);
      if (has_rows) {
        score_blocks.template prepare<kCausal>(s, key);
        softmax.step(s, to_log2, factor);
      }
      wgmma_wait<0>();
      pin(o);
      if (i + 2 < blocks || (i > 0 && i + 1 < blocks)) {
        __syncthreads();  // all have used keys i, and values i - 1
        if (threadIdx.x == 0) {
          copies.keys(i + kStages);
          if (i > 0) copies.values(i + 1);
        }
      }
#pragma unroll
      for (int j = 0; j < kHead / 2; ++j) o[j] *= factor[j / 2 % 2];
      Tiles::pack(s, weights);
    }
    Tiles::finish(o, weights, desc_v, barriers.values, blocks, softmax, to_log2, inverse, logs);
  }
};
