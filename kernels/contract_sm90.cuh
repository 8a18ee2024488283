// C[m][n] = sum over k of A B, batched, for sm_90a, with an epilogue (epilogue.cuh) in place of a
// plain store. Needs elements.cuh, quick.cuh, epilogue.cuh, tile_walk.cuh and
// hopper.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(ContractSm90<...>::kThreads, 1)
//       __cluster_dims__(kCluster, 1, 1)
//       name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ...) {
//     ContractSm90<Element, kTileN, kCluster, kAlongM, kLinesOfB, Epilogue>::run(
//         a, b, shape, Epilogue{...});
//   }
// Element: bf16 or f16. kTileN: 128, 160 (not where B lies across) or 256. kCluster: 2 where a
// batch has more than 128 rows, else 1. kAlongM: A lies as [k][m], its lines along m. Launch:
// kThreads threads, kSharedBytes of dynamic shared memory, and as grid the least of the
// multiprocessors and kCluster * clusters of work, a multiple of kCluster (the blocks are
// persistent; any number works).
//
// Tensor maps, rank 4, fastest first, SWIZZLE_128B, L2 promotion 256 B, zeros outside:
//   A [m][k]: extents {k, m, inner, outer}, box {64, 128, 1, 1}
//   A [m][k] in pieces: extents {a_piece, m, k / a_piece, outer}, box {64, 128, 1, 1}; a_piece is a
//     multiple of 64, and inner 1
//   A [k][m]: extents {m, k, inner, outer}, box {64, 64, 1, 1}
//   B kAlong: extents {k, n, inner, outer}, box {64, kTileN / kCluster, 1, 1}
//   B kAcross: extents {n, k, inner, outer}, box {64, 64, 1, 1}
//   B kInOrder: extents {k, 2, n / 8, 4}, strides {1, 8, 2} lines, box {64, 2, 4, 4}; n is a
//     multiple of 8, and all batches share B
// where a batch dimension that an operand broadcasts has extent 1 and step 0 in the shape. Base
// addresses and strides are multiples of 16 bytes: TMA takes nothing else (contract_sm80 does).
//
// Two warps copy, one for each operand (a single one is too slow for small boxes); two warpgroups
// multiply, accumulators in registers. Tiles of 128 x 256 they share, 64 rows each, the second some
// steps behind the first; narrower ones they take in turns, so that one's epilogue runs while the
// other multiplies: better where k is small or the epilogue long. Even then it is not for nothing:
// each instruction on the FMA pipe costs the tensor cores about a cycle, those on the ALU's and the
// special functions' none (measured: 1280 additions more in a tile's epilogue make its turn 1350
// cycles longer, 1280 PRMT or LOP3 by nothing). Hence split() in epilogue.cuh, and kInOrder: wgmma
// leaves a lane two of eight columns, and shuffling eight neighbours together takes five
// instructions an element; but which line of B is which column is the copy engine's to decide. Of
// 32 lines, it puts line 8q + 2j + e at 8j + 2q + e: its sums are lane q's, at j and e.
//
// Traffic: a cluster's two blocks take tiles above each other and share the columns of B; each
// fetches half and multicasts it. For 64 of k a block reads 32 KiB from the L2 where a tile has 256
// columns, for 512 cycles of multiplying 24 where it has 128, and for 640 cycles 26 where it has
// 160. A large product runs at the power limit, and these bytes take their part of it: plain
// products of 8192^3, with pauses between, take 7 % longer with 128 columns than with 256, and 5 %
// with 160.

// How B's lines lie: along k, as [n][k]; along n, as [k][n]; or along k and fetched so that the
// accumulators of a lane are neighbours.
enum class LinesOfB { kAlong, kAcross, kInOrder };

template <typename Element, int kTileN, int kCluster, bool kAlongM, LinesOfB kLinesOfB,
          class Epilogue>
struct ContractSm90 {
  static constexpr int kTileM = 128;
  static constexpr bool kAlongN = kLinesOfB == LinesOfB::kAcross;
  static constexpr bool kInOrder = kLinesOfB == LinesOfB::kInOrder;
  static constexpr int kTileK = 64;
  static constexpr int kBlocksPerCluster = kCluster;
  static constexpr int kConsumers = 2;  // warpgroups
  static constexpr int kThreads = 128 * (kConsumers + 1);
  // Wide tiles are shared: each warpgroup has half of the rows. Narrow ones alternate.
  static constexpr bool kAlternate = kTileN < 256;
  static constexpr int kStrips = kAlternate ? 2 : 1;  // of 64 rows, that a warpgroup has of a tile
  // Steps by which the first warpgroup is ahead: half of the stages, the others being on their way.
  static constexpr int kLead = 2;
  static constexpr int kStages = kAlternate ? 6 : 4;
  static constexpr u32 kBytesA = kTileM * kTileK * sizeof(Element);
  static constexpr u32 kBytesB = kTileN * kTileK * sizeof(Element);
  static constexpr int kColumnParts = Epilogue::Columns::kParts;
  typedef typename Epilogue::Columns::State ColumnState;
  typedef typename Epilogue::Rows::State RowState;
  // Each warp's folds of its tile's columns.
  static constexpr u32 kFoldBytes = kColumnParts * 4 * 4 * kConsumers * kTileN;
  static constexpr u32 kSharedBytes = kStages * (kBytesA + kBytesB) + kFoldBytes + 16 * kStages;
  static_assert(sizeof(Element) == 2, "wgmma of 16-bit operands");
  static_assert(kTileN == 128 || kTileN == 256 || (kTileN == 160 && !kAlongN),
                "boxes of 64 columns");

  // Named barriers; 2 and 3 are the warpgroups' own.
  static constexpr int kTurnBarrier = 4;  // and 5
  static constexpr int kStaggerBarrier = 8;

  // 64 x 64: what an MN-major operand's tile is made of, and half of A's rows.
  static constexpr u32 kBox = 64 * 64 * sizeof(Element);

  static __device__ __forceinline__ void run(const TensorMap& a, const TensorMap& b,
                                             const ContractShape& shape, const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    u8* const tiles_a = shared;
    u8* const tiles_b = shared + kStages * kBytesA;
    ColumnState* const folds = reinterpret_cast<ColumnState*>(tiles_b + kStages * kBytesB);
    u64* const full = reinterpret_cast<u64*>(tiles_b + kStages * kBytesB + kFoldBytes);
    u64* const empty = full + kStages;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        barrier_init(&full[s], 1);
        barrier_init(&empty[s], (kAlternate ? 1 : kConsumers) * kCluster);
      }
      barrier_init_done();
      prefetch_map(a);
      prefetch_map(b);
    }
    if constexpr (kCluster > 1)
      cluster_sync();
    else
      __syncthreads();

    const u32 rank = kCluster > 1 ? cluster_rank() : 0;
    const TileWalk walk(shape, kTileM * kCluster, kTileN);
    const int steps = (shape.k + kTileK - 1) / kTileK;
    if (threadIdx.x / 128 == 0) {
      shrink_registers<40>();
      if (threadIdx.x == 0) produce<true>(a, shape, walk, steps, rank, tiles_a, full, empty);
      if (threadIdx.x == 32) produce<false>(b, shape, walk, steps, rank, tiles_b, full, empty);
    } else {
      grow_registers<232>();
      consume(shape, walk, steps, rank, tiles_a, tiles_b, full, empty, folds, epilogue);
    }
    // No block may leave while another's copies and arrivals are on their way to it.
    if constexpr (kCluster > 1) {
      __syncwarp();
      cluster_sync();
    }
  }

  // All of an operand's boxes. A's also announces the bytes of both, whichever come first.
  template <bool kOfA>
  static __device__ __forceinline__ void produce(const TensorMap& map, const ContractShape& shape,
                                                 const TileWalk& walk, int steps, u32 rank,
                                                 u8* tiles, u64* full, u64* empty) {
    int stage = 0;
    u32 parity = 1;  // the first round finds every stage empty
    for (int tile = blockIdx.x / kCluster; tile < walk.total; tile += gridDim.x / kCluster) {
      int batch, unit, column;
      walk.locate(tile, &batch, &unit, &column);
      const int outer = batch / shape.inner, inner = batch % shape.inner;
      const int c2 = inner * (kOfA ? shape.a_inner : shape.b_inner);
      const int c3 = outer * (kOfA ? shape.a_outer : shape.b_outer);
      for (int step = 0; step < steps; ++step) {
        barrier_wait(&empty[stage], parity);
        if constexpr (kOfA) {
          barrier_expect(&full[stage], kBytesA + kBytesB);
          int k = step * kTileK, piece = c2;
          if (shape.a_piece != 0) piece = k / shape.a_piece, k %= shape.a_piece;
          fetch_a(tiles + stage * kBytesA, map, &full[stage], k,
                  (unit * kCluster + (int)rank) * kTileM, piece, c3);
        } else {
          fetch_b(tiles + stage * kBytesB, map, &full[stage], step * kTileK, column * kTileN, c2,
                  c3, rank);
        }
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
    }
  }

  static __device__ __forceinline__ void fetch_a(u8* to, const TensorMap& a, u64* barrier, int k,
                                                 int m, int c2, int c3) {
    if constexpr (kAlongM) {
#pragma unroll
      for (int i = 0; i < kTileM / 64; ++i) {
        copy_box(to + i * kBox, a, barrier, m + i * 64, k, c2, c3, kEvictNormal);
      }
    } else {
      copy_box(to, a, barrier, k, m, c2, c3, kEvictNormal);
    }
  }

  // This block's share of the tile, to all blocks of the cluster.
  static __device__ __forceinline__ void fetch_b(u8* to, const TensorMap& b, u64* barrier, int k,
                                                 int n, int c2, int c3, u32 rank) {
    if constexpr (kAlongN) {
#pragma unroll
      for (int i = 0; i < kTileN / 64; ++i) {
        if (i % kCluster == rank) share(to + i * kBox, b, barrier, n + i * 64, k, c2, c3);
      }
    } else if constexpr (kInOrder) {
#pragma unroll
      for (int i = 0; i < kTileN / 32; ++i) {
        if (i % kCluster == rank) share(to + i * (kBox / 2), b, barrier, k, 0, n / 8 + i * 4, 0);
      }
    } else {
      constexpr int kOwnN = kTileN / kCluster;
      share(to + rank * (kBytesB / kCluster), b, barrier, k, n + (int)rank * kOwnN, c2, c3);
    }
  }

  static __device__ __forceinline__ void share(void* to, const TensorMap& b, u64* barrier, int c0,
                                               int c1, int c2, int c3) {
    constexpr u32 kAll = (1u << kCluster) - 1;
    if constexpr (kCluster > 1)
      copy_box_to(kAll, to, b, barrier, c0, c1, c2, c3, kEvictNormal);
    else
      copy_box(to, b, barrier, c0, c1, c2, c3, kEvictNormal);
  }

  static __device__ __forceinline__ void consume(const ContractShape& shape, const TileWalk& walk,
                                                 int steps, u32 rank, u8* tiles_a, u8* tiles_b,
                                                 u64* full, u64* empty, ColumnState* folds,
                                                 const Epilogue& epilogue) {
    const int consumer = threadIdx.x / 128 - 1;
    const int thread = threadIdx.x % 128;
    const u64 a0 = wgmma_operand(tiles_a + (kAlternate ? 0 : consumer) * kBox, kBox);
    const u64 b0 = wgmma_operand(tiles_b, kBox);
    // 16 of K further on: 32 bytes along a K-major row, or 16 MN-major rows.
    constexpr u32 kStepA = (kAlongM ? 16 * 128 : 32) >> 4;
    constexpr u32 kStepB = (kAlongN ? 16 * 128 : 32) >> 4;
    int stage = 0;
    u32 parity = 0;
    const auto skip = [&](int count) {
      stage += count;
      parity ^= (u32)(stage / kStages) & 1;
      stage %= kStages;
    };
    const int stride = gridDim.x / kCluster;
    int tile = blockIdx.x / kCluster;
    bool first = !kAlternate;
    const int lead = min(kLead, steps) - 1;
    if constexpr (kAlternate) {
      if (consumer == 1) {
        tile += stride, skip(steps);
        group_arrive(kTurnBarrier, 256);
      }
    } else if (consumer == 1 && tile < walk.total) {
      group_sync(kStaggerBarrier, 256);
    }
    for (; tile < walk.total; tile += kStrips * stride) {
      float acc[kStrips][kTileN / 2];
      int before = 0;
      // The other warpgroup has seen all stages before these: a barrier's parity tells a phase from
      // the next, but not from the one after that.
      if constexpr (kAlternate) group_sync(kTurnBarrier + consumer, 256);
      for (int step = 0; step < steps; ++step) {
        barrier_wait(&full[stage], parity);
        const u64 at_a = a0 + (u32)stage * (kBytesA >> 4);
        const u64 at_b = b0 + (u32)stage * (kBytesB >> 4);
#pragma unroll
        for (int i = 0; i < kStrips; ++i) pin(acc[i]);
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < kTileK / 16; ++k) {
#pragma unroll
          for (int i = 0; i < kStrips; ++i) {
            Wgmma<kTileN>::template shared<kAlongM, kAlongN>(
                acc[i], at_a + i * (kBox >> 4) + k * kStepA, at_b + k * kStepB, step > 0 || k > 0,
                Element{});
          }
        }
        wgmma_commit();
#pragma unroll
        for (int i = 0; i < kStrips; ++i) pin(acc[i]);
        if (first && consumer == 0 && step == lead) {
          group_arrive(kStaggerBarrier, 256);
          first = false;
        }
        // The products of the step before are done: its stage may be filled again.
        wgmma_wait<1>();
        if (step > 0) release(&empty[before], thread);
        before = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      if constexpr (kAlternate) group_arrive(kTurnBarrier + (consumer ^ 1), 256);
      int batch, unit, column;
      walk.locate(tile, &batch, &unit, &column);
      wgmma_wait<0>();
      release(&empty[before], thread);
      const int strip = (unit * kCluster + (int)rank) * 2 + (kAlternate ? 0 : consumer);
#pragma unroll
      for (int i = 0; i < kStrips; ++i) {
        pin(acc[i]);
        finish(shape, batch, strip + i, column, acc[i], folds + consumer * 4 * kTileN, epilogue);
      }
      if constexpr (kAlternate) skip(steps);  // the other warpgroup's tile
    }
  }

  // A thread for each block that copies into this stage.
  static __device__ __forceinline__ void release(u64* barrier, int thread) {
    if constexpr (kCluster > 1) {
      if (thread < kCluster) barrier_arrive_at(barrier, thread);
    } else {
      if (thread == 0) barrier_arrive(barrier);
    }
  }

  // The epilogue of 64 rows: a warp has 16 of them.
  static __device__ __forceinline__ void finish(const ContractShape& shape, int batch, int strip,
                                                int column, const float (&acc)[kTileN / 2],
                                                ColumnState* folds, const Epilogue& epilogue) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    if (strip * ContractShape::kStripRows >= shape.m) return;
    const Piece piece{batch, strip * ContractShape::kStripRows + warp * 16, column * kTileN,
                      shape.m, shape.n};
    RowState rows[2] = {Epilogue::Rows::none(), Epilogue::Rows::none()};
    run_epilogue<kTileN, kInOrder>(epilogue, piece, acc, rows, folds + warp * kTileN);
    if constexpr (Epilogue::Rows::kParts > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows[half] = merge_with_lane<typename Epilogue::Rows>(rows[half], 1);
        rows[half] = merge_with_lane<typename Epilogue::Rows>(rows[half], 2);
        const int row = piece.row + lane / 4 + 8 * half;
        if (lane % 4 == 0 && row < shape.m) epilogue.row_done(batch, row, column, rows[half]);
      }
    }
    if constexpr (kColumnParts > 0) {
      const int group = 1 + threadIdx.x / 128;
      group_sync(group, 128);
#pragma unroll
      for (int i = threadIdx.x % 128; i < kTileN; i += 128) {
        ColumnState state = folds[i];
#pragma unroll
        for (int w = 1; w < 4; ++w) {
          state = Epilogue::Columns::merge(state, folds[w * kTileN + i]);
        }
        if (piece.column + i < shape.n) epilogue.column_done(batch, strip, piece.column + i, state);
      }
      group_sync(group, 128);  // the next tile's folds go to the same place
    }
  }
};
