// C[m][n] = sum over k of A B, batched, for sm_90a, with an epilogue (epilogue.cuh) in place of a
// plain store. Needs elements.cuh, quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh,
// tile_walk.cuh, prologue.cuh, hopper.cuh, stages.cuh and rounds.cuh before it; with Groups (rows
// that are multiplied by matrices of B of their own) row_groups.cuh, and neither is A across k, nor
// are columns reduced. Where the sums of steps are scaled step_scales.cuh follows, and tiles have
// 128 rows and 128 or 256 columns, neither operand across k; with ExactSums exact_steps.cuh does,
// and tiles have 128 of each.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(ContractSm90<...>::kThreads, 1)
//       __cluster_dims__(kCluster, 1, 1)
//       name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, ...) {
//     ContractSm90<Element, kTileN, kCluster, kAlongM, kLinesOfB, Epilogue>::run(
//         a, b, shape, Epilogue{...});
//   }
// Element: bf16 or f16; or fp8, of which neither operand lies across k, and boxes are 128 long
// along it. kTileN: 64, 128, 192 or 256, and where B does not lie across 96, 160, 224 or 320, too,
// of which each step multiplies one half after the other. kCluster:
// 1 to 4 blocks, whose tiles lie above each other and which share B. kSideBySide: 1, 2 or 4 of such
// columns of blocks in a cluster, which share A. kAlongM: A lies as [k][m], its lines along m.
// Tiles have 128 rows, or 192 with MatrixOf<192> (or such WindowsA) in place of MatrixB, of 128
// columns; boxes of A then have 192 / kSideBySide rows.
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, and as grid the least of the
// multiprocessors and the blocks of all clusters of work, a multiple of a cluster's (they are
// persistent; any number works).
//
// Tensor maps, rank 4, fastest first, SWIZZLE_128B, L2 promotion 256 B, zeros outside:
//   A [m][k]: extents {k, m, inner, outer}, box {64, 128 / kSideBySide, 1, 1}
//   A [m][k] in pieces: extents {a_piece, m, k / a_piece, outer}, the same box; a_piece is a
//     multiple of 64, and inner 1
//   A [k][m]: extents {m, k, inner, outer}, box {64, 64, 1, 1}, or {32, 32, 1, 1} of floats
//   B kAlong: extents {k, n, inner, outer}, box {64, kTileN / kCluster, 1, 1}
//   B kAcross: extents {n, k, inner, outer}, box {64, 64, 1, 1}, or {32, 32, 1, 1} of floats
//   B kInOrder: extents {k, 2, n / 8, 4}, strides {1, 8, 2} lines, box {64, 2, 4, 4}; n is a
//     multiple of 8, and all batches share B. Those of groups follow each other as lines of one.
//     Where the epilogue takes pairs, two maps follow A's, of n / 2 columns each, and run() takes
//     both: of 64 columns of a tile, the first 32 are of the first and the others of the second
// Where the epilogue is of several products (SideBySide in tile_walk.cuh), one map of B for each,
// all of one form, of that product's columns; all batches share B.
// where a batch dimension that an operand broadcasts has extent 1 and step 0 in the shape. Base
// addresses and strides are multiples of 16 bytes: TMA takes nothing else (contract_sm80 does).
//
// With a Prologue (prologue.cuh), run() takes it in place of A's map: a warpgroup makes A's tiles
// out of memory and stores them as the copy engine would have. A cluster then is Prologue::kBeside
// times as wide: each of the blocks beside each other makes a share of their lines for them all.
//
// Two warps copy, one for each operand (a single one is too slow for small boxes); two warpgroups
// multiply, accumulators in registers, or three where tiles have 192 rows, of which a product may
// take one round where those of 128 take two. They share tiles of 192 columns or rows and more, 64
// rows each, one some steps behind the other; with smaller tiles they alternate, so that one's
// epilogue runs while the other multiplies: better if k is small or the epilogue long. Even then
// the epilogue is not free: each instruction on the FMA pipe costs the tensor cores about a cycle,
// those on the ALU's and the special functions' none (measured: 1280 additions more in a tile's
// epilogue make its turn 1350 cycles longer, 1280 PRMT or LOP3 by nothing). Hence split() in
// columns.cuh, and kInOrder: wgmma leaves a lane two of eight columns, and shuffling eight
// neighbours together takes five instructions per element; instead the copy engine permutes the
// lines of B. Of 32 lines, it puts line 8q + 2j + e at 8j + 2q + e: its sums are lane q's, at j and
// e.
//
// Traffic: of what a cluster's blocks share, each fetches its part and multicasts it. Two tiles
// above each other share B: for 64 of k a block reads 32 KiB from the L2 where a tile has 256
// columns, for 1024 cycles of multiplying; 24 for 512 where it has 128; 26 for 640 where it has
// 160, or 18 if four tiles are a square, but then a tenth of the multiprocessors is in no cluster.
// If all work, the L2 gives each 36 bytes a cycle: it bounds narrow tiles, and what an epilogue
// reads beside comes on top. Tiles side by side share A, and read more; but their rows are no pairs
// of 128, of which a product of 1072 rows would leave a sixth empty. A large product runs
// at the power limit, and these bytes take their part of it: plain products of 8192^3, with pauses
// between, take 7 % longer with 128 columns than with 256, and 5 % with 160.

// How a prologue's rows come to the stages: prologue_sm90.cuh, which follows this file where one
// is.
template <class Contract, class Prologue>
struct MadeRows;

// How the sums of each step are scaled: step_scales.cuh, which follows this file where they are.
template <class Scales, int kTileN, bool kInOrder>
struct StepScales;

// How 32-bit floats are multiplied in full: exact_steps.cuh, which follows this file where they
// are.
template <class Contract>
struct ExactSteps;

// Both operands are matrices. Another source (WindowsB in convolve_sm90.cuh, PixelsB in
// convolve_pixels_sm90.cuh) fetches B, and runs the epilogue, by itself; its tiles may have 64
// rows, in boxes of as many. WindowsA (convolve_sm90.cuh) fetches A. PixelsB has a warpgroup copy
// it (kCopies), from a pointer in place of a map.
template <int kRows>
struct MatrixOf {
  static constexpr bool kWindows = false, kWindowsOfA = false, kCopies = false;
  static constexpr int kTileRows = kRows;
  template <typename Element, int kTileN, bool kAcross>
  using Tile = OperandTile<Element, kTileN, kAcross>;
  template <typename Element>
  struct Windows {
    __device__ __forceinline__ Windows(int, int) {}
  };
};
typedef MatrixOf<128> MatrixB;

template <typename Element, int kTileN, int kCluster, bool kAlongM, LinesOfB kLinesOfB,
          class Epilogue, class SourceOfB = MatrixB, class Prologue = NoPrologue,
          int kSideBySide = 1, class Groups = NoGroups, class Sums = SumsInPlace>
struct ContractSm90 {
  static constexpr int kTileRows = SourceOfB::kTileRows, kTileColumns = kTileN;
  static constexpr bool kAlongN = kLinesOfB == LinesOfB::kAcross;
  static constexpr bool kInOrder = kLinesOfB == LinesOfB::kInOrder;
  typedef OperandTile<Element, kTileRows, kAlongM> TileA;
  typedef typename SourceOfB::template Tile<Element, kTileN, kAlongN> TileB;
  static constexpr int kTileDepth = TileA::kDepth;
  static constexpr int kBeside = Prologue::kBeside * kSideBySide;
  static_assert(kSideBySide == 1 || Prologue::kBeside == 1, "one of them shares A");
  static_assert(!kAlongM || kSideBySide <= 2, "boxes of 64 rows");
  static constexpr int kBlocksPerCluster = kCluster * kBeside;
  static constexpr int kUnitRows = kTileRows * kCluster;
  // Warpgroups: of high tiles, one for each 64 rows.
  static constexpr int kConsumers = kTileRows > 128 ? kTileRows / 64 : 2;
  static constexpr int kThreads = 128 * (kConsumers + 1);
  // Whether sums of a step are added apart from the tensor cores, by one warpgroup while the other
  // multiplies.
  static constexpr bool kApart = Sums::kKind != StepSums::kInPlace;
  // Large tiles are shared: each warpgroup has half of the rows. Smaller ones alternate otherwise.
  static constexpr bool kAlternate =
      kTileRows < 128 || (kTileN < 192 && kTileRows == 128 && !kApart);
  // Of 64 rows, that a warpgroup has of a tile.
  static constexpr int kStrips = kAlternate ? kTileRows / 64 : 1;
  // Steps by which a warpgroup is ahead of the next: half of the stages; the others are being
  // filled.
  static constexpr int kLead = kConsumers == 2 ? 2 : 1;
  // Whether stages have room for B's parts: behind its lines of k what tf32 misses of them, behind
  // those across k both.
  static constexpr bool kSplits = Sums::kKind == StepSums::kExact;
  static_assert(!kSplits || (kTileRows == 128 && kTileN == 128), "64 rows for each warpgroup");
  static constexpr int kStages = kTileRows != 128 || kTileN == 192               ? 5
                                 : kSplits                                       ? (kAlongN ? 3 : 4)
                                 : kTileN < 96                                   ? 8
                                 : kTileN < 192                                  ? 6
                                 : kTileN > 256 && Epilogue::Columns::kParts > 0 ? 3
                                                                                 : 4;
  typedef Stages<kStages, kSplits> Ring;
  static constexpr u32 kCopiedBytes = TileA::kBytes + TileB::kBytes;
  static constexpr u32 kStageBytes =
      kCopiedBytes + (kSplits ? (kAlongN ? 2 : 1) * TileB::kBytes : 0);
  static constexpr bool kMakes = Prologue::kHere;
  static_assert(!kMakes || (!kAlongM && !SourceOfB::kWindows && kTileRows == 128), "lines of k");
  static constexpr bool kPairs = kTakesPairs<Epilogue>;
  // Columns of a box; of two halves, those that lie side by side.
  static constexpr int kBoxColumns = kAlongN ? kTileDepth : 32;
  static_assert(!kPairs || ((kInOrder || kAlongN) && kTileN % (2 * kBoxColumns) == 0),
                "as many of each half");
  typedef ProductsOf<Epilogue> Products;
  static constexpr int kMapsOfB = kPairs ? 2 : Products::kProducts;
  typedef SourcesOfB<TensorMap, kMapsOfB> MapsOfB;
  static constexpr int kColumnParts = Epilogue::Columns::kParts;
  typedef typename Epilogue::Columns::State ColumnState;
  typedef typename Epilogue::Rows::State RowState;
  // Shared tiles leave registers for an operand that is as large as C: it is loaded beside the last
  // steps, 32 columns beside each second one, as the L2 gives little more than these take.
  typedef AheadIn<Epilogue> Ahead;
  static constexpr bool kAhead = Ahead::kHere && !kAlternate && kTileN <= 256 && !kApart;
  static constexpr int kTail = kAhead ? kTileN / 32 : 0;
  // Narrow ones leave some, too: all that a strip reads is loaded at once.
  static constexpr bool kAheadOfStrips = Ahead::kHere && kAlternate && kTileN <= 128;
  static constexpr int kAheadGroups = kAhead || kAheadOfStrips ? kTileN / 32 : 1;
  typedef typename Ahead::Type Operands[kAheadGroups][2];  // of a lane's two rows
  // Where the source of B stores what an epilogue makes, a warp has so much for it.
  typedef MadeIn<Epilogue> Made;
  static constexpr u32 kMadePart = 4096;
  static constexpr u32 kMadeBytes = Made::kHere ? 4 * kConsumers * kMadePart : 0;
  // Each warp's states of its tile's columns.
  static constexpr u32 kStateBytes = kColumnParts * 4 * 4 * kConsumers * kTileN;
  // Each warpgroup's terms of its tile's columns. Of the widest there is no room for any.
  static constexpr int kTerms = kTileN <= 256 ? kTermsOf<Epilogue> : 0;
  static constexpr u32 kTermBytes = kTerms * 4 * kConsumers * kTileN;
  static constexpr u32 kScaleBytes = Sums::kEachColumn ? 4 * kConsumers * 2 * kTileN : 0;
  static constexpr u32 kSharedBytes =
      kStages * kStageBytes + kMadeBytes + kStateBytes + kTermBytes + kScaleBytes + sizeof(Ring);
  static constexpr bool kCopies = SourceOfB::kCopies;
  static constexpr bool kWindowsOfA = SourceOfB::kWindowsOfA;
  static_assert(!kWindowsOfA || (kInOrder && !kAlongM), "lines of filters");
  static_assert(kTileN % 64 == 0 || (kTileN % 32 == 0 && !kAlongN) || kCopies,
                "boxes of 64 columns");

  // Named barriers; 2 and 3 are the warpgroups' own.
  static constexpr int kTurnBarrier = 4;  // and 5
  static constexpr int kStaggerBarrier = 8;

  template <class A>
  static __device__ __forceinline__ void run(const A& a, const TensorMap& b,
                                             const ContractShape& shape, const Epilogue& epilogue,
                                             const Groups& groups = {},
                                             const Sums& step_sums = {}) {
    run(a, MapsOfB{{&b}}, shape, epilogue, groups, step_sums);
  }
  template <class A, class B>
  static __device__ __forceinline__ void run(const A& a, const B& b, const ContractShape& shape,
                                             const Epilogue& epilogue, const Groups& groups = {},
                                             const Sums& step_sums = {}) {
    static_assert(!kApart || kTileRows == 128, "64 for each warpgroup");
    static_assert(!Groups::kHere || (!kAlongM && !kMakes && !SourceOfB::kWindows && !kWindowsOfA &&
                                     kColumnParts == 0),
                  "rows begin anywhere");
    extern __shared__ __align__(1024) u8 shared[];
    ColumnState* const column_states =
        reinterpret_cast<ColumnState*>(shared + kStages * kStageBytes + kMadeBytes);
    float* const terms =
        reinterpret_cast<float*>(shared + kStages * kStageBytes + kMadeBytes + kStateBytes);
    Ring& ring = *reinterpret_cast<Ring*>(shared + kSharedBytes - sizeof(Ring));
    if (threadIdx.x == 0) {
      ring.init((kAlternate ? 1 : kConsumers) * kBlocksPerCluster, kMakes    ? 2
                                                                   : kCopies ? 1 + 4
                                                                             : 1);
      if constexpr (kSplits) ExactSteps<ContractSm90>::init(ring);
      barrier_init_done();
      if constexpr (!kMakes) prefetch_map(a);
      if constexpr (!kCopies) {
#pragma unroll
        for (int i = 0; i < kMapsOfB; ++i) prefetch_map(*b.of[i]);
      }
    }
    if constexpr (kBlocksPerCluster > 1)
      cluster_sync_inits();
    else
      __syncthreads();

    // Blocks above each other come one after the other.
    const u32 block = kBlocksPerCluster > 1 ? cluster_rank() : 0;
    const u32 rank = block % kCluster;
    const int beside = block / kCluster;
    const TileWalk walk = groups.walk(shape, kUnitRows, kTileN * kBeside);
    const int steps = (shape.k + kTileDepth - 1) / kTileDepth;
    if (threadIdx.x / 128 == 0) {
      if constexpr (kMakes) {
        shrink_registers<152>();
        MadeRows<ContractSm90, Prologue>::make(a, b, shape, walk, steps, rank, beside, shared,
                                               ring);
      } else if constexpr (kCopies) {
        shrink_registers<56>();
        SourceOfB::template copy<ContractSm90>(a, b, shape, walk, steps, shared, ring);
      } else {
        shrink_registers<kSplits ? 56 : 40>();
        if constexpr (kSplits) {
          if (threadIdx.x >= 64) ExactSteps<ContractSm90>::split(walk, steps, shared, ring);
        }
        if (threadIdx.x == 0) {
          produce<true>(a, b, shape, walk, groups, steps, rank, beside, shared, ring, epilogue);
        }
        if (threadIdx.x == 32) {
          produce<false>(a, b, shape, walk, groups, steps, rank, beside, shared, ring, epilogue);
        }
      }
    } else {
      grow_registers<kMakes ? 176 : kCopies || kSplits ? 224 : (kConsumers > 2) ? 152 : 232>();
      consume(shape, walk, groups, step_sums, steps, rank, beside, shared, ring, column_states,
              terms, epilogue);
      if constexpr (Made::kHere) stores_wait<0>();
    }
    // No block may exit while another's copies and arrivals are still addressed to it: other
    // producers have waited for these.
    if constexpr (kBlocksPerCluster > 1 && (kMakes || kCopies)) {
      __syncwarp();
      cluster_sync();
    }
  }

  // All of an operand's boxes. A's also announces the bytes of both, whichever come first.
  template <bool kOfA>
  static __device__ __forceinline__ void produce(const TensorMap& a, const MapsOfB& b,
                                                 const ContractShape& shape, const TileWalk& walk,
                                                 const Groups& groups, int steps, u32 rank,
                                                 int beside, u8* stages, Ring& ring,
                                                 const Epilogue& epilogue) {
    wait_for_previous();  // windows may be of what it copied
    auto at = Ring::to_fill();
    const int stride = gridDim.x / kBlocksPerCluster;
    const bool leads = kOfA && rank == 0 && beside == 0;
    for (int tile = blockIdx.x / kBlocksPerCluster; tile < walk.total; tile += stride) {
      if (leads) Rounds::begin(tile - tile % stride);
      int column;
      const TileRows rows = groups.locate(walk, shape, kUnitRows, tile, &column);
      const TileColumn at_column =
          Products::template locate<kTileN>(column * kBeside + beside, shape.n);
      const int n = at_column.column * kTileN;
      const TensorMap& map = kOfA ? a : *b.at(kPairs ? 0 : at_column.product);
      const int outer = (kOfA ? rows.batch : rows.matrix) / shape.inner;
      const int inner = rows.batch % shape.inner;
      const int c2 = inner * (kOfA ? shape.a_inner : shape.b_inner);
      const int c3 = outer * (kOfA ? shape.a_outer : shape.b_outer);
      constexpr int kShare = kTileN / kCluster;  // of B, that this block fetches
      constexpr int kShareOfA = kTileRows / kBeside;
      // Where there is no matrix the engine brings zeros, as for all that lies outside.
      const int row = rows.none ? shape.m : rows.first + (int)rank * kTileRows + beside * kShareOfA;
      typename SourceOfB::template Windows<Element> windows(
          kWindowsOfA ? row : n + (int)rank * kShare, inner);
      // All of a short k is unrolled, though these warps have no registers for it: 1 % faster.
      for (int step = 0; step < steps; ++step, at.next()) {
        u8* const to = stages + at.stage * kStageBytes;
        u64* const full = ring.wait_empty(at);
        int k = step * kTileDepth;
        if constexpr (kOfA) {
          barrier_expect(full, kCopiedBytes);
          if constexpr (kPrefetchesOwn<Epilogue> && !kAlternate) {
            const Piece tile = piece_at(rows, rows.first + (int)rank * kTileRows, at_column);
            prefetch_rows(epilogue, tile, kTileRows * step / steps, kTileRows * (step + 1) / steps);
          }
          // This block's share, to all blocks beside it.
          typedef OperandTile<Element, kShareOfA, kAlongM> Share;
          if constexpr (kWindowsOfA) {
            windows.template fetch<kBeside, kCluster>(to + beside * Share::kBytes, map, full, rank);
            windows.next();
          } else {
            int piece = c2;
            if (shape.a_piece != 0) piece = k / shape.a_piece, k %= shape.a_piece;
            Share::template fetch<kBeside, kCluster>(to + beside * Share::kBytes, map, full, row, k,
                                                     piece, c3, kEvictNormal, rank);
          }
        } else if constexpr (SourceOfB::kWindows) {
          windows.template fetch<kCluster>(to + TileA::kBytes + rank * kShare * 128, map, full);
          windows.next();
        } else {
          fetch_b(to + TileA::kBytes, map, *b.of[kMapsOfB - 1], full,
                  kWindowsOfA ? n + inner * shape.n : n, k, c2, c3, rank, 0,
                  kBeside > 1 ? beside * kCluster : 0, Groups::kHere ? rows.matrix * shape.n : 0);
        }
      }
      if (leads) Rounds::end(walk.total);
    }
    if constexpr (kOfA && kBlocksPerCluster > 1) {
#pragma unroll 1
      for (int stage = 0; stage < kStages; ++stage, at.next()) ring.wait_empty(at);
    }
  }

  // This block's share of the tile, to all blocks above each other, the first of which is `top`.
  // kIssuers threads issue its boxes, where it is more than one. `before`: lines of other groups,
  // where lines are in order.
  template <int kIssuers = 1>
  static __device__ __forceinline__ void fetch_b(u8* to, const TensorMap& b, const TensorMap& b2,
                                                 u64* barrier, int n, int k, int c2, int c3,
                                                 u32 rank, int issuer = 0, u32 top = 0,
                                                 int before = 0) {
    constexpr u32 kBox = TileB::kBox;
    constexpr int kTurns = kIssuers * kCluster, kBoxes = kTileN / kBoxColumns;
    // Of an odd number of boxes, the blocks take the larger part in turns.
    const int turn = issuer * kCluster + ((int)rank + k / kTileDepth) % kCluster;
    if constexpr (kAlongN) {
#pragma unroll
      for (int j = 0; j < (kBoxes + kTurns - 1) / kTurns; ++j) {
        const int i = j * kTurns + turn;
        if ((j + 1) * kTurns > kBoxes && i >= kBoxes) break;
        const int line = kPairs ? n / 2 + i / 2 * kBoxColumns : n + i * kBoxColumns;
        copy_box_to_all<kCluster>(to + i * kBox, kPairs && i % 2 == 1 ? b2 : b, barrier, line, k,
                                  c2, c3, kEvictNormal, top);
      }
    } else if constexpr (kInOrder) {
#pragma unroll
      for (int j = 0; j < (kBoxes + kTurns - 1) / kTurns; ++j) {
        const int i = j * kTurns + turn;
        if ((j + 1) * kTurns > kBoxes && i >= kBoxes) break;
        const int line = kPairs ? n / 2 + i / 2 * kBoxColumns : n + i * kBoxColumns;
        copy_box_to_all<kCluster>(to + i * (kBox / 2), kPairs && i % 2 == 1 ? b2 : b, barrier, k, 0,
                                  (before + line) / 8, 0, kEvictNormal, top);
      }
    } else if (issuer == 0) {
      typedef OperandTile<Element, kTileN / kCluster, false> Share;
      Share::template fetch<kCluster>(to + rank * Share::kBytes, b, barrier,
                                      n + (int)rank * (kTileN / kCluster), k, c2, c3, kEvictNormal,
                                      top);
    }
  }

  static __device__ __forceinline__ void consume(const ContractShape& shape, const TileWalk& walk,
                                                 const Groups& groups, const Sums& step_sums,
                                                 int steps, u32 rank, int beside, u8* stages,
                                                 Ring& ring, ColumnState* column_states,
                                                 float* terms, const Epilogue& epilogue) {
    const int consumer = threadIdx.x / 128 - 1;
    const int thread = threadIdx.x % 128;
    const u64 a0 = wgmma_operand(stages + (kAlternate ? 0 : consumer) * TileA::kBox, TileA::kBox);
    const u64 b0 = wgmma_operand(stages + TileA::kBytes, TileB::kBox);
    auto at = Ring::to_read();
    const int stride = gridDim.x / kBlocksPerCluster;
    int tile = blockIdx.x / kBlocksPerCluster;
    bool first = !kAlternate && !kApart;
    const int lead = min(kLead, steps) - 1;
    terms += consumer * kTerms * kTileN;
    if constexpr (kAlternate) {
      if (consumer == 1) {
        tile += stride, at.skip(steps);
        group_arrive(kTurnBarrier, 256);
      }
    } else if (first && consumer > 0 && tile < walk.total) {
      group_sync(kStaggerBarrier + consumer - 1, 256);
    }
    constexpr bool kTilesAhead = kPrefetchesOwn<Epilogue> && kAlternate;
    if constexpr (kTilesAhead) prefetch_tile(epilogue, shape, walk, groups, tile, rank, beside);
    for (; tile < walk.total; tile += (kAlternate ? kConsumers : 1) * stride) {
      if constexpr (kTilesAhead) {
        prefetch_tile(epilogue, shape, walk, groups, tile + kConsumers * stride, rank, beside);
      }
      float acc[kStrips][kTileN / 2];
      int before = 0;
      int column;
      const TileRows rows = groups.locate(walk, shape, kUnitRows, tile, &column);
      const TileColumn at_column =
          Products::template locate<kTileN>(column * kBeside + beside, shape.n);
      const int row = rows.first + (int)rank * kTileRows +
                      (kAlternate ? 0 : consumer * ContractShape::kStripRows);
      Operands operands;
      const auto advance = [&](int step) {
        ring.wait_full(at);
        const u32 offset = (u32)at.stage * (kStageBytes >> 4);
        if constexpr (!kSplits) {
          multiply_stage<TileA, TileB>(acc, a0 + offset, b0 + offset, step > 0);
        }
        if (first && consumer < kConsumers - 1 && step == lead) {
          group_arrive(kStaggerBarrier + consumer, 256);
          first = false;
        }
      };
      const auto retire = [&](int step) {
        // The products of the previous step are done: its stage may be filled again.
        wgmma_wait<1>();
        if (step > 0) release(&ring.empty[before], thread);
        before = at.stage;
        at.next();
      };
      if constexpr (kTerms > 0) {
        group_sync(1 + threadIdx.x / 128, 128);  // those of the tile before were read
        const Piece piece = piece_of(rows, row, at_column);
        WithTerms<Epilogue, kTileN>{epilogue, terms, piece.column}.find(thread);
      }
      // The other warpgroup has seen all stages before these: a barrier's parity tells a phase from
      // the next, but not from the one after that.
      if constexpr (kAlternate) group_sync(kTurnBarrier + consumer, 256);
      int step = 0;
      if constexpr (kSplits) {
        step = ExactSteps<ContractSm90>::multiply(acc[0], steps, stages, ring, at);
      } else if constexpr (kApart) {
        typedef StepScales<Sums, kTileN, kInOrder> Factors;
        typedef OperandTile<Element, Factors::kTogether, false> PartOfB;
        float* const shared =
            reinterpret_cast<float*>(stages + kSharedBytes - sizeof(Ring) - kScaleBytes);
        Factors factors(step_sums, piece_of(rows, row, at_column), steps,
                        shared + consumer * Factors::kColumns);
#pragma unroll
        for (int i = 0; i < kTileN / 2; ++i) acc[0][i] = 0;
#pragma unroll(Factors::kShared ? 1 : Factors::kAhead + 1)
        for (; step < steps; ++step) {
          ring.wait_full(at);
          const u32 offset = (u32)at.stage * (kStageBytes >> 4);
#pragma unroll
          for (int part = 0; part < Factors::kParts; ++part) {
            float sums[1][Factors::kTogether / 2];
            multiply_stage<TileA, PartOfB>(sums, a0 + offset,
                                           b0 + offset + part * (PartOfB::kBytes >> 4), false);
            if (part == 0) factors.begin(step);
            wgmma_wait<0>();
            if (part + 1 == Factors::kParts) release(&ring.empty[at.stage], thread);
            pin(sums[0]);
            factors.add(acc[0], sums[0], step, part);
          }
          at.next();
        }
      } else {
#pragma unroll 2
        for (; step < steps - 2 * kTail; ++step) {
          advance(step);
          retire(step);
        }
      }
      if constexpr (kAhead) {
        const Piece piece = piece_of(rows, row, at_column);
#pragma unroll
        for (int group = 0; group < kTail; ++group) {
          load_group_ahead(epilogue, piece, group, operands[group]);
          const int last = min(step + 2, steps);
#pragma unroll 1
          for (; step < last; ++step) {
            advance(step);
            retire(step);
          }
        }
      }
      if constexpr (kAlternate) group_arrive(kTurnBarrier + (consumer ^ 1), 256);
      if constexpr (kAheadOfStrips) {
        load_strip_ahead(epilogue, piece_of(rows, row, at_column), operands);
      }
      if constexpr (!kApart) {
        wgmma_wait<0>();
        release(&ring.empty[before], thread);
      }
      if constexpr (kTerms > 0) group_sync(1 + threadIdx.x / 128, 128);
#pragma unroll
      for (int i = 0; i < kStrips; ++i) {
        const int strip = row + i * ContractShape::kStripRows;
        pin(acc[i]);
        if constexpr (kAheadOfStrips) {
          if (i > 0) {
            load_strip_ahead(epilogue, piece_of(rows, strip, at_column), operands);
          }
        }
        if constexpr (Made::kHere) {
          if (strip >= rows.end) continue;
          SourceOfB::template store_flat<kTileN>(
              epilogue, piece_of(rows, strip, at_column), acc[i],
              reinterpret_cast<typename Made::Type*>(stages + kStages * kStageBytes +
                                                     (threadIdx.x / 32 - 4) * kMadePart));
        } else {
          Products::template finish<ContractSm90>(epilogue, at_column, rows, strip, acc[i],
                                                  operands, column_states + consumer * 4 * kTileN,
                                                  terms);
        }
      }
      if constexpr (kAlternate) at.skip(steps);  // the other warpgroup's tile
    }
  }

  static __device__ __forceinline__ void load_strip_ahead(const Epilogue& epilogue,
                                                          const Piece& piece, Operands& operands) {
#pragma unroll
    for (int group = 0; group < kAheadGroups; ++group) {
      load_group_ahead(epilogue, piece, group, operands[group]);
    }
  }

  // One thread for each block that copies into this stage.
  static __device__ __forceinline__ void release(u64* barrier, int thread) {
    if constexpr (kBlocksPerCluster > 1) {
      if (thread < kBlocksPerCluster) barrier_arrive_at(barrier, thread);
    } else {
      if (thread == 0) barrier_arrive(barrier);
    }
  }

  // What the epilogue reads of a tile's rows.
  static __device__ __forceinline__ void prefetch_rows(const Epilogue& epilogue, const Piece& tile,
                                                       int first, int end) {
    const int count = min(kTileN, tile.columns - tile.column);
    if (count <= 0) return;
    for (int row = tile.row + first; row < min(tile.row + end, tile.rows); ++row) {
      epilogue.prefetch_own(tile.batch, row, tile.column, count);
    }
  }

  // The same of a whole tile, if it is one of the walk's, by a warpgroup.
  static __device__ __forceinline__ void prefetch_tile(const Epilogue& epilogue,
                                                       const ContractShape& shape,
                                                       const TileWalk& walk, const Groups& groups,
                                                       int number, u32 rank, int beside) {
    const int thread = threadIdx.x % 128;
    if (number >= walk.total || thread >= kTileRows) return;
    int column;
    const TileRows rows = groups.locate(walk, shape, kUnitRows, number, &column);
    const TileColumn at = Products::template locate<kTileN>(column * kBeside + beside, shape.n);
    const Piece tile = piece_at(rows, rows.first + (int)rank * kTileRows, at);
    prefetch_rows(epilogue, tile, thread, thread + 1);
  }

  // This warp's 16 of the 64 rows of a strip that begins at `row`.
  static __device__ __forceinline__ Piece piece_of(const TileRows& rows, int row,
                                                   const TileColumn& at) {
    return piece_at(rows, row + (int)(threadIdx.x / 32 % 4) * 16, at);
  }
  static __device__ __forceinline__ Piece piece_at(const TileRows& rows, int row,
                                                   const TileColumn& at) {
    const int column = at.column * kTileN;
    // One matrix, of which each group has columns.
    if constexpr (kWindowsOfA) {
      return {0, row, rows.batch * at.columns + column, rows.end, (rows.batch + 1) * at.columns};
    }
    return {rows.batch, row, column, rows.end, at.columns};
  }

  // The epilogue of 64 rows from `first` on, 16 per warp, of the tile's product.
  template <class Own>
  static __device__ __forceinline__ void finish(const Own& epilogue, const TileColumn& at,
                                                const TileRows& tile, int first,
                                                const float (&acc)[kTileN / 2],
                                                const Operands& operands,
                                                ColumnState* column_states, float* terms) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    if (first >= tile.end) return;
    if (kBeside > 1 && at.column * kTileN >= at.columns) return;
    const Piece piece = piece_of(tile, first, at);
    if constexpr (SourceOfB::kWindows) {
      SourceOfB::template run_epilogue<kTileN>(epilogue, piece, acc);
      return;
    }
    RowState rows[2] = {Epilogue::Rows::none(), Epilogue::Rows::none()};
    if constexpr (kTerms > 0) {
      run_epilogue<kTileN, kInOrder, kBoxColumns>(
          WithTerms<Own, kTileN>{epilogue, terms, piece.column}, piece, acc, operands, rows,
          column_states + warp * kTileN);
      return;
    }
    run_epilogue<kTileN, kInOrder, kBoxColumns>(epilogue, piece, acc, operands, rows,
                                                column_states + warp * kTileN);
    if constexpr (Epilogue::Rows::kParts > 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows[half] = merge_with_lane<typename Epilogue::Rows>(rows[half], 1);
        rows[half] = merge_with_lane<typename Epilogue::Rows>(rows[half], 2);
        const int row = piece.row + lane / 4 + 8 * half;
        if (lane % 4 == 0 && row < tile.end)
          epilogue.row_done(tile.batch, row, at.column, rows[half]);
      }
    }
    if constexpr (kColumnParts > 0) {
      const int group = 1 + threadIdx.x / 128;
      group_sync(group, 128);
#pragma unroll
      for (int i = threadIdx.x % 128; i < kTileN; i += 128) {
        ColumnState state = column_states[i];
#pragma unroll
        for (int w = 1; w < 4; ++w) {
          state = Epilogue::Columns::merge(state, column_states[w * kTileN + i]);
        }
        if (piece.column + i < at.columns)
          epilogue.column_done(tile.batch, first / ContractShape::kStripRows, piece.column + i,
                               state);
      }
      group_sync(group, 128);  // the next tile's states go to the same place
    }
  }
};
