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
// Element: bf16 or f16. kTileN: 128 or 160 (not where B lies across). kCluster: 2 where a batch has
// more than 128 rows, else 1. kAlongM: A lies as [k][m], its lines along m. Launch: kThreads
// threads, kSharedBytes of dynamic shared memory, and as grid the least of the multiprocessors and
// kCluster * clusters of work, a multiple of kCluster (the blocks are persistent; any number works).
//
// Tensor maps, rank 4, fastest first, SWIZZLE_128B, L2 promotion 256 B, zeros outside:
//   A [m][k]: extents {k, m, inner, outer}, box {64, 128, 1, 1}
//   A [k][m]: extents {m, k, inner, outer}, box {64, 64, 1, 1}
//   B kAlong: extents {k, n, inner, outer}, box {64, kTileN / kCluster, 1, 1}
//   B kAcross: extents {n, k, inner, outer}, box {64, 64, 1, 1}
//   B kInOrder: extents {k, 2, n / 8, 4}, strides {1, 8, 2} lines, box {64, 2, 4, 4}; n is a multiple
//     of 8, and all batches share B
// where a batch dimension that an operand broadcasts has extent 1 and step 0 in the shape. Base
// addresses and strides are multiples of 16 bytes: TMA takes nothing else (contract_sm80 does).
//
// One warp copies, two warpgroups multiply, accumulators in registers. They take tiles in turns, so
// that one's epilogue runs while the other multiplies. It is not for nothing: each instruction on
// the FMA pipe costs the tensor cores about a cycle (measured: adding 512 of them to a tile's
// epilogue makes its turn 600 cycles longer). Hence kInOrder: wgmma leaves a lane two of eight
// columns, and shuffling eight neighbours together takes five instructions an element; but which
// line of B is which column is the copy engine's to decide. Of 32 lines, it puts line 8q + 2j + e at
// 8j + 2q + e, whose column's sums lane q of a quad has at j and e.
//
// Traffic: a cluster's two blocks take tiles above each other and share the columns of B; each
// fetches half and multicasts it, so that a block reads 24 KiB from the L2 for 128 x 128 x 64
// multiplications rather than 32: without that the L2's bandwidth is the limit. Tiles of 160 columns
// read 26 for a quarter more.

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
  static constexpr int kStrips = 2;  // of 64 rows, that a tile has
  static constexpr int kStages = 6;
  static constexpr u32 kBytesA = kTileM * kTileK * sizeof(Element);
  static constexpr u32 kBytesB = kTileN * kTileK * sizeof(Element);
  static constexpr int kColumnParts = Epilogue::Columns::kParts;
  typedef typename Epilogue::Columns::State ColumnState;
  typedef typename Epilogue::Rows::State RowState;
  // Each warp's folds of its tile's columns.
  static constexpr u32 kFoldBytes = kColumnParts * 4 * 4 * kConsumers * kTileN;
  static constexpr u32 kSharedBytes = kStages * (kBytesA + kBytesB) + kFoldBytes + 16 * kStages;
  static_assert(sizeof(Element) == 2, "wgmma of 16-bit operands");
  static_assert(kTileN == 128 || kTileN == 160 && !kAlongN, "boxes of 64 columns");

  // Named barriers; 2 and 3 are the warpgroups' own.
  static constexpr int kTurnBarrier = 4;  // and 5

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
        barrier_init(&empty[s], kCluster);
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
      shrink_registers<24>();
      if (threadIdx.x == 0) produce(a, b, shape, walk, steps, rank, tiles_a, tiles_b, full, empty);
    } else {
      grow_registers<240>();
      consume(shape, walk, steps, rank, tiles_a, tiles_b, full, empty, folds, epilogue);
    }
    // No block may leave while another's copies and arrivals are on their way to it.
    if constexpr (kCluster > 1) {
      __syncwarp();
      cluster_sync();
    }
  }

  static __device__ __forceinline__ void produce(const TensorMap& a, const TensorMap& b,
                                                 const ContractShape& shape, const TileWalk& walk,
                                                 int steps, u32 rank, u8* tiles_a, u8* tiles_b,
                                                 u64* full, u64* empty) {
    constexpr u32 kAll = (1u << kCluster) - 1;
    int stage = 0;
    u32 parity = 1;  // the first round finds every stage empty
    for (int tile = blockIdx.x / kCluster; tile < walk.total; tile += gridDim.x / kCluster) {
      int batch, unit, column;
      walk.locate(tile, &batch, &unit, &column);
      const int outer = batch / shape.inner, inner = batch % shape.inner;
      const int a2 = inner * shape.a_inner, a3 = outer * shape.a_outer;
      const int b2 = inner * shape.b_inner, b3 = outer * shape.b_outer;
      const int m = (unit * kCluster + (int)rank) * kTileM;
      const int n = column * kTileN;
      for (int step = 0; step < steps; ++step) {
        const int k = step * kTileK;
        barrier_wait(&empty[stage], parity);
        barrier_expect(&full[stage], kBytesA + kBytesB);
        u8* const to_a = tiles_a + stage * kBytesA;
        u8* const to_b = tiles_b + stage * kBytesB;
        if constexpr (kAlongM) {
#pragma unroll
          for (int i = 0; i < kTileM / 64; ++i) {
            copy_box(to_a + i * kBox, a, &full[stage], m + i * 64, k, a2, a3, kEvictNormal);
          }
        } else {
          copy_box(to_a, a, &full[stage], k, m, a2, a3, kEvictNormal);
        }
        if constexpr (kAlongN) {
#pragma unroll
          for (int i = 0; i < kTileN / 64; ++i) {
            if (i % kCluster != rank) continue;
            fetch_b(kAll, to_b + i * kBox, b, &full[stage], n + i * 64, k, b2, b3);
          }
        } else if constexpr (kInOrder) {
#pragma unroll
          for (int i = 0; i < kTileN / 32; ++i) {
            if (i % kCluster != rank) continue;
            fetch_b(kAll, to_b + i * kBox / 2, b, &full[stage], k, 0, n / 8 + i * 4, 0);
          }
        } else {
          fetch_b(kAll, to_b + rank * (kBytesB / kCluster), b, &full[stage], k,
                  n + (int)rank * (kTileN / kCluster), b2, b3);
        }
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
    }
  }

  static __device__ __forceinline__ void fetch_b(u32 all, void* to, const TensorMap& b,
                                                 u64* barrier, int c0, int c1, int c2, int c3) {
    if constexpr (kCluster > 1)
      copy_box_to(all, to, b, barrier, c0, c1, c2, c3, kEvictNormal);
    else
      copy_box(to, b, barrier, c0, c1, c2, c3, kEvictNormal);
  }

  static __device__ __forceinline__ void consume(const ContractShape& shape, const TileWalk& walk,
                                                 int steps, u32 rank, u8* tiles_a, u8* tiles_b,
                                                 u64* full, u64* empty, ColumnState* folds,
                                                 const Epilogue& epilogue) {
    const int consumer = threadIdx.x / 128 - 1;
    const int thread = threadIdx.x % 128;
    const u64 a0 = wgmma_operand(tiles_a, kBox);
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
    if (consumer == 1) {
      tile += stride, skip(steps);
      group_arrive(kTurnBarrier, 256);
    }
    for (; tile < walk.total; tile += kStrips * stride) {
      float acc[kStrips][kTileN / 2];
      int before = 0;
      // The other warpgroup has seen all stages before these: a barrier's parity tells a phase from
      // the next, but not from the one after that.
      group_sync(kTurnBarrier + consumer, 256);
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
        // The products of the step before are done: its stage may be filled again.
        wgmma_wait<1>();
        if (step > 0) release(&empty[before], thread);
        before = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      group_arrive(kTurnBarrier + (consumer ^ 1), 256);
      int batch, unit, column;
      walk.locate(tile, &batch, &unit, &column);
      wgmma_wait<0>();
      release(&empty[before], thread);
      const int strip = (unit * kCluster + (int)rank) * kStrips;
#pragma unroll
      for (int i = 0; i < kStrips; ++i) {
        pin(acc[i]);
        finish(shape, batch, strip + i, column, acc[i], folds + consumer * 4 * kTileN, epilogue);
      }
      skip(steps);  // the other warpgroup's tile
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
