// C[m][n] = sum over k of A B for at most 64 rows (a linear layer at decoding, a matrix-vector
// product), for sm_90a, with an epilogue (epilogue.cuh) in place of a plain store. Needs
// elements.cuh, quick.cuh, epilogue.cuh, tile_walk.cuh and hopper.cuh before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(ContractThinSm90<...>::kThreads)
//       __cluster_dims__(kSplit, 1, 1)
//       name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ...) {
//     ContractThinSm90<Element, kRows, kTileN, kSplit, kAlongN, Epilogue>::run(a, b, shape,
//                                                                             Epilogue{...});
//   }
// Element: bf16 or f16. kRows: 16, 32 or 64, m or more. kTileN: 64 or 128 columns of a block.
// kSplit: 1, 2, 4 or 8 blocks, a cluster, share k. kAlongN: B lies as [k][n]; otherwise as [n][k].
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, grid {ceil(n / kTileN) * kSplit,
// batches}. A row's partials count tiles of kTileN; columns are not folded.
//
// Tensor maps as contract_sm90.cuh has them, with boxes of
//   A [m][k]: {64, kRows, 1, 1}    B [n][k]: {64, kTileN, 1, 1}    B [k][n]: {64, 64, 1, 1}
//
// Traffic: B is all there is to move, each element of it once; A comes from the L2. What counts is
// that enough of B is on its way at any time: some 40 KiB a multiprocessor. Blocks are therefore
// many, equal, all resident at once (two a multiprocessor), and each keeps kStages boxes on order.
// wgmma takes 64 of its first operand's rows at a time, so B is the first operand, and a
// warpgroup has 64 columns. The blocks of a cluster add up each other's sums in shared memory,
// always in the same order.

template <typename Element, int kRows, int kTileN, int kSplit, bool kAlongN, class Epilogue>
struct ContractThinSm90 {
  static constexpr int kTileK = 64;
  static constexpr int kConsumers = kTileN / 64;  // warpgroups
  static constexpr int kThreads = 128 * kConsumers + 32;
  static constexpr u32 kBytesA = kRows * kTileK * sizeof(Element);
  static constexpr u32 kBytesB = kTileN * kTileK * sizeof(Element);
  static constexpr u32 kBox = 64 * 64 * sizeof(Element);
  static constexpr int kStages = (104 << 10) / (kBytesA + kBytesB);
  static constexpr u32 kSharedBytes = kStages * (kBytesA + kBytesB) + 16 * kStages;
  // Sums lie where the operands were. Lines are 4 words apart from the banks' period, so that
  // neither the accumulators' stores nor the pieces' loads meet.
  static constexpr int kLine = kTileN + 4;
  static_assert(kRows * kLine * 4 <= kStages * (kBytesA + kBytesB), "the sums fit");
  static_assert(sizeof(Element) == 2 && Epilogue::Columns::kParts == 0, "");
  typedef typename Epilogue::Rows Rows;

  static __device__ __forceinline__ void run(const TensorMap& a, const TensorMap& b,
                                             const ContractShape& shape, const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    u8* const tiles_b = shared;
    u8* const tiles_a = shared + kStages * kBytesB;
    u64* const full = reinterpret_cast<u64*>(tiles_a + kStages * kBytesA);
    u64* const empty = full + kStages;
    if (threadIdx.x == 0) {
      for (int s = 0; s < kStages; ++s) {
        barrier_init(&full[s], 1);
        barrier_init(&empty[s], kConsumers);
      }
      barrier_init_done();
    }
    __syncthreads();
    const int rank = kSplit > 1 ? (int)cluster_rank() : 0;
    const int tile = blockIdx.x / kSplit, batch = blockIdx.y;
    const int steps = (shape.k + kTileK - 1) / kTileK;
    const int first = (int)((i64)steps * rank / kSplit);
    const int count = (int)((i64)steps * (rank + 1) / kSplit) - first;
    float* const sums = reinterpret_cast<float*>(shared);
    if (threadIdx.x >= 128 * kConsumers) {
      if (threadIdx.x == 128 * kConsumers) {
        produce(a, b, shape, batch, tile, first, count, tiles_a, tiles_b, full, empty);
      }
    } else {
      multiply(count, tiles_a, tiles_b, full, empty, sums);
    }
    __syncwarp();
    if constexpr (kSplit > 1)
      cluster_sync();
    else
      __syncthreads();
    finish(shape, batch, tile, rank, sums, epilogue);
    // No block may leave while another reads its sums.
    if constexpr (kSplit > 1) {
      __syncwarp();
      cluster_sync();
    }
  }

  static __device__ __forceinline__ void produce(const TensorMap& a, const TensorMap& b,
                                                 const ContractShape& shape, int batch, int tile,
                                                 int first, int count, u8* tiles_a, u8* tiles_b,
                                                 u64* full, u64* empty) {
    const int outer = batch / shape.inner, inner = batch % shape.inner;
    const int a2 = inner * shape.a_inner, a3 = outer * shape.a_outer;
    const int b2 = inner * shape.b_inner, b3 = outer * shape.b_outer;
    const int n = tile * kTileN;
    int stage = 0;
    u32 parity = 1;  // the first round finds every stage empty
    for (int step = first; step < first + count; ++step) {
      const int k = step * kTileK;
      barrier_wait(&empty[stage], parity);
      barrier_expect(&full[stage], kBytesA + kBytesB);
      u8* const to_b = tiles_b + stage * kBytesB;
      if constexpr (kAlongN) {
#pragma unroll
        for (int i = 0; i < kConsumers; ++i) {
          copy_box(to_b + i * kBox, b, &full[stage], n + i * 64, k, b2, b3, kEvictFirst);
        }
      } else {
        copy_box(to_b, b, &full[stage], k, n, b2, b3, kEvictFirst);
      }
      copy_box(tiles_a + stage * kBytesA, a, &full[stage], k, 0, a2, a3, kEvictNormal);
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  }

  // Leaves this block's sums as [row][column].
  static __device__ __forceinline__ void multiply(int count, u8* tiles_a, u8* tiles_b, u64* full,
                                                  u64* empty, float* sums) {
    const int consumer = threadIdx.x / 128, thread = threadIdx.x % 128;
    const u64 a0 = wgmma_operand(tiles_a, kBox);
    const u64 b0 = wgmma_operand(tiles_b + consumer * kBox, kBox);
    constexpr u32 kStepA = 32 >> 4;
    constexpr u32 kStepB = (kAlongN ? 16 * 128 : 32) >> 4;
    float acc[kRows / 2];
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) acc[i] = 0;
    int stage = 0;
    u32 parity = 0;
    for (int step = 0; step < count; ++step) {
      barrier_wait(&full[stage], parity);
      const u64 at_a = a0 + (u32)stage * (kBytesA >> 4);
      const u64 at_b = b0 + (u32)stage * (kBytesB >> 4);
      pin(acc);
      wgmma_begin();
#pragma unroll
      for (int k = 0; k < kTileK / 16; ++k) {
        Wgmma<kRows>::template shared<kAlongN, false>(acc, at_b + k * kStepB, at_a + k * kStepA, 1,
                                                      Element{});
      }
      wgmma_commit();
      pin(acc);
      wgmma_wait<0>();  // the memory takes longer: nothing is gained by running ahead
      pin(acc);
      if (thread == 0) barrier_arrive(&empty[stage]);
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
    group_sync(1, 128 * kConsumers);  // nobody reads the operands any more
    const int lane = thread % 32;
    const int column = consumer * 64 + thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) {
      const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
      sums[row * kLine + column + i / 2 % 2 * 8] = acc[i];
    }
  }

  // A block of the cluster has every kSplit-th row; a thread has eight columns of one.
  static __device__ __forceinline__ void finish(const ContractShape& shape, int batch, int tile,
                                                int rank, const float* sums,
                                                const Epilogue& epilogue) {
    constexpr int kPieces = kTileN / 8;
    constexpr int kRowsAtOnce = 128 * kConsumers / kPieces;
    if (threadIdx.x >= 128 * kConsumers) return;
    const int column = threadIdx.x % kPieces * 8;
    const int valid = min(8, shape.n - tile * kTileN - column);
    for (int i = 0; i * kSplit < kRows; i += kRowsAtOnce) {
      const int row = (i + (int)threadIdx.x / kPieces) * kSplit + rank;
      const bool inside = row < shape.m && valid > 0;
      typename Rows::State folded = Rows::none();
      if (inside) {
        float v[8] = {};
#pragma unroll
        for (int r = 0; r < kSplit; ++r) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float4 part = load_sums(sums + row * kLine + column + half * 4, r);
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
        if constexpr (Rows::kParts > 0) folded = Rows::of_row(v, valid);
      }
      if constexpr (Rows::kParts > 0) {
#pragma unroll
        for (int mask = kPieces / 2; mask >= 1; mask /= 2) {
          folded = merge_with_lane<Rows>(folded, mask);
        }
        if (inside && column == 0) epilogue.row_done(batch, row, tile, folded);
      }
    }
  }

  // Four sums of block `rank` of the cluster.
  static __device__ __forceinline__ float4 load_sums(const float* at, int rank) {
    if constexpr (kSplit == 1) return *reinterpret_cast<const float4*>(at);
    float4 part;
    asm volatile(
        "{\n.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %4, %5;\n"
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n}"
        : "=f"(part.x), "=f"(part.y), "=f"(part.z), "=f"(part.w)
        : "r"(shared_address(at)), "r"(rank)
        : "memory");
    return part;
  }
};
