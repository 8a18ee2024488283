// C[m][n] = sum over k of A B, batched, for sm_90a, where what follows needs whole rows of C:
// softmax or layer_norm of a product's rows. Needs elements.cuh, quick.cuh, accumulators.cuh,
// columns.cuh, epilogue.cuh, tile_walk.cuh, hopper.cuh and stages.cuh before it.
//
// An Epilogue is a struct that the generator writes:
//   typedef ExponentialSum Rows;  // or Largest, Sum, SquareSum, Moments: reduces along a row
//   template <class Valid>
//   __device__ void first(int batch, i64 row, i64 column, float (&v)[8], float (&taken)[8],
//                         Valid valid) const;
//       like operator() of epilogue.cuh, which may take an operand loaded ahead; leaves in v what
//       second() receives, and what Rows reduces in taken
//   template <class Valid>
//   __device__ void second(int batch, i64 row, i64 column, float (&v)[8], Valid valid,
//                          Rows::State all) const;
//       given the state of the whole row; stores the outputs
// An entry is
//   extern "C" __global__ void __launch_bounds__(ContractRowsSm90<...>::kThreads, 1)
//       __cluster_dims__(kCluster * kAbove, 1, 1)
//       name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ...) {
//     ContractRowsSm90<Element, kTileN, kCluster, kAlongM, kLinesOfB, Epilogue, kAbove>::run(
//         a, b, shape, Epilogue{...});
//   }
// Element, kAlongM, kLinesOfB and the maps are those of contract_sm90, but that B's has boxes of
// kTileN / kAbove lines where it lies kAlong. As many clusters are launched as run at once, at most
// those of work. kTileN: 256, 192 or 128; kCluster: 1 to 8, so that kTileN * kCluster is at least
// n. Clusters of work: a batch's tiles of 128 * kAbove rows, times the batches.
//
// Traffic: of a cluster's blocks, kCluster are adjacent along n and hold 128 whole rows in their
// registers; kAbove times as many lie above each other. The former share the rows of A, which one
// of them fetches for all, another at each step, and the latter B, of which each fetches a part:
// what a block gets from the L2 bounds it, about 36 bytes a cycle. What they exchange about a row
// is a few floats, straight into each other's shared memory. C never leaves the multiprocessors.

template <typename Element, int kTileN, int kCluster, bool kAlongM, LinesOfB kLinesOfB,
          class Epilogue, int kAbove = 1>
struct ContractRowsSm90 {
  static constexpr int kTileRows = 128, kTileColumns = kTileN;
  static constexpr int kBlocksPerCluster = kCluster * kAbove;
  typedef OperandTile<Element, kTileRows, kAlongM> TileA;
  typedef typename TileOfB<Element, kTileN, kLinesOfB>::Type TileB;
  static constexpr bool kInOrder = kLinesOfB == LinesOfB::kInOrder;
  static constexpr int kTileDepth = TileA::kDepth;
  static constexpr int kConsumers = 2;           // warpgroups, of 64 rows each
  static constexpr int kWarps = 4 * kConsumers;  // that multiply
  static constexpr int kThreads = 128 * (kConsumers + 1);
  static constexpr int kStages = kTileN == 256 ? 4 : kTileN == 192 ? 5 : 6;
  typedef Stages<kStages> Ring;
  static constexpr u32 kStageBytes = TileA::kBytes + TileB::kBytes;
  typedef typename Epilogue::Rows Rows;
  typedef typename Rows::State State;
  static constexpr int kParts = Rows::kParts;
  // An operand that is as large as C is loaded beside the last kTail steps, 32 columns at a time.
  typedef AheadIn<Epilogue> Ahead;
  static constexpr int kTail = Ahead::kHere ? kTileN / 32 : 0;
  typedef typename Ahead::Type Operands[kTail > 0 ? kTail : 1][2];  // of a lane's two rows
  // States of every row by every block, for alternating tiles.
  static constexpr u32 kExchangeBytes = 2 * kCluster * kTileRows * sizeof(State);
  static constexpr u32 kSharedBytes = kStages * kStageBytes + kExchangeBytes + 256;

  struct Barriers {
    Ring ring;
    u64 exchange[2][kWarps];
  };

  static __device__ __forceinline__ void run(const TensorMap& a, const TensorMap& b,
                                             const ContractShape& shape, const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    State* const exchange = reinterpret_cast<State*>(shared + kStages * kStageBytes);
    Barriers& barriers =
        *reinterpret_cast<Barriers*>(shared + kStages * kStageBytes + kExchangeBytes);
    const u32 block = kBlocksPerCluster > 1 ? cluster_rank() : 0;
    const u32 rank = block % kCluster;
    const int above = block / kCluster;
    if (threadIdx.x == 0) {
      barriers.ring.init(kConsumers * kBlocksPerCluster);  // all blocks have read it
      for (int i = 0; i < 2 * kWarps; ++i) {
        barrier_init(&barriers.exchange[i / kWarps][i % kWarps], 1);
      }
      barrier_init_done();
    }
    if constexpr (kBlocksPerCluster > 1)
      cluster_sync();
    else
      __syncthreads();
    const int units = (shape.m + kTileRows * kAbove - 1) / (kTileRows * kAbove);
    const int tiles = units * shape.inner * shape.outer;
    const int steps = (shape.k + kTileDepth - 1) / kTileDepth;
    if (threadIdx.x < 128) {
      shrink_registers<40>();
      Ring& ring = barriers.ring;
      if (threadIdx.x == 0) produce<true>(a, shape, units, tiles, steps, rank, above, shared, ring);
      if (threadIdx.x == 32)
        produce<false>(b, shape, units, tiles, steps, rank, above, shared, ring);
    } else {
      grow_registers<232>();
      consume(shape, units, tiles, steps, rank, above, shared, exchange, barriers, epilogue);
    }
    if constexpr (kBlocksPerCluster > 1) {
      __syncwarp();
      cluster_sync();
    }
  }

  // All of an operand's boxes. A's also announces the bytes of both, whichever come first.
  template <bool kOfA>
  static __device__ __forceinline__ void produce(const TensorMap& map, const ContractShape& shape,
                                                 int units, int tiles, int steps, u32 rank,
                                                 int above, u8* stages, Ring& ring) {
    typedef typename TileOfB<Element, kTileN / kAbove, kLinesOfB>::Type ShareOfB;
    auto at = Ring::to_fill();
    for (int tile = blockIdx.x / kBlocksPerCluster; tile < tiles;
         tile += gridDim.x / kBlocksPerCluster) {
      const int batch = tile / units;
      const int outer = batch / shape.inner, inner = batch % shape.inner;
      const int c2 = inner * (kOfA ? shape.a_inner : shape.b_inner);
      const int c3 = outer * (kOfA ? shape.a_outer : shape.b_outer);
      const int line = kOfA ? (tile % units * kAbove + above) * kTileRows
                            : (int)rank * kTileN + above * (kTileN / kAbove);
      for (int step = 0; step < steps; ++step, at.next()) {
        const int k = step * kTileDepth;
        u8* const to = stages + at.stage * kStageBytes;
        u64* const full = ring.wait_empty(at);
        if constexpr (kOfA) {
          barrier_expect(full, kStageBytes);
          if (step % kCluster == (int)rank) {
            TileA::template fetch<kCluster>(to, map, full, line, k, c2, c3, kEvictNormal,
                                            kAbove > 1 ? above * kCluster : 0);
          }
        } else {
          ShareOfB::template fetch<kAbove, kCluster>(to + TileA::kBytes + above * ShareOfB::kBytes,
                                                     map, full, line, k, c2, c3, kEvictNormal,
                                                     rank);
        }
      }
    }
  }

  static __device__ __forceinline__ void consume(const ContractShape& shape, int units, int tiles,
                                                 int steps, u32 rank, int above, u8* stages,
                                                 State* exchange, Barriers& barriers,
                                                 const Epilogue& epilogue) {
    const int consumer = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
    const u64 a0 = wgmma_operand(stages + consumer * TileA::kBox, TileA::kBox);
    const u64 b0 = wgmma_operand(stages + TileA::kBytes, TileB::kBox);
    Ring& ring = barriers.ring;
    auto at = Ring::to_read();
    int turn = 0;
    for (int tile = blockIdx.x / kBlocksPerCluster; tile < tiles;
         tile += gridDim.x / kBlocksPerCluster, ++turn) {
      float sums[1][kTileN / 2];
      float(&acc)[kTileN / 2] = sums[0];
      const Piece piece{
          tile / units,
          (tile % units * kAbove + above) * kTileRows + consumer * 64 + thread / 32 * 16,
          (int)rank * kTileN, shape.m, shape.n};
      int before = 0;
      const auto advance = [&](int step) {
        ring.wait_full(at);
        const u32 offset = (u32)at.stage * (kStageBytes >> 4);
        multiply_stage<TileA, TileB>(sums, a0 + offset, b0 + offset, step > 0);
      };
      const auto retire = [&](int step) {
        wgmma_wait<1>();
        if (step > 0) release(ring, before, thread);
        before = at.stage;
        at.next();
      };
      int step = 0;
      for (; step < steps - kTail; ++step) {
        advance(step);
        retire(step);
      }
      Operands operands;
#pragma unroll
      for (int group = 0; group < kTail; ++group) {
        if (step < steps) advance(step);
        if constexpr (kTail > 0) load_group_ahead(epilogue, piece, group, operands[group]);
        if (step < steps) retire(step), ++step;
      }
      wgmma_wait<0>();
      pin(acc);
      release(ring, before, thread);
      finish(piece, turn, consumer, rank, above, acc, operands,
             exchange + turn % 2 * kCluster * kTileRows,
             &barriers.exchange[turn % 2][consumer * 4 + thread / 32], epilogue);
    }
  }

  // One thread for each block that copies into this stage.
  static __device__ __forceinline__ void release(Ring& ring, int stage, int thread) {
    if constexpr (kBlocksPerCluster > 1) {
      if (thread < kBlocksPerCluster) barrier_arrive_at(&ring.empty[stage], thread);
    } else {
      if (thread == 0) barrier_arrive(&ring.empty[stage]);
    }
  }

  static __device__ __forceinline__ void finish(const Piece& piece, int turn, int consumer,
                                                u32 rank, int above, float (&acc)[kTileN / 2],
                                                const Operands& operands, State* exchange,
                                                u64* barrier, const Epilogue& epilogue) {
    const bool whole = piece.row + 16 <= piece.rows && piece.column + kTileN <= piece.columns;
    State rows[2] = {Rows::none(), Rows::none()};
    if (whole)
      pass_first<Eight>(epilogue, piece, acc, operands, rows);
    else
      pass_first<int>(epilogue, piece, acc, operands, rows);
    // The warps that hold other columns of these rows, one in each block, get this one's states of
    // them. Their next are written to other places, and those after them only once this warp's next
    // have arrived, which it sends after it has used these.
    const int lane = threadIdx.x % 32;
    const int line = consumer * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
    if (kCluster > 1 && lane == 0) barrier_expect(barrier, kCluster * 16 * sizeof(State));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[half] = merge_with_lane<Rows>(merge_with_lane<Rows>(rows[half], 1), 2);
      if constexpr (kCluster > 1) {
        State* const slot = exchange + rank * kTileRows + line + 8 * half;
        for (int to = lane % 4; to < kCluster; to += 4) {
#pragma unroll
          for (int p = 0; p < kParts; ++p) {
            store_async_at(&slot->part[p], barrier, above * kCluster + to, rows[half].part[p]);
          }
        }
      }
    }
    if constexpr (kCluster > 1) {
      barrier_wait(barrier, turn / 2 & 1);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows[half] = exchange[line + 8 * half];
#pragma unroll
        for (int from = 1; from < kCluster; ++from) {
          rows[half] = Rows::merge(rows[half], exchange[from * kTileRows + line + 8 * half]);
        }
      }
    } else {
      __syncwarp();  // keeps the second pass's loads, and their registers, behind the first pass
    }
    if (whole)
      pass_second<Eight>(epilogue, piece, acc, rows);
    else
      pass_second<int>(epilogue, piece, acc, rows);
  }

  // Where the 8 values of a lane's row half are after they became 8 adjacent columns: in place.
  static __device__ __forceinline__ float& value(float (&acc)[kTileN / 2], int group, int half,
                                                 int i) {
    return acc[(group * 4 + i / 2) * 4 + half * 2 + i % 2];
  }

  template <class Valid>
  static __device__ __forceinline__ void run_first(const Epilogue& epilogue, int batch, i64 row,
                                                   i64 column, float (&v)[8], float (&taken)[8],
                                                   Valid valid, const Operands& operands, int group,
                                                   int half) {
    if constexpr (Ahead::kHere) {
      epilogue.first(batch, row, column, v, taken, valid, operands[group][half]);
    } else {
      epilogue.first(batch, row, column, v, taken, valid);
    }
  }

  template <class Valid>
  static __device__ __forceinline__ void pass_first(const Epilogue& epilogue, const Piece& piece,
                                                    float (&acc)[kTileN / 2],
                                                    const Operands& operands, State (&rows)[2]) {
    constexpr bool kWhole = sizeof(Valid) < sizeof(int);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int group = 0; group < kTileN / 32; ++group) {
      const i64 column = (i64)piece.column + lane % 4 * 8 + group * 32;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const i64 row = (i64)piece.row + lane / 4 + 8 * half;
        float v[8], taken[8];
        take_eight<kInOrder>(acc, group, half, v);
        if constexpr (kWhole) {
          run_first(epilogue, piece.batch, row, column, v, taken, Eight{}, operands, group, half);
          rows[half] = Rows::merge(rows[half], Rows::of_row(taken, 8));
        } else {
          const int valid = (int)min((i64)8, piece.columns - column);
          if (row < piece.rows && valid > 0) {
            run_first(epilogue, piece.batch, row, column, v, taken, valid, operands, group, half);
            rows[half] = Rows::merge(rows[half], Rows::of_row(taken, valid));
          }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) value(acc, group, half, i) = v[i];
      }
    }
  }

  template <class Valid>
  static __device__ __forceinline__ void pass_second(const Epilogue& epilogue, const Piece& piece,
                                                     float (&acc)[kTileN / 2],
                                                     const State (&rows)[2]) {
    constexpr bool kWhole = sizeof(Valid) < sizeof(int);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int group = 0; group < kTileN / 32; ++group) {
      const i64 column = (i64)piece.column + lane % 4 * 8 + group * 32;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const i64 row = (i64)piece.row + lane / 4 + 8 * half;
        float v[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = value(acc, group, half, i);
        if constexpr (kWhole) {
          epilogue.second(piece.batch, row, column, v, Eight{}, rows[half]);
        } else {
          const int valid = (int)min((i64)8, piece.columns - column);
          if (row < piece.rows && valid > 0) {
            epilogue.second(piece.batch, row, column, v, valid, rows[half]);
          }
        }
      }
    }
  }
};
