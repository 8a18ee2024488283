// C[m][n] = sum over k of A B for at most 64 rows (a linear layer at decoding, a matrix-vector
// product), for sm_90a, with an epilogue (epilogue.cuh) in place of a plain store. Needs
// elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh, tile_walk.cuh, hopper.cuh
// and stages.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(ContractSkinnySm90<...>::kThreads)
//       __cluster_dims__(kSplit, 1, 1)
//       name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ...) {
//     ContractSkinnySm90<Element, kRows, kSplit, kAlongN, Epilogue>::run(a, b, shape,
//                                                                        Epilogue{...});
//   }
// Element: bf16 or f16. kRows: 16, 32 or 64, m or more. kSplit: 1, 2, 4 or 8 blocks, a cluster,
// share k. kAlongN: B lies as [k][n]; otherwise as [n][k].
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, grid {ceil(n / 64) * kSplit,
// batches}. A row's partials count tiles of 64 columns; columns are not reduced.
//
// Tensor maps as contract_sm90.cuh has them, with boxes of
//   A [m][k]: {64, kRows, 1, 1}    B [n][k]: {64, 64, 1, 1}    B [k][n]: {64, 64, 1, 1}
//
// Traffic: B dominates; each element of it is read once, and A comes from the L2. Enough of B must
// be in flight at any time: about 40 KiB per multiprocessor. Blocks are therefore many, equal, two
// per multiprocessor, and each keeps kStages stages in flight. A stage has several boxes that
// follow each other along B's lines: 512 bytes of a line at a time come faster from memory than
// 128. wgmma takes 64 of its first operand's rows at a time, so B is the first operand. The blocks
// of a cluster add up each other's sums in shared memory, always in the same order.

template <typename Element, int kRows, int kSplit, bool kAlongN, class Epilogue>
struct ContractSkinnySm90 {
  static constexpr int kTileN = 64;  // columns of a block
  typedef OperandTile<Element, kRows, false> TileA;
  typedef OperandTile<Element, kTileN, kAlongN> TileB;
  static constexpr int kTileRows = kRows, kTileColumns = kTileN;
  static constexpr int kBoxes = kRows == 64 ? 2 : 4;  // along k, of a stage
  static constexpr int kTileDepth = kBoxes * TileA::kDepth;
  static constexpr int kBlocksPerCluster = kSplit;
  static constexpr int kThreads = 128 + 32;
  static constexpr u32 kBoxBytes = TileA::kBytes + TileB::kBytes;
  static constexpr u32 kStageBytes = kBoxes * kBoxBytes;
  static constexpr int kStages = (104 << 10) / kStageBytes;
  typedef Stages<kStages> Ring;
  static constexpr u32 kSharedBytes = kStages * kStageBytes + sizeof(Ring);
  // Sums take the place of the operands. Lines are padded by 4 words, so that neither the stores of
  // the accumulators nor the loads of the pieces have bank conflicts.
  static constexpr int kLine = kTileN + 4;
  static_assert(kRows * kLine * 4 <= kStages * kStageBytes, "the sums fit");
  static_assert(Epilogue::Columns::kParts == 0, "columns are not reduced");
  typedef typename Epilogue::Rows Rows;

  static __device__ __forceinline__ void run(const TensorMap& a, const TensorMap& b,
                                             const ContractShape& shape, const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    Ring& ring = *reinterpret_cast<Ring*>(shared + kStages * kStageBytes);
    if (threadIdx.x == 0) {
      ring.init(1);
      barrier_init_done();
    }
    __syncthreads();
    const int rank = kSplit > 1 ? (int)cluster_rank() : 0;
    const int tile = blockIdx.x / kSplit, batch = blockIdx.y;
    const int steps = (shape.k + kTileDepth - 1) / kTileDepth;
    const int first = (int)((i64)steps * rank / kSplit);
    const int count = (int)((i64)steps * (rank + 1) / kSplit) - first;
    float* const sums = reinterpret_cast<float*>(shared);
    if (threadIdx.x >= 128) {
      if (threadIdx.x == 128) {
        produce(a, b, shape, batch, tile, first, count, shared, ring);
      }
    } else {
      multiply(count, shared, ring, sums);
    }
    __syncwarp();
    if constexpr (kSplit > 1)
      cluster_sync();
    else
      __syncthreads();
    finish(shape, batch, tile, rank, sums, epilogue);
    // No block may exit while another reads its sums.
    if constexpr (kSplit > 1) {
      __syncwarp();
      cluster_sync();
    }
  }

  static __device__ __forceinline__ void produce(const TensorMap& a, const TensorMap& b,
                                                 const ContractShape& shape, int batch, int tile,
                                                 int first, int count, u8* stages, Ring& ring) {
    const int outer = batch / shape.inner, inner = batch % shape.inner;
    const int a2 = inner * shape.a_inner, a3 = outer * shape.a_outer;
    const int b2 = inner * shape.b_inner, b3 = outer * shape.b_outer;
    auto at = Ring::to_fill();
    for (int step = first; step < first + count; ++step, at.next()) {
      const int k = step * kTileDepth;
      u8* const to = stages + at.stage * kStageBytes;
      u64* const full = ring.wait_empty(at);
      barrier_expect(full, kStageBytes);
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        TileB::template fetch<1>(to + i * kBoxBytes + TileA::kBytes, b, full, tile * kTileN,
                                 k + i * TileA::kDepth, b2, b3, kEvictFirst);
      }
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        TileA::template fetch<1>(to + i * kBoxBytes, a, full, 0, k + i * TileA::kDepth, a2, a3);
      }
    }
  }

  // Leaves this block's sums as [row][column].
  static __device__ __forceinline__ void multiply(int count, u8* stages, Ring& ring, float* sums) {
    const int thread = threadIdx.x;
    const u64 a0 = wgmma_operand(stages, TileA::kBox);
    const u64 b0 = wgmma_operand(stages + TileA::kBytes, TileB::kBox);
    float acc[1][kRows / 2];
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) acc[0][i] = 0;
    auto at = Ring::to_read();
    for (int step = 0; step < count; ++step, at.next()) {
      ring.wait_full(at);
      const u32 offset = (u32)at.stage * (kStageBytes >> 4);
#pragma unroll
      for (int i = 0; i < kBoxes; ++i) {
        const u32 box = offset + i * (kBoxBytes >> 4);
        multiply_stage<TileB, TileA>(acc, b0 + box, a0 + box, true);
      }
      wgmma_wait<0>();  // memory-bound: issuing further ahead gains nothing
      pin(acc[0]);
      if (thread == 0) barrier_arrive(&ring.empty[at.stage]);
    }
    group_sync(1, 128);  // all have read the operands
    const int lane = thread % 32;
    const int column = thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
      sums[row * kLine + column + i / 2 % 2 * 8] = acc[0][i];
    }
  }

  // Each block of the cluster stores every kSplit-th row, each thread eight columns of one.
  static __device__ __forceinline__ void finish(const ContractShape& shape, int batch, int tile,
                                                int rank, const float* sums,
                                                const Epilogue& epilogue) {
    constexpr int kPieces = kTileN / 8;
    constexpr int kRowsAtOnce = 128 / kPieces;
    if (threadIdx.x >= 128) return;
    const int column = threadIdx.x % kPieces * 8;
    const int valid = min(8, shape.n - tile * kTileN - column);
    for (int i = 0; i * kSplit < kRows; i += kRowsAtOnce) {
      const int row = (i + (int)threadIdx.x / kPieces) * kSplit + rank;
      const bool inside = row < shape.m && valid > 0;
      typename Rows::State reduced = Rows::none();
      if (inside) {
        float v[8] = {};
#pragma unroll
        for (int r = 0; r < kSplit; ++r) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float4* const at =
                reinterpret_cast<const float4*>(sums + row * kLine + column + half * 4);
            const float4 part = kSplit > 1 ? load_of_block(at, r) : *at;
            v[half * 4] += part.x;
            v[half * 4 + 1] += part.y;
            v[half * 4 + 2] += part.z;
            v[half * 4 + 3] += part.w;
          }
        }
        const i64 at = (i64)tile * kTileN + column;
        if (valid == 8) {
          epilogue(batch, (i64)row, at, v, Eight{});
        } else {
          epilogue(batch, (i64)row, at, v, valid);
        }
        if constexpr (Rows::kParts > 0) reduced = Rows::of_row(v, valid);
      }
      if constexpr (Rows::kParts > 0) {
#pragma unroll
        for (int mask = kPieces / 2; mask >= 1; mask /= 2) {
          reduced = merge_with_lane<Rows>(reduced, mask);
        }
        if (inside && column == 0) epilogue.row_done(batch, row, tile, reduced);
      }
    }
  }
};
