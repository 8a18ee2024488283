// Convolutions of few pixels and filters for sm_90a: as in convolve_sm90, but the blocks of a
// cluster share k, and the grid has a cluster for each tile. Needs what that needs, and
// convolve_sm90.cuh, before it.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(ConvolveFewSm90<...>::kThreads)
//       __cluster_dims__(kSplit, 1, 1)
//       name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ...) {
//     ConvolveFewSm90<Element, kSplit, Epilogue, WindowsB<Geometry, 64, ...>>::run(a, b, shape,
//                                                                                Epilogue{...});
//   }
// with boxes of 64 filters and of 64 pixels; or with WindowsA, where results leave with their
// channels last, and the map of pixels first. kSplit: 2, 4 or 8. Launch: kThreads threads,
// kSharedBytes of dynamic shared memory, kSplit blocks for each tile of 64 filters by 64 pixels of
// each group.
//
// Two warps copy, one for each operand, and a warpgroup multiplies. Then its sums go to shared
// memory, and each block of the cluster adds up those of all for its pieces of 16 filters by 32
// pixels, in the order of k: results do not change between runs.
//
// A block has a multiprocessor to itself, and most of what it multiplies is on its way at once. Two
// blocks of half as many steps take longer: what the exchange takes grows with the cluster. 980
// pixels of 1024 channels by 256 filters: 12.0 us for clusters of four, 8.5 of two.

template <typename Element, int kSplit, class Epilogue, class Windows>
struct ConvolveFewSm90 {
  static constexpr int kTileRows = 64, kTileColumns = 64;
  // Whether rows are pixels, and columns filters in the order of lanes; else it is the other way.
  static constexpr bool kPixelRows = Windows::kWindowsOfA;
  typedef OperandTile<Element, kTileRows, false> TileA;
  typedef OperandTile<Element, kTileColumns, false> TileB;
  typedef typename TileOfB<Element, 64, kPixelRows ? LinesOfB::kInOrder : LinesOfB::kAlong>::Type
      Filters;
  static constexpr int kTileDepth = TileA::kDepth;
  static constexpr int kBlocksPerCluster = kSplit;
  static constexpr int kThreads = 192;
  static constexpr int kStages = 12;
  typedef Stages<kStages> Ring;
  static constexpr u32 kStageBytes = TileA::kBytes + TileB::kBytes;
  static constexpr u32 kSharedBytes = kStages * kStageBytes + sizeof(Ring);
  static constexpr int kSums = kTileColumns / 2;  // of a thread
  static_assert(kSums * 128 * sizeof(float) <= kStages * kStageBytes, "sums fit where stages were");

  static __device__ __forceinline__ void run(const TensorMap& a, const TensorMap& b,
                                             const ContractShape& shape, const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    Ring& ring = *reinterpret_cast<Ring*>(shared + kStages * kStageBytes);
    if (threadIdx.x == 0) {
      ring.init(1);
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
    float acc[1][kSums];
    constexpr u32 kPixels = kPixelRows ? 0 : TileA::kBytes, kFilters = TileA::kBytes - kPixels;
    if (threadIdx.x < 128) {
      if constexpr (kPixelRows && kPrefetches<Epilogue>)
        prefetch(epilogue, shape, unit, column, group);
      multiply_all(last - first, shared, ring, acc);
    } else if (threadIdx.x == 128) {
      wait_for_previous();  // windows and weights may be of what it copied
      auto at = Ring::to_fill();
      const int filter = kPixelRows ? group * shape.n + column * 64 : unit * 64;
      for (int step = first; step < last; ++step, at.next()) {
        u64* const full = ring.wait_empty(at);
        barrier_expect(full, kStageBytes);
        Filters::template fetch<1>(shared + at.stage * kStageBytes + kFilters, kPixelRows ? b : a,
                                   full, filter, step * kTileDepth, group * shape.a_inner, 0);
      }
    } else if (threadIdx.x == 160) {
      wait_for_previous();  // windows and weights may be of what it copied
      auto at = Ring::to_fill();
      typename Windows::Windows windows((kPixelRows ? unit : column) * 64, group);
      for (int step = 0; step < first; ++step) windows.next();
      for (int step = first; step < last; ++step, at.next(), windows.next()) {
        u64* const full = ring.wait_empty(at);
        windows.template fetch<1>(shared + at.stage * kStageBytes + kPixels, kPixelRows ? a : b,
                                  full);
      }
    }
    // All that was copied has been multiplied.
    __syncthreads();
    float* const sums = reinterpret_cast<float*>(shared);
    if (threadIdx.x < 128) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i * 128 + threadIdx.x] = acc[0][i];
    }
    cluster_sync();
    const int warp = threadIdx.x / 32;
    for (int i = warp; i < 8 / kSplit; i += kThreads / 32) {
      const int number = i * kSplit + rank;
      const Piece at = piece_of(shape, unit, column, group, number);
      if (at.row < at.rows && at.column < at.columns) {
        finish(epilogue, at, sums, number % 4, number / 4);
      }
    }
    // No block may exit while another reads its sums.
    cluster_sync();
  }

  // 16 rows by 32 columns of a tile.
  static __device__ __forceinline__ Piece piece_of(const ContractShape& shape, int unit, int column,
                                                   int group, int number) {
    const int first = kPixelRows ? group * shape.n : 0;
    return {kPixelRows ? 0 : group, unit * kTileRows + number % 4 * 16,
            first + column * kTileColumns + number / 4 * 32, shape.m, first + shape.n};
  }

  // What this block's pieces read beside their sums.
  static __device__ __forceinline__ void prefetch(const Epilogue& epilogue,
                                                  const ContractShape& shape, int unit, int column,
                                                  int group) {
    const int thread = threadIdx.x, at = column * kTileColumns + thread * 8;
    if (thread < kTileColumns / 8 && at < shape.n) {
      epilogue.prefetch_columns(group * shape.n + at);
    }
    if (!kPrefetchesOwn<Epilogue> || thread >= 8 / kSplit * 16) return;
    const Piece piece =
        piece_of(shape, unit, column, group, thread / 16 * kSplit + (int)cluster_rank());
    const int row = piece.row + thread % 16, count = min(32, piece.columns - piece.column);
    if (row < piece.rows && count > 0) epilogue.prefetch_own(0, row, piece.column, count);
  }

  static __device__ __forceinline__ void multiply_all(int steps, u8* stages, Ring& ring,
                                                      float (&acc)[1][kSums]) {
    const u64 a0 = wgmma_operand(stages, TileA::kBox);
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
      if (step > 0 && threadIdx.x == 0) barrier_arrive(&ring.empty[before]);
      before = at.stage;
      at.next();
    }
    wgmma_wait<0>();
    pin(acc[0]);
  }

  // A warp's 16 rows by 32 columns.
  static __device__ __forceinline__ void finish(const Epilogue& epilogue, const Piece& piece,
                                                const float* sums, int strip, int half) {
    const int thread = strip * 32 + (int)threadIdx.x % 32;
    float acc[16] = {};
#pragma unroll
    for (int block = 0; block < kSplit; ++block) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        acc[i] += load_at(sums + (half * 16 + i) * 128 + thread, block);
      }
    }
    if constexpr (kPixelRows) {
      typename Epilogue::Rows::State rows[2] = {};
      ::run_epilogue<32, true>(epilogue, piece, acc, rows,
                               (typename Epilogue::Columns::State*)nullptr);
    } else {
      Windows::template run_epilogue<32>(epilogue, piece, acc);
    }
  }

  // The same place in block `rank` of the cluster.
  static __device__ __forceinline__ float load_at(const float* at, u32 rank) {
    u32 bits;
    asm volatile(
        "{\n.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %1, %2;\n"
        "ld.shared::cluster.u32 %0, [remote];\n}"
        : "=r"(bits)
        : "r"(shared_address(at)), "r"(rank)
        : "memory");
    return __uint_as_float(bits);
  }
};
