// Convolutions of few pixels and filters for sm_90a: as in convolve_sm90, but in small tiles, of
// which a block has one, and whose k the blocks of a cluster may share. Needs what that needs, and
// convolve_sm90.cuh, before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(ConvolveFewSm90<...>::kThreads, resident)
//       __cluster_dims__(kSplit, 1, 1)
//       name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ...) {
//     ConvolveFewSm90<Element, 64, 64, kSplit, kDeep, Epilogue, WindowsB<Geometry, 64, ...>>::run(
//         a, b, shape, Epilogue{...});
//   }
// with boxes of 64 filters and of 64 pixels; or with WindowsA, where results leave with their
// channels last, and the map of pixels first, in boxes of kRows, 64 or 128, beside kTileN filters,
// a multiple of 32. kSplit: 1, or 2, 4 or 8 of 64 x 64; kDeep: stages. Launch: kThreads threads,
// kSharedBytes of dynamic shared memory, kSplit blocks for each tile of each group.
//
// Two warps copy, one for each operand, and a warpgroup multiplies 64 rows. Where blocks share k,
// its sums go to shared memory then, and each block of the cluster adds up those of all for its
// part of the tile, in the order of k: results do not change between runs. All threads of the
// warpgroup load, four sums at a time.
//
// A block that shares k has a multiprocessor to itself, and most of what it multiplies is on its
// way at once: what the exchange takes grows with the cluster. 980 pixels of 1024 channels by 256
// filters take 11.4 us in clusters of four, two blocks to a multiprocessor, and 8.4 in clusters of
// two; 98 pixels of 2048 channels by 512 filters take 9.1 us in clusters of two, 7.7 of four, 8.5
// of eight. Sums that are sent as they are made (st.async) take 2 to 6 us longer. Where tiles are
// enough for most multiprocessors, all at once (small_tiles() in plan/tiling.hpp), the epilogue
// counts, which a scheduler's one warp runs at an instruction in four cycles: 3136 pixels of 160
// channels by 960 filters take 9.0 us in tiles of 64 rows, and 8.2 in those of 128, of two
// warpgroups; in the persistent blocks of contract_sm90 9.9.

template <typename Element, int kRows, int kTileN, int kSplit, int kDeep, class Epilogue,
          class Windows>
struct ConvolveFewSm90 {
  static constexpr int kTileRows = kRows, kTileColumns = kTileN;
  static constexpr int kGroups = kRows / 64;  // warpgroups that multiply
  static_assert(kGroups == 1 || kSplit == 1, "sums of 64 rows are exchanged");
  // Whether rows are pixels, and columns filters in the order of lanes; else it is the other way.
  static constexpr bool kPixelRows = Windows::kWindowsOfA;
  typedef OperandTile<Element, kTileRows, false> TileA;
  typedef OperandTile<Element, kTileColumns, false> TileB;
  typedef typename TileOfB<Element, kPixelRows ? kTileN : 64,
                           kPixelRows ? LinesOfB::kInOrder : LinesOfB::kAlong>::Type Filters;
  static constexpr int kTileDepth = TileA::kDepth;
  static constexpr int kBlocksPerCluster = kSplit;
  static constexpr int kMultiplying = 128 * kGroups, kThreads = kMultiplying + 64;
  static constexpr int kStages = kDeep;
  typedef Stages<kStages> Ring;
  static constexpr u32 kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr int kSums = kTileColumns / 2;  // of a thread
  static constexpr u32 kSumBytes = kSums * 128 * sizeof(float);
  // A thread's sums are chunks, each of which one epilogue call takes: eight neighbours of a row,
  // or 32 columns of two rows. A block has a part of all chunks, or of the warps' of one.
  static constexpr int kChunk = kPixelRows ? 8 : 16;
  static constexpr int kChunks = kSums / kChunk;
  static constexpr int kOwn = kSplit < kChunks ? (kChunks + kSplit - 1) / kSplit : 1;
  static constexpr int kShares = kSplit < kChunks ? 1 : kSplit / kChunks;  // of the warps
  static constexpr int kOwners = 128 / kShares;                            // threads
  static constexpr int kTerms = kTermsOf<Epilogue>;
  static constexpr u32 kSharedBytes =
      kStages * kStageBytes + sizeof(Ring) + kTerms * kTileN * sizeof(float);
  static_assert(kSplit == 1 || kSumBytes <= kStages * kStageBytes, "sums fit where stages were");

  static __device__ __forceinline__ void run(const TensorMap& a, const TensorMap& b,
                                             const ContractShape& shape, const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    Ring& ring = *reinterpret_cast<Ring*>(shared + kStages * kStageBytes);
    if (threadIdx.x == 0) {
      ring.init(kGroups);
      barrier_init_done();
      prefetch_map(a);
      prefetch_map(b);
    }
    __syncthreads();
    const int rank = (int)cluster_rank(), tile = (int)blockIdx.x / kSplit;
    const int units = (shape.m + kTileRows - 1) / kTileRows;
    const int columns = (shape.n + kTileColumns - 1) / kTileColumns;
    const int unit = tile % units, column = tile / units % columns, group = tile / units / columns;
    const int steps = (shape.k + kTileDepth - 1) / kTileDepth;
    const int first = steps * rank / kSplit, last = steps * (rank + 1) / kSplit;
    float* const terms = reinterpret_cast<float*>(shared + kStages * kStageBytes + sizeof(Ring));
    const auto kept =
        with_terms<kTileN>(epilogue, terms, group * shape.n + column * kTileN, threadIdx.x);
    float acc[1][kSums];
    constexpr u32 kPixels = kPixelRows ? 0 : TileA::kBytes, kFilters = TileA::kBytes - kPixels;
    if (threadIdx.x < kMultiplying) {
      if constexpr (kPixelRows && kPrefetches<Epilogue>)
        prefetch(epilogue, shape, unit, column, group);
      multiply_all(last - first, shared, ring, acc);
    } else if (threadIdx.x == kMultiplying) {
      wait_for_previous();
      auto at = Ring::to_fill();
      const int filter = kPixelRows ? group * shape.n + column * kTileN : unit * 64;
      for (int step = first; step < last; ++step, at.next()) {
        u64* const full = ring.wait_empty(at);
        barrier_expect(full, kStageBytes);
        Filters::template fetch<1>(shared + at.stage * kStageBytes + kFilters, kPixelRows ? b : a,
                                   full, filter, step * kTileDepth, group * shape.a_inner, 0);
      }
    } else if (threadIdx.x == kMultiplying + 32) {
      wait_for_previous();
      auto at = Ring::to_fill();
      typename Windows::template Windows<Element> windows(
          kPixelRows ? unit * kTileRows : column * kTileN, group);
      for (int step = 0; step < first; ++step) windows.next();
      for (int step = first; step < last; ++step, at.next(), windows.next()) {
        u64* const full = ring.wait_empty(at);
        windows.template fetch<1>(shared + at.stage * kStageBytes + kPixels, kPixelRows ? a : b,
                                  full);
      }
    }
    if constexpr (kSplit == 1) {
      if (threadIdx.x >= kMultiplying) return;
      if constexpr (kTerms > 0) group_sync(1, kMultiplying);
      return finish_own(kept, shape, unit, column, group, acc[0]);
    }
    // All that was copied has been multiplied.
    __syncthreads();
    float4* const sums = reinterpret_cast<float4*>(shared);
    if (threadIdx.x < 128) store_sums(acc[0], sums);
    cluster_sync();
    if (threadIdx.x < 128 && rank % kShares == (int)threadIdx.x / kOwners) {
      finish(kept, shape, unit, column, group, sums, rank);
    }
    __syncwarp();
    // No block may exit while another reads its sums.
    cluster_sync();
  }

  // What this block's pieces read beside their sums.
  static __device__ __forceinline__ void prefetch(const Epilogue& epilogue,
                                                  const ContractShape& shape, int unit, int column,
                                                  int group) {
    const int thread = threadIdx.x, at = column * kTileColumns + thread * 8;
    if (kTerms == 0 && thread < kTileColumns / 8 && at < shape.n) {
      epilogue.prefetch_columns(group * shape.n + at);
    }
    if (!kPrefetchesOwn<Epilogue> || thread >= kTileRows) return;
    const int row = unit * kTileRows + thread, begin = column * kTileColumns;
    const int count = min(kTileColumns, shape.n - begin);
    if (thread % kSplit == (int)cluster_rank() && row < shape.m && count > 0) {
      epilogue.prefetch_own(0, row, group * shape.n + begin, count);
    }
  }

  static __device__ __forceinline__ void multiply_all(int steps, u8* stages, Ring& ring,
                                                      float (&acc)[1][kSums]) {
    const u64 a0 = wgmma_operand(stages + threadIdx.x / 128 * TileA::kBox, TileA::kBox);
    const u64 b0 = wgmma_operand(stages + TileA::kBytes, TileB::kBox);
#pragma unroll
    for (int i = 0; i < kSums; ++i) acc[0][i] = 0;
    auto at = Ring::to_read();
    int before = 0;
    for (int step = 0; step < steps; ++step) {
      ring.wait_full(at);
      const u32 offset = (u32)at.stage * (kStageBytes >> 4);
      multiply_stage<TileA, TileB>(acc, a0 + offset, b0 + offset, step > 0);
      wgmma_wait<1>();
      if (step > 0 && threadIdx.x % 128 == 0) barrier_arrive(&ring.empty[before]);
      before = at.stage;
      at.next();
    }
    wgmma_wait<0>();
    pin(acc[0]);
  }

  // Where a chunk's sum is in acc.
  static __device__ __forceinline__ constexpr int place_of(int chunk, int i) {
    return kPixelRows ? (chunk / 2 * 4 + i / 2) * 4 + chunk % 2 * 2 + i % 2 : chunk * 16 + i;
  }
  static __device__ __forceinline__ void store_sums(const float (&acc)[kSums], float4* sums) {
#pragma unroll
    for (int i = 0; i < kSums / 4; ++i) {
      const int chunk = i / (kChunk / 4), at = i % (kChunk / 4) * 4;
      sums[i * 128 + threadIdx.x] = {acc[place_of(chunk, at)], acc[place_of(chunk, at + 1)],
                                     acc[place_of(chunk, at + 2)], acc[place_of(chunk, at + 3)]};
    }
  }

  template <class Own>
  static __device__ __forceinline__ void finish(const Own& epilogue, const ContractShape& shape,
                                                int unit, int column, int group, const float4* sums,
                                                int rank) {
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      const int chunk = kSplit < kChunks ? own * kSplit + rank : rank / kShares;
      if (kChunks % kSplit != 0 && kSplit < kChunks && chunk >= kChunks) break;
      float acc[kChunk] = {};
#pragma unroll
      for (int block = 0; block < kSplit; ++block) {
#pragma unroll
        for (int i = 0; i < kChunk / 4; ++i) {
          const float4 four =
              load_of_block(sums + (chunk * (kChunk / 4) + i) * 128 + threadIdx.x, block);
          acc[4 * i] += four.x, acc[4 * i + 1] += four.y;
          acc[4 * i + 2] += four.z, acc[4 * i + 3] += four.w;
        }
      }
      finish_chunk(epilogue, shape, unit, column, group, chunk, acc);
    }
  }

  template <class Own>
  static __device__ __forceinline__ void finish_own(const Own& epilogue, const ContractShape& shape,
                                                    int unit, int column, int group,
                                                    const float (&sums)[kSums]) {
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      float acc[kChunk];
#pragma unroll
      for (int i = 0; i < kChunk; ++i) acc[i] = sums[place_of(chunk, i)];
      finish_chunk(epilogue, shape, unit, column, group, chunk, acc);
    }
  }

  template <class Own>
  static __device__ __forceinline__ void finish_chunk(const Own& epilogue,
                                                      const ContractShape& shape, int unit,
                                                      int column, int group, int chunk,
                                                      float (&acc)[kChunk]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = unit * kTileRows + warp * 16, at = column * kTileColumns;
    if constexpr (kPixelRows) {
      const int pixel = row + lane / 4 + chunk % 2 * 8;
      const int filter = at + chunk / 2 * 32 + lane % 4 * 8;
      epilogue(0, (i64)min(pixel, shape.m - 1), (i64)(group * shape.n + min(filter, shape.n - 8)),
               acc, AllOrNone{pixel < shape.m && filter < shape.n});
    } else {
      const Piece piece{group, row, at + chunk * 32, shape.m, shape.n};
      if (piece.row < piece.rows && piece.column < piece.columns) {
        Windows::template run_epilogue<32>(epilogue, piece, acc);
      }
    }
  }
};
