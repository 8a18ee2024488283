// Attention (attention.cuh) for sm_80 and everything after it, made for head sizes 32, 64, 96, 128,
// 192 and 256, in f32 up to 128. Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh,
// epilogue.cuh, attention.cuh and mma.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(AttentionSm80<...>::kThreads)
//       name(const Element* q, const Element* k, const Element* v, ...) {
//     AttentionSm80<Element, kHead, kCausal, Scores, Epilogue>::run(q, k, v, shape, strides,
//                                                                   Scores{...}, Epilogue{...});
//   }
// Element: bf16, f16 or f32. Launch: kThreads threads, kSharedBytes of dynamic shared memory, grid
// {ceil(queries / kTileRows), heads, batches}. Rows are multiples of 16 bytes apart and begin at
// one.
//
// Traffic: as for sm_90. A block's values are loaded while it multiplies by the keys, and its next
// keys while it multiplies by the values: one buffer each is enough.

// In elements.
struct AttentionStrides {
  i64 q_row, q_head, q_batch;
  i64 k_row, k_head, k_batch;
  i64 v_row, v_head, v_batch;
};

// Where the rows of an operand lie: from `first` on, at constant distances, in elements.
template <typename Element>
struct OperandRows {
  const Element* first;
  i64 row, head, batch;

  // Those of one head.
  __device__ __forceinline__ OperandRows of(int in_batch, int in_head) const {
    return {first + in_batch * batch + in_head * head, row, head, batch};
  }
  // The same rows, for a tile of kRows from `from` on.
  template <int kRows>
  __device__ __forceinline__ OperandRows tile(int from) const {
    return *this;
  }
  __device__ __forceinline__ const Element* at(int line) const { return first + line * row; }
};

// What an operand's elements are multiplied as.
template <typename Element>
struct AttentionProduct {
  typedef Element Type;
};
template <>
struct AttentionProduct<f32> {
  typedef exact_f32 Type;
};

// A tile of a kernel's operand in shared memory, kHead elements a line, and its products.
template <typename Element, int kHead>
struct AttentionTile {
  typedef typename AttentionProduct<Element>::Type Product;
  static constexpr int kLineBytes = kHead * (int)sizeof(Element);
  static constexpr int kOfChunk = 16 / (int)sizeof(Element);  // elements
  static constexpr int kSteps = kLineBytes / 32;              // of a product over a line
  static constexpr bool kWords = sizeof(Element) == 4;
  static constexpr int kAtOnce = 8;  // sums of 32-bit elements' products that are interleaved

  // The offset of 16-byte chunk `chunk` of a line: eight lines' equal chunks never share a bank,
  // nor do four lines' pairs of chunks, each of every second line.
  static __device__ __forceinline__ int place(int line, int chunk) {
    const int swap = kLineBytes % 128 == 0 ? line & 7 : (line >> 1) & 3;
    return line * kLineBytes + ((chunk ^ swap) << 4);
  }

  // Lines from line0 on, of so many lines of `size` elements: the rest is 0. No line beyond the
  // last is looked up.
  template <int kLines, int kThreads, class Rows>
  static __device__ __forceinline__ void fetch(u8* to, const Rows& rows, int line0, int lines,
                                               int size) {
    constexpr int kChunks = kHead / kOfChunk;
#pragma unroll 8
    for (int i = 0; i < kLines * kChunks / kThreads; ++i) {
      const int piece = threadIdx.x + i * kThreads;
      const int line = piece / kChunks, chunk = piece % kChunks;
      const bool inside = line0 + line < lines && chunk * kOfChunk < size;
      copy_async<16>(to + place(line, chunk),
                     inside ? rows.at(line0 + line) + chunk * kOfChunk : rows.first,
                     inside ? 16 : 0);
    }
  }

  // Adds the products of 16 queries with kCount * 2 keys; load(d, a) loads the operand of step d.
  template <int kCount, class Load>
  static __device__ __forceinline__ void multiply_keys(float (&s)[kCount], const Load& load,
                                                       const u8* keys) {
    constexpr int kPairs = kWords ? kCount / 8 : 1;  // of groups of eight keys, at once
    constexpr int kDeep = kWords && kPairs < kAtOnce / 2 ? kAtOnce / 2 / kPairs : 1;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int d = 0; d < kSteps; d += kDeep) {
      u32 a[kDeep][4];
#pragma unroll
      for (int i = 0; i < kDeep; ++i) load(d + i, a[i]);
#pragma unroll
      for (int j = 0; j < kCount / 8; j += kPairs) {
        u32 b[kDeep][kPairs][4];
#pragma unroll
        for (int i = 0; i < kDeep * kPairs; ++i) {
          const int line = (j + i % kPairs) * 16 + lane % 8 + lane / 16 * 8;
          const int chunk = (d + i / kPairs) * 2 + lane / 8 % 2;
          load_matrices(keys + place(line, chunk), b[i / kPairs][i % kPairs]);
        }
        multiply_all<2 * kPairs>(
            [&](int, int x) -> float(&)[4] { return group(s, 2 * j + x); }, a,
            [&](int i, int x, int word) { return b[i][x / 2][x % 2 * 2 + word]; }, Product{});
      }
    }
  }

  // Turns the scores of kCount * 2 keys, from `key` on, into weights; the sums of values so far
  // become relative to the largest score.
  template <bool kCausal, class Blocks, int kCount>
  static __device__ __forceinline__ void weigh_scores(Blocks& blocks, OnlineSoftmax& softmax,
                                                      float to_log2, int key, float (&s)[kCount],
                                                      float (&o)[kHead / 2]) {
    blocks.template prepare<kCausal>(s, key);
    float factor[2];
    softmax.step(s, to_log2, factor);
    blocks.change_weights(s, key);
#pragma unroll
    for (int j = 0; j < kHead / 2; ++j) o[j] *= factor[j / 2 % 2];
  }

  // Adds the products of 16 queries' weights with the values of kCount * 2 keys.
  template <int kCount>
  static __device__ __forceinline__ void weigh_values(float (&o)[kHead / 2],
                                                      const float (&weights)[kCount],
                                                      const u8* values) {
    if constexpr (kWords) {
      weigh_words(o, weights, values);
    } else {
      weigh_pairs(o, weights, values);
    }
  }

  // 16 keys a step. Neighbouring weights are one operand.
  template <int kCount>
  static __device__ __forceinline__ void weigh_pairs(float (&o)[kHead / 2],
                                                     const float (&weights)[kCount],
                                                     const u8* values) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < kCount / 8; ++j) {
      u32 a[4];
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        a[x] = pack_pair(weights[8 * j + 2 * x], weights[8 * j + 2 * x + 1], Element{});
      }
#pragma unroll
      for (int d = 0; d < kHead / 16; ++d) {
        u32 b[4];
        load_matrices_transposed(
            values + place(j * 16 + lane % 8 + lane / 8 % 2 * 8, d * 2 + lane / 16), b);
        multiply(group(o, 2 * d), a, b[0], b[1], Product{});
        multiply(group(o, 2 * d + 1), a, b[2], b[3], Product{});
      }
    }
  }

  // 8 keys a step. A sum does not depend on its order: a lane's two keys, neighbours, are numbers
  // lane % 4 and four after it of the step.
  template <int kCount>
  static __device__ __forceinline__ void weigh_words(float (&o)[kHead / 2],
                                                     const float (&weights)[kCount],
                                                     const u8* values) {
    constexpr int kWide = kHead / 8 % kAtOnce == 0 ? kAtOnce : kAtOnce / 2;  // groups of a line
    constexpr int kDeep = kAtOnce / kWide;
    const int lane = threadIdx.x % 32;
    const u8* const from = values + lane / 4 % 4 * 4;
#pragma unroll
    for (int j = 0; j < kCount / 4; j += kDeep) {
      u32 a[kDeep][4];
#pragma unroll
      for (int i = 0; i < kDeep; ++i) {
        const float* const w = weights + 4 * (j + i);
        a[i][0] = __float_as_uint(w[0]), a[i][1] = __float_as_uint(w[2]);
        a[i][2] = __float_as_uint(w[1]), a[i][3] = __float_as_uint(w[3]);
      }
#pragma unroll
      for (int d = 0; d < kHead / 8; d += kWide) {
        u32 b[kAtOnce][2];
#pragma unroll
        for (int i = 0; i < 2 * kAtOnce; ++i) {
          const int key = (j + i / (2 * kWide)) * 8 + lane % 4 * 2 + i % 2;
          const int chunk = (d + i / 2 % kWide) * 2 + lane / 16;
          b[i / 2][i % 2] = *reinterpret_cast<const u32*>(from + place(key, chunk));
        }
        multiply_all<kWide>([&](int, int x) -> float(&)[4] { return group(o, d + x); }, a,
                            [&](int i, int x, int word) { return b[i * kWide + x][word]; },
                            Product{});
      }
    }
  }

  template <int kCount>
  static __device__ __forceinline__ float (&group(float (&x)[kCount], int i))[4] {
    return *reinterpret_cast<float(*)[4]>(&x[4 * i]);
  }
};

template <typename Element, int kHead, bool kCausal, class Scores, class Epilogue>
struct AttentionSm80 {
  typedef AttentionTile<Element, kHead> Tile;
  static constexpr bool kLarge = kHead <= 128 && !Tile::kWords;
  static constexpr int kWarps = kLarge ? 8 : 4;
  static constexpr int kTileRows = 16 * kWarps;
  static constexpr int kTileKeys = kLarge ? 64 : 32;  // limited by registers
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kSharedBytes = (kTileRows + 2 * kTileKeys) * Tile::kLineBytes;

  template <int kLines>
  static __device__ __forceinline__ void fetch(u8* to, const Element* from, i64 stride, int line0,
                                               int lines, int size) {
    Tile::template fetch<kLines, kThreads>(to, OperandRows<Element>{from, stride, 0, 0}, line0,
                                           lines, size);
    copies_commit();
  }

  static __device__ __forceinline__ void run(const Element* q, const Element* k, const Element* v,
                                             const AttentionShape& shape,
                                             const AttentionStrides& strides, const Scores& scores,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(128) u8 shared[];
    u8* const tile_q = shared;
    u8* const tile_k = tile_q + kTileRows * Tile::kLineBytes;
    u8* const tile_v = tile_k + kTileKeys * Tile::kLineBytes;
    const int block = kCausal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const int query = block * kTileRows, head = blockIdx.y, batch = blockIdx.z;
    const int key_head = head / (shape.heads / shape.key_heads);
    q += batch * strides.q_batch + head * strides.q_head;
    k += batch * strides.k_batch + key_head * strides.k_head;
    v += batch * strides.v_batch + key_head * strides.v_head;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const ScoreRows rows = ScoreRows::of(head, query + warp * 16);
    const int blocks =
        key_blocks<kCausal, kTileKeys>(shape, min(query + kTileRows, shape.queries) - 1);
    const int hidden = hidden_blocks<kCausal, kTileKeys>(shape, query);
    const float to_log2 = Scores::kActive ? kLog2E : shape.scale * kLog2E;

    fetch<kTileRows>(tile_q, q, strides.q_row, query, shape.queries, shape.size);
    if (blocks > 0)
      fetch<kTileKeys>(tile_k, k, strides.k_row, (blocks - 1) * kTileKeys, shape.keys, shape.size);
    ScoreBlocks<Scores, kTileKeys / 2> score_blocks(shape, scores, batch, rows);
    OnlineSoftmax softmax;
    float o[kHead / 2] = {};
    for (int i = blocks - 1; i >= hidden; --i) {
      const int key = i * kTileKeys;
      copies_wait<0>();
      __syncthreads();  // the keys have arrived, and all have read the previous values
      fetch<kTileKeys>(tile_v, v, strides.v_row, key, shape.keys, shape.value_size);
      float s[kTileKeys / 2] = {};
      const auto load = [&](int d, u32(&a)[4]) {
        load_matrices(tile_q + Tile::place(warp * 16 + lane % 16, d * 2 + lane / 16), a);
      };
      Tile::multiply_keys(s, load, tile_k);
      Tile::template weigh_scores<kCausal>(score_blocks, softmax, to_log2, key, s, o);
      copies_wait<0>();
      __syncthreads();  // the values have arrived, and all have read the keys
      if (i > hidden)
        fetch<kTileKeys>(tile_k, k, strides.k_row, key - kTileKeys, shape.keys, shape.size);
      Tile::weigh_values(o, s, tile_v);
    }
    copies_wait<0>();
    float inverse[2], logs[2];
    softmax.finish(to_log2, inverse, logs);
    store_sums(shape, epilogue, batch, head, rows.first, logs);
    store_rows<kHead>(shape, epilogue, batch, head, rows.first, o, inverse);
  }
};
