// Attention (attention.cuh) of 32-bit floats for sm_90a, made for head sizes 32, 64, 96 and 128.
// Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh, attention.cuh,
// mma.cuh, tf32_parts.cuh and hopper.cuh before it.
//
// An entry is
//   extern "C" __global__ void
//       __launch_bounds__(AttentionWordsSm90<...>::kThreads, AttentionWordsSm90<...>::kBlocksPerSm)
//       name(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
//            const __grid_constant__ TensorMap v, ...) {
//     AttentionWordsSm90<kHead, kCausal, Scores, Epilogue>::run(q, k, v, shape, Scores{...},
//                                                               Epilogue{...});
//   }
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, and the grid of attention_sm90
// for blocks of kTileRows queries. Tensor maps as for attention_sm90, of f32, with boxes of
// {32, kTileRows, 1, 1} for q and {32, kTileKeys, 1, 1} for k and v.
//
// An operand enters as two tf32 (exact_f32 in mma.cuh): itself, of which the tensor cores leave out
// the bits behind tf32's, and what that misses. Of three products the one of both operands
// themselves is added last: the tensor cores truncate when they add, which is of no weight while
// the sum is small. Operands in shared memory are lines along k, so values are turned on the way,
// while scores are multiplied; the rest of the next keys is found while values are. A block is one
// warpgroup; a second one beside it on its multiprocessor fills the gaps.
//
// Traffic: as for attention_sm90.

template <int kHead, bool kCausal, class Scores, class Epilogue>
struct AttentionWordsSm90 {
  static constexpr int kTileRows = 64, kTileKeys = 64;
  static constexpr int kThreads = 128;
  static constexpr int kBlocksPerSm = kHead <= 32 ? 3 : kHead <= 64 ? 2 : 1;
  static constexpr int kOfLine = 32;  // elements in 128 bytes
  static constexpr int kBoxes = kHead / kOfLine;
  static constexpr u32 kBox = kTileKeys * 128;    // of queries, keys or values
  static constexpr u32 kBytes = kBoxes * kBox;    // of a tile
  static constexpr u32 kTurnedBox = kHead * 128;  // lines of 32 keys
  static_assert(kTileRows == kTileKeys && kTileKeys / kOfLine * kTurnedBox == kBytes, "one size");

  struct Barriers {
    u64 queries, keys, values;
  };
  static constexpr u32 kSharedBytes = 7 * kBytes + 128;

  // In shared memory.
  struct Tiles {
    u8 *q, *q_rest, *k, *k_rest, *v, *turned, *turned_rest;
    Barriers* barriers;

    __device__ __forceinline__ explicit Tiles(u8* shared)
        : q(shared),
          q_rest(q + kBytes),
          k(q_rest + kBytes),
          k_rest(k + kBytes),
          v(k_rest + kBytes),
          turned(v + kBytes),
          turned_rest(turned + kBytes),
          barriers(reinterpret_cast<Barriers*>(turned_rest + kBytes)) {}
  };

  static __device__ __forceinline__ void run(const TensorMap& q, const TensorMap& k,
                                             const TensorMap& v, const AttentionShape& shape,
                                             const Scores& scores, const Epilogue& epilogue) {
    const QueryBlock<kCausal, kTileRows> at(shape);
    if (at.none) return;
    extern __shared__ __align__(1024) u8 shared[];
    const Tiles tiles(shared);
    const int end =
        key_blocks<kCausal, kTileKeys>(shape, min(at.query + kTileRows, shape.queries) - 1);
    const int hidden = hidden_blocks<kCausal, kTileKeys>(shape, at.query);
    const int key_head = at.head / (shape.heads / shape.key_heads);
    const auto fetch_keys = [&](int block) {
      fetch(tiles.k, k, &tiles.barriers->keys, block * kTileKeys, key_head, at.batch);
      fetch(tiles.v, v, &tiles.barriers->values, block * kTileKeys, key_head, at.batch);
    };
    float o[kHead / 2] = {}, inverse[2] = {0.0f, 0.0f}, logs[2] = {lowest(), lowest()};
    const int first = at.query + threadIdx.x / 32 * 16;
    if (end > hidden) {
      if (threadIdx.x == 0) {
        barrier_init(&tiles.barriers->queries, 1);
        barrier_init(&tiles.barriers->keys, 1);
        barrier_init(&tiles.barriers->values, 1);
        barrier_init_done();
        fetch(tiles.q, q, &tiles.barriers->queries, at.query, at.head, at.batch);
        fetch_keys(end - 1);
      }
      __syncthreads();
      consume(shape, scores, at.batch, ScoreRows::of(at.head, first), end, hidden, tiles,
              fetch_keys, o, inverse, logs);
    }
    store_sums(shape, epilogue, at.batch, at.head, first, logs);
    store_rows<kHead>(shape, epilogue, at.batch, at.head, first, o, inverse);
  }

  static __device__ __forceinline__ void fetch(u8* to, const TensorMap& map, u64* barrier, int line,
                                               int head, int batch) {
    barrier_expect(barrier, kBytes);
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
      copy_box(to + i * kBox, map, barrier, i * kOfLine, line, head, batch, kEvictNormal);
    }
  }

  // From the last tile of keys to the first that is not hidden.
  template <class Fetch>
  static __device__ __forceinline__ void consume(const AttentionShape& shape, const Scores& scores,
                                                 int batch, const ScoreRows& rows, int end,
                                                 int hidden, const Tiles& tiles,
                                                 const Fetch& fetch_keys, float (&o)[kHead / 2],
                                                 float (&inverse)[2], float (&logs)[2]) {
    const float to_log2 = Scores::kActive ? kLog2E : shape.scale * kLog2E;
    ScoreBlocks<Scores, kTileKeys / 2> score_blocks(shape, scores, batch, rows);
    OnlineSoftmax softmax;
    barrier_wait(&tiles.barriers->queries, 0);
    find_rest(tiles.q, tiles.q_rest);
    barrier_wait(&tiles.barriers->keys, 0);
    find_rest(tiles.k, tiles.k_rest);
    stores_fence();
    __syncthreads();
    u32 parity = 0;
    for (int i = end - 1; i >= hidden; --i, parity ^= 1) {
      float s[kTileKeys / 2];
      multiply_keys(s, tiles);
      barrier_wait(&tiles.barriers->values, parity);
      turn(tiles);
      stores_fence();
      wgmma_wait<0>();
      pin(s);
      __syncthreads();  // all have used the keys and turned their values
      if (threadIdx.x == 0 && i > hidden) fetch_keys(i - 1);
      score_blocks.template prepare<kCausal>(s, i * kTileKeys);
      float factor[2], part[kHead / 2];
      softmax.step(s, to_log2, factor);
      score_blocks.change_weights(s, i * kTileKeys);
      u32 weights[kTileKeys / 8][4], rests[kTileKeys / 8][4];
      split_weights(s, weights, rests);
      weigh_values(part, weights, rests, tiles);
      if (i > hidden) {
        barrier_wait(&tiles.barriers->keys, parity ^ 1);
        find_rest(tiles.k, tiles.k_rest);
        stores_fence();
      }
      wgmma_wait<0>();
      pin(part);
#pragma unroll
      for (int j = 0; j < kHead / 2; ++j) o[j] = fmaf(o[j], factor[j / 2 % 2], part[j]);
      __syncthreads();  // all have used the values and found the rest of their keys
    }
    softmax.finish(to_log2, inverse, logs);
  }

  // What a tile's tf32 miss, at the same places.
  static __device__ __forceinline__ void find_rest(const u8* tile, u8* rest) {
    write_rests<kThreads, kBytes, 8>(tile, rest, threadIdx.x);
  }

  // Values as lines of keys, in the order of split_weights(). A warp reads whole lines of 32
  // values, and writes chunks of 16 bytes, four keys, that are in different banks.
  static __device__ __forceinline__ void turn(const Tiles& tiles) {
    constexpr int kAtOnce = 4;
    constexpr int kChunks = kTileKeys / 4;
    constexpr int kOfWarp = kBoxes * kChunks / (kThreads / 32);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int begin = 0; begin < kOfWarp; begin += kAtOnce) {
      const int box = begin * 4 / kChunks;
      u32 x[kAtOnce][4];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int chunk = ((begin + i) * 4 + warp) % kChunks;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const int key = chunk / 2 * 8 + w * 2 + chunk % 2;
          const int place = ((lane / 4 ^ key % 8) << 4) + lane % 4 * 4;
          x[i][w] = *reinterpret_cast<const u32*>(tiles.v + box * kBox + key * 128 + place);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int chunk = ((begin + i) * 4 + warp) % kChunks;
        const u32 to =
            chunk / 8 * kTurnedBox + (box * 32 + lane) * 128 + ((chunk % 8 ^ lane % 8) << 4);
        *reinterpret_cast<uint4*>(tiles.turned + to) = {x[i][0], x[i][1], x[i][2], x[i][3]};
        *reinterpret_cast<uint4*>(tiles.turned_rest + to) = {rest_of(x[i][0]), rest_of(x[i][1]),
                                                             rest_of(x[i][2]), rest_of(x[i][3])};
      }
    }
  }

  // s = q k^T.
  static __device__ __forceinline__ void multiply_keys(float (&s)[kTileKeys / 2],
                                                       const Tiles& tiles) {
    pin(s);
    wgmma_begin();
    add_keys(s, wgmma_operand(tiles.q_rest, 0), wgmma_operand(tiles.k, 0), false);
    add_keys(s, wgmma_operand(tiles.q, 0), wgmma_operand(tiles.k_rest, 0), true);
    add_keys(s, wgmma_operand(tiles.q, 0), wgmma_operand(tiles.k, 0), true);
    wgmma_commit();
    pin(s);
  }
  static __device__ __forceinline__ void add_keys(float (&s)[kTileKeys / 2], u64 q, u64 k,
                                                  bool keep) {
#pragma unroll
    for (int d = 0; d < kHead / 8; ++d) {
      const u32 at = d / 4 * (kBox >> 4) + d % 4 * (32 >> 4);
      Wgmma<kTileKeys>::template shared<false, false>(s, q + at, k + at, keep || d > 0, f32{});
    }
  }

  // As operands of eight keys each. A sum does not depend on its order: a lane's two keys,
  // neighbours, are numbers lane % 4 and four after it of the eight.
  static __device__ __forceinline__ void split_weights(const float (&s)[kTileKeys / 2],
                                                       u32 (&weights)[kTileKeys / 8][4],
                                                       u32 (&rests)[kTileKeys / 8][4]) {
#pragma unroll
    for (int i = 0; i < kTileKeys / 8; ++i) {
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        weights[i][x] = __float_as_uint(s[4 * i + x / 2 + x % 2 * 2]);
        rests[i][x] = rest_of(weights[i][x]);
      }
    }
  }

  // part = weights v.
  static __device__ __forceinline__ void weigh_values(float (&part)[kHead / 2],
                                                      const u32 (&weights)[kTileKeys / 8][4],
                                                      const u32 (&rests)[kTileKeys / 8][4],
                                                      const Tiles& tiles) {
    pin(part);
    wgmma_begin();
    add_values(part, rests, wgmma_operand(tiles.turned, 0), false);
    add_values(part, weights, wgmma_operand(tiles.turned_rest, 0), true);
    add_values(part, weights, wgmma_operand(tiles.turned, 0), true);
    wgmma_commit();
    pin(part);
  }
  static __device__ __forceinline__ void add_values(float (&part)[kHead / 2],
                                                    const u32 (&weights)[kTileKeys / 8][4], u64 v,
                                                    bool keep) {
#pragma unroll
    for (int i = 0; i < kTileKeys / 8; ++i) {
      const u32 at = i / 4 * (kTurnedBox >> 4) + i % 4 * (32 >> 4);
      Wgmma<kHead>::template registers<false>(part, weights[i], v + at, keep || i > 0, f32{});
    }
  }
};
