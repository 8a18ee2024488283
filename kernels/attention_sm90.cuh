// Attention (attention.cuh) for sm_90a, made for head sizes 64, 96, 128, 192 and 256. Needs
// elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh, attention.cuh and
// hopper.cuh before it.
//
// An entry is
//   extern "C" __global__ void
//       __launch_bounds__(AttentionSm90<...>::kThreads, AttentionSm90<...>::kBlocksPerSm)
//       name(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
//            const __grid_constant__ TensorMap v, ...) {
//     AttentionSm90<Element, kHead, kConsumers, kKeys, kCausal, Scores, Epilogue>::run(
//         q, k, v, shape, Scores{...}, Epilogue{...});
//   }
// Element: bf16 or f16. kConsumers: warpgroups with 64 queries each: 1, 2, or 3, for which heads of
// 64 alone, without Scores, leave registers. kKeys: of a tile, a multiple of 16, at most
// kMostTileKeys. Launch: kThreads threads, kSharedBytes of dynamic shared memory, and the grid that
// QueryBlock says, of ceil(queries / kTileRows) blocks of queries. Tensor maps, rank 4, fastest
// first, SWIZZLE_128B, L2 promotion 256 B, zeros outside:
//   q: extents {size, queries, heads, batches}, box {64, kTileRows, 1, 1}
//   k, v: extents {size (value_size), keys, key_heads, batches}, box {64, kTileKeys, 1, 1}
// Strides are those of the tensors, multiples of 16 bytes.
//
// Traffic: q, k and v are read once from memory and the result is written once. A head's blocks are
// neighbours in the grid, so its keys and values (1 MiB at 4096 x 64) come from the L2 for all but
// the first of them; grouped heads share them further. Where it is causal, the blocks with the most
// keys are scheduled first, of all heads whose keys the L2 holds together, then those of the next
// heads: of 128 heads of 2048 x 128 at once the L2 held none, 1.1 GB were read in place of 0.2 and
// took 19 % longer. One warp copies. The warpgroups alternate on the tensor cores: while one
// multiplies, the others compute exponentials (a multiprocessor does only 16 of them per cycle).
// Each also issues the product of its next scores while it multiplies the values by the current
// weights.

// Tiles in shared memory, in boxes of 128-byte lines, and the products of 64 queries with them.
template <typename Element, int kHead, int kRows, int kKeys>
struct AttentionTilesSm90 {
  static constexpr int kTileRows = kRows, kTileKeys = kKeys;
  static constexpr int kBoxes = (kHead + 63) / 64;
  static constexpr u32 kBoxQ = kTileRows * 128, kBoxK = kTileKeys * 128;
  static constexpr u32 kBytesQ = kBoxes * kBoxQ, kBytesK = kBoxes * kBoxK;

  static __device__ __forceinline__ void fetch(u8* to, u32 box, const TensorMap& map, u64* barrier,
                                               int line, int head, int batch) {
    barrier_expect(barrier, kBoxes * box);
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      copy_box(to + i * box, map, barrier, i * 64, line, head, batch, kEvictNormal);
    }
  }

  // s = q k^T, 64 queries by kTileKeys keys.
  static __device__ __forceinline__ void multiply_keys(float (&s)[kTileKeys / 2], u64 desc_q,
                                                       u64 desc_k) {
    pin(s);
    wgmma_begin();
#pragma unroll
    for (int d = 0; d < kHead / 16; ++d) {
      const u32 within = d % 4 * (32 >> 4);
      Wgmma<kTileKeys>::template shared<false, false>(s, desc_q + (d / 4 * (kBoxQ >> 4) + within),
                                                      desc_k + (d / 4 * (kBoxK >> 4) + within),
                                                      d > 0, Element{});
    }
    pin(s);
  }

  // o += weights v: a tile of values is kTileKeys lines, so it is MN-major as an operand.
  static __device__ __forceinline__ void weigh_values(float (&o)[kHead / 2],
                                                      const u32 (&weights)[kTileKeys / 16][4],
                                                      u64 desc_v, bool keep) {
    pin(o);
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < kTileKeys / 16; ++i) {
      Wgmma<kHead>::template registers<true>(o, weights[i], desc_v + i * (16 * 128 >> 4),
                                             keep || i > 0, Element{});
    }
    pin(o);
  }

  static __device__ __forceinline__ void pack(const float (&s)[kTileKeys / 2],
                                              u32 (&weights)[kTileKeys / 16][4]) {
#pragma unroll
    for (int i = 0; i < kTileKeys / 4; ++i) {
      weights[i / 4][i % 4] = pack_pair(s[2 * i], s[2 * i + 1], Element{});
    }
  }

  // Ends a loop over `blocks` tiles of keys, at least one: weighs the values of the last tile,
  // whose arrival is values_full[(blocks - 1) % kStages], and completes the softmax during that
  // product.
  template <int kStages>
  static __device__ __forceinline__ void finish(float (&o)[kHead / 2],
                                                const u32 (&weights)[kTileKeys / 16][4], u64 desc_v,
                                                u64 (&values_full)[kStages], int blocks,
                                                OnlineSoftmax& softmax, float to_log2,
                                                float (&inverse)[2], float (&logs)[2]) {
    const int last = (blocks - 1) % kStages;
    barrier_wait(&values_full[last], (blocks - 1) / kStages & 1);
    weigh_values(o, weights, desc_v + (u32)last * (kBytesK >> 4), blocks > 1);
    wgmma_commit();
    softmax.finish(to_log2, inverse, logs);
    wgmma_wait<0>();
    pin(o);
  }
};

// Limited by shared memory and by registers for the accumulators.
template <int kHead>
constexpr int kMostTileKeys = kHead <= 128   ? 128
                              : kHead <= 192 ? 96
                                             : 80;

template <typename Element, int kHead, int kWarpgroups, int kKeys, bool kCausal, class Scores,
          class Epilogue>
struct AttentionSm90 : AttentionTilesSm90<Element, kHead, 64 * kWarpgroups, kKeys> {
  typedef AttentionTilesSm90<Element, kHead, 64 * kWarpgroups, kKeys> Tiles;
  static_assert(kKeys <= kMostTileKeys<kHead>, "registers and shared memory have no room for more");
  using Tiles::kTileRows, Tiles::kTileKeys, Tiles::kBoxQ, Tiles::kBoxK, Tiles::kBytesQ,
      Tiles::kBytesK;
  static constexpr int kConsumers = kWarpgroups;
  static constexpr int kBlocksPerSm = kConsumers == 1 && kHead == 64 ? 2 : 1;
  static constexpr int kStages = 2;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr u32 kSharedBytes = kBytesQ + 2 * kStages * kBytesK + 128;

  // Registers have room for twice as much beside the results of short heads.
  typedef ScoreBlocks<Scores, kTileKeys / 2, kHead <= 64 ? 8 : kHead <= 192 ? 4 : 0> Blocks;

  struct Barriers {
    u64 queries;
    u64 keys_full[kStages], keys_empty[kStages];
    u64 values_full[kStages], values_empty[kStages];
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
    if (threadIdx.x == 0) {
      barrier_init(&barriers.queries, 1);
      for (int s = 0; s < kStages; ++s) {
        barrier_init(&barriers.keys_full[s], 1);
        barrier_init(&barriers.values_full[s], 1);
        barrier_init(&barriers.keys_empty[s], kConsumers);
        barrier_init(&barriers.values_empty[s], kConsumers);
      }
      barrier_init_done();
    }
    __syncthreads();
    const int hidden = hidden_blocks<kCausal, kTileKeys>(shape, query);
    const int end =
        key_blocks<kCausal, kTileKeys>(shape, min(query + kTileRows, shape.queries) - 1);
    const int blocks = end - hidden;
    if (threadIdx.x < 128) {
      shrink_registers<24>();
      if (threadIdx.x == 0) {
        const int key_head = head / (shape.heads / shape.key_heads);
        Tiles::fetch(tile_q, kBoxQ, q, &barriers.queries, query, head, batch);
        for (int i = 0; i < blocks; ++i) {
          const int stage = i % kStages, key = (end - 1 - i) * kTileKeys;
          const u32 parity = (i / kStages & 1) ^ 1;
          barrier_wait(&barriers.keys_empty[stage], parity);
          Tiles::fetch(tiles_k + stage * kBytesK, kBoxK, k, &barriers.keys_full[stage], key,
                       key_head, batch);
          barrier_wait(&barriers.values_empty[stage], parity);
          Tiles::fetch(tiles_v + stage * kBytesK, kBoxK, v, &barriers.values_full[stage], key,
                       key_head, batch);
        }
      }
    } else {
      grow_registers<kConsumers == 3 ? 160 : kBlocksPerSm == 2 ? 224 : 240>();
      const int consumer = threadIdx.x / 128 - 1;
      const int first = query + consumer * 64 + threadIdx.x / 32 % 4 * 16;
      float o[kHead / 2], inverse[2], logs[2];
      if (blocks > 0) {
        consume(shape, scores, batch, head, first, end, blocks, tile_q + consumer * 64 * 128,
                tiles_k, tiles_v, barriers, o, inverse, logs);
      } else {
#pragma unroll
        for (int i = 0; i < kHead / 2; ++i) o[i] = 0.0f;
        inverse[0] = inverse[1] = 0.0f;
        logs[0] = logs[1] = lowest();
        barrier_wait(&barriers.queries, 0);  // the copy must land before the block may leave
      }
      store_sums(shape, epilogue, batch, head, first, logs);
      store_rows<kHead>(shape, epilogue, batch, head, first, o, inverse);
    }
  }

  static __device__ __forceinline__ void consume(const AttentionShape& shape, const Scores& scores,
                                                 int batch, int head, int first, int end,
                                                 int blocks, u8* tile_q, u8* tiles_k, u8* tiles_v,
                                                 Barriers& barriers, float (&o)[kHead / 2],
                                                 float (&inverse)[2], float (&logs)[2]) {
    const int consumer = threadIdx.x / 128 - 1;
    const bool signals = threadIdx.x % 128 == 0;
    const u64 desc_q = wgmma_operand(tile_q, 0);
    const u64 desc_k = wgmma_operand(tiles_k, 0);
    const u64 desc_v = wgmma_operand(tiles_v, kBoxK);
    const float to_log2 = Scores::kActive ? kLog2E : shape.scale * kLog2E;
    const ScoreRows rows = ScoreRows::of(head, first);
    Blocks score_blocks(shape, scores, batch, rows);
    OnlineSoftmax softmax;
    float s[kTileKeys / 2], factor[2];
    u32 weights[kTileKeys / 16][4];
    int key = (end - 1) * kTileKeys;
    score_blocks.template load<true>(key);
    if (consumer > 0) turn_arrive(0);
    if (consumer > 1) turn_arrive(1);
    barrier_wait(&barriers.queries, 0);
    barrier_wait(&barriers.keys_full[0], 0);
    turn_wait(consumer);
    Tiles::multiply_keys(s, desc_q, desc_k);
    wgmma_commit();
    turns_pass(consumer);
    score_blocks.template load<false>(key);
    wgmma_wait<0>();
    pin(s);
    if (signals) barrier_arrive(&barriers.keys_empty[0]);
    score_blocks.template prepare<kCausal>(s, key);
    if (blocks > 1) score_blocks.template load<true>(key - kTileKeys);
    softmax.step(s, to_log2, factor);
    score_blocks.change_weights(s, key);
    Tiles::pack(s, weights);
    for (int i = 1; i < blocks; ++i) {
      const int stage = i % kStages, before = (i - 1) % kStages;
      barrier_wait(&barriers.keys_full[stage], i / kStages & 1);
      turn_wait(consumer);
      Tiles::multiply_keys(s, desc_q, desc_k + (u32)stage * (kBytesK >> 4));
      wgmma_commit();
      barrier_wait(&barriers.values_full[before], (i - 1) / kStages & 1);
      Tiles::weigh_values(o, weights, desc_v + (u32)before * (kBytesK >> 4), i > 1);
      wgmma_commit();
      turns_pass(consumer);
      key -= kTileKeys;
      score_blocks.template load<false>(key);
      wgmma_wait<1>();
      pin(s);
      if (signals) barrier_arrive(&barriers.keys_empty[stage]);
      score_blocks.template prepare<kCausal>(s, key);
      if (i + 1 < blocks) score_blocks.template load<true>(key - kTileKeys);
      softmax.step(s, to_log2, factor);
      score_blocks.change_weights(s, key);
      wgmma_wait<0>();
      pin(o);
      if (signals) barrier_arrive(&barriers.values_empty[before]);
#pragma unroll
      for (int j = 0; j < kHead / 2; ++j) o[j] *= factor[j / 2 % 2];
      Tiles::pack(s, weights);
    }
    Tiles::finish(o, weights, desc_v, barriers.values_full, blocks, softmax, to_log2, inverse,
                  logs);
  }

  // A warpgroup waits until all others have issued their products.
  static __device__ __forceinline__ void turn_wait(int consumer) {
    group_sync(1 + consumer, 128 * kConsumers);
  }
  static __device__ __forceinline__ void turn_arrive(int consumer) {
    group_arrive(1 + consumer, 128 * kConsumers);
  }
  static __device__ __forceinline__ void turns_pass(int consumer) {
#pragma unroll
    for (int i = 1; i < kConsumers; ++i) turn_arrive((consumer + i) % kConsumers);
  }
};
