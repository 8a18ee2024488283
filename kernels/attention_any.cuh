// Attention (attention.cuh) without tensor cores, for what the other kernels do not take: any type,
// any head size that fits on chip, values of another size than keys, any order of the operands'
// elements. Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh and
// attention.cuh before it.
//
// Acc is the type of all that is computed. Operands is a struct that the generator writes, whose
// `matrix` counts heads over all batches, key heads for k and v:
//   __device__ Acc q(int matrix, int line, int k) const;
//   __device__ Acc k(int matrix, int line, int k) const;
//   __device__ Acc v(int matrix, int line, int k) const;
// Scores is that of attention.cuh, of Acc, except that its weight() need not be proportional to the
// weight: if
//   static constexpr bool kInProportion
// is false, it is given the final weight. Launch: kThreads threads, kSharedBytes of dynamic
// shared memory, a block for each kTile queries of each head.
//
// Traffic: as for sm_80. If final weights are needed, there is a second pass over the keys, which
// then come from the L2.

template <typename Acc, int kTile, int kSize, int kValueSize, bool kCausal, class Operands,
          class Scores, class Epilogue>
struct AttentionAny {
  static constexpr int kTileRows = kTile, kTileKeys = kTile;
  static constexpr int kEach = 4;  // queries, and keys, of a thread
  static constexpr int kAcross = kTile / kEach;
  static constexpr int kThreads = kAcross * kAcross;
  static constexpr int kColumns = (kValueSize + kAcross - 1) / kAcross;
  // A line's first elements of neighbouring lines are in different banks.
  static constexpr int kPitch = kSize | 1, kValuePitch = kValueSize | 1, kWeightPitch = kTile | 1;
  static constexpr int kSharedBytes =
      kTile * (2 * kPitch + kValuePitch + kWeightPitch) * sizeof(Acc);

  static constexpr bool kTwoPasses = Scores::kWeighs && !Scores::kInProportion;

  struct Row {
    Acc most, sum;
  };

  static __device__ __forceinline__ void run(const AttentionShape& shape, Acc scale,
                                             const Operands& operands, const Scores& scores,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(16) u8 shared[];
    Acc* const q = reinterpret_cast<Acc*>(shared);
    Acc* const k = q + kTile * kPitch;
    Acc* const v = k + kTile * kPitch;
    Acc* const p = v + kTile * kValuePitch;
    const int tiles = (shape.queries + kTile - 1) / kTile;
    const int query0 = (int)(blockIdx.x % tiles) * kTile, matrix = blockIdx.x / tiles;
    const int batch = matrix / shape.heads, head = matrix % shape.heads;
    const int key_matrix = batch * shape.key_heads + head / (shape.heads / shape.key_heads);
    const int last_query = min(query0 + kTile, shape.queries) - 1;
    const int key_tiles = key_blocks<kCausal, kTile>(shape, last_query);
    const int x = threadIdx.x % kAcross, y = threadIdx.x / kAcross;

    fetch<kSize, kPitch>(q, query0, shape.queries,
                         [&](int line, int d) { return operands.q(matrix, line, d); });
    Row rows[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) rows[i] = {(Acc)lowest(), Acc(0)};
    Acc o[kEach][kColumns] = {};
    for (int pass = kTwoPasses ? 0 : 1; pass < 2; ++pass) {
      for (int tile = hidden_blocks<kCausal, kTile>(shape, query0); tile < key_tiles; ++tile) {
        const int key0 = tile * kTile;
        __syncthreads();  // all have read the previous keys and values
        fetch<kSize, kPitch>(k, key0, shape.keys,
                             [&](int line, int d) { return operands.k(key_matrix, line, d); });
        if (pass == 1) {
          fetch<kValueSize, kValuePitch>(v, key0, shape.keys, [&](int line, int d) {
            return operands.v(key_matrix, line, d);
          });
        }
        __syncthreads();
        Acc s[kEach][kEach] = {};
        for (int d = 0; d < kSize; ++d) {
          Acc a[kEach], b[kEach];
#pragma unroll
          for (int i = 0; i < kEach; ++i) a[i] = q[(y + i * kAcross) * kPitch + d];
#pragma unroll
          for (int j = 0; j < kEach; ++j) b[j] = k[(x + j * kAcross) * kPitch + d];
#pragma unroll
          for (int i = 0; i < kEach; ++i) {
#pragma unroll
            for (int j = 0; j < kEach; ++j) s[i][j] += a[i] * b[j];
          }
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const int query = query0 + y + i * kAcross;
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            const int key = key0 + x + j * kAcross;
            const int last = query + shape.diagonal;
            const bool hidden = query >= shape.queries || key >= shape.keys ||
                                (kCausal && (key > last || key + shape.window <= last));
            Acc score = s[i][j] * scale;
            if constexpr (Scores::kActive) {
              Acc changed[1] = {score};
              if (!hidden) scores.template operator()<1>(batch, head, query, key)(changed);
              score = changed[0];
            }
            s[i][j] = hidden ? (Acc)lowest() : score;
          }
          if (pass == 0 || !kTwoPasses) {
            const Acc factor = take_in(rows[i], s[i]);
#pragma unroll
            for (int c = 0; c < kColumns; ++c) o[i][c] *= factor;
          } else {
            weigh(rows[i], s[i]);
          }
#pragma unroll
          for (int j = 0; j < kEach; ++j) {
            const int key = key0 + x + j * kAcross;
            if constexpr (Scores::kWeighs) {
              const bool inside = query < shape.queries && key < shape.keys;
              Acc changed[1] = {s[i][j]};
              if (inside) scores.template weight<1>(batch, head, query, key)(changed);
              s[i][j] = changed[0];
            }
            p[(y + i * kAcross) * kWeightPitch + x + j * kAcross] = s[i][j];
          }
        }
        if (pass == 0) continue;
        __syncthreads();
        for (int key = 0; key < kTile; ++key) {
          Acc w[kEach];
#pragma unroll
          for (int i = 0; i < kEach; ++i) w[i] = p[(y + i * kAcross) * kWeightPitch + key];
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            const int d = x + c * kAcross;
            const Acc value = d < kValueSize ? v[key * kValuePitch + d] : Acc(0);
#pragma unroll
            for (int i = 0; i < kEach; ++i) o[i][c] += w[i] * value;
          }
        }
      }
    }
    // Staged in the values' shared memory, so that each thread gets eight neighbours of a row.
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const Acc factor = kTwoPasses ? Acc(1) : inverse(rows[i].sum);
      if constexpr (Epilogue::kSums) {
        const int query = query0 + y + i * kAcross;
        const Row& row = rows[i];
        if (x == 0 && query < shape.queries) {
          epilogue.row_sum(batch, head, (i64)query,
                           row.sum == Acc(0) ? row.most : row.most + log(row.sum));
        }
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int d = x + c * kAcross;
        if (d < kValueSize) v[(y + i * kAcross) * kValuePitch + d] = o[i][c] * factor;
      }
    }
    __syncthreads();
    constexpr int kGroups = (kValueSize + 7) / 8;
    for (int i = threadIdx.x; i < kTile * kGroups; i += kThreads) {
      const int line = i / kGroups, column = i % kGroups * 8;
      const int valid = min(8, kValueSize - column);
      if (query0 + line >= shape.queries) break;
      Acc row[8] = {};
      for (int c = 0; c < valid; ++c) row[c] = v[line * kValuePitch + column + c];
      epilogue(batch, head, (i64)(query0 + line), (i64)column, row, valid);
    }
  }

  // Lines of one operand; beyond the last they are 0.
  template <int kLength, int kLinePitch, class Element>
  static __device__ __forceinline__ void fetch(Acc* to, int first, int lines, Element element) {
    for (int i = threadIdx.x; i < kTile * kLength; i += kThreads) {
      const int line = i / kLength, d = i % kLength;
      to[line * kLinePitch + d] = first + line < lines ? element(first + line, d) : Acc(0);
    }
  }

  static __device__ __forceinline__ Acc over_row(Acc value, bool largest) {
#pragma unroll
    for (int apart = 1; apart < kAcross; apart *= 2) {
      const Acc other = __shfl_xor_sync(0xffffffffu, value, apart);
      value = !largest ? value + other : other > value ? other : value;
    }
    return value;
  }

  // If the maximum is -infinity, any finite base is right: every exponential is 0.
  static __device__ __forceinline__ Acc base_of(Acc most) {
    return most == (Acc)lowest() ? Acc(0) : most;
  }
  static __device__ __forceinline__ Acc inverse(Acc sum) {
    return sum > Acc(0) || sum != sum ? Acc(1) / sum : Acc(0);
  }

  // Turns scores into exp(score - largest so far); returns what sums from before are to be
  // multiplied by.
  static __device__ __forceinline__ Acc take_in(Row& row, Acc (&s)[kEach]) {
    Acc now = row.most;
#pragma unroll
    for (int j = 0; j < kEach; ++j) now = s[j] > now ? s[j] : now;
    now = over_row(now, true);
    const Acc base = base_of(now);
    const Acc factor = exp(row.most - base);
    Acc total = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      s[j] = exp(s[j] - base);
      total += s[j];
    }
    row = {now, row.sum * factor + over_row(total, false)};
    return factor;
  }

  // The same for a row whose maximum and sum are final.
  static __device__ __forceinline__ void weigh(const Row& row, Acc (&s)[kEach]) {
    const Acc base = base_of(row.most), factor = inverse(row.sum);
#pragma unroll
    for (int j = 0; j < kEach; ++j) s[j] = exp(s[j] - base) * factor;
  }
};
