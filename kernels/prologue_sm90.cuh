// How ContractSm90 makes the tiles of its first operand where a prologue (prologue.cuh) computes
// it. Needs contract_sm90.cuh before it.
//
// Of blocks beside each other, whose columns need the same lines, each makes a share of a tile's
// and sends it to the others as a copy from shared memory to theirs; so a stage is full when the
// warpgroup has made its own share, and the bytes of the others' and of B have arrived.

template <class Contract, class Prologue>
struct MadeRows {
  static constexpr int kTileRows = Contract::kTileRows, kTileDepth = Contract::kTileDepth;
  static constexpr int kTileN = Contract::kTileColumns;
  static constexpr int kBeside = Contract::kBeside;
  static constexpr int kBlocksPerCluster = Contract::kBlocksPerCluster;
  static constexpr int kAbove = kBlocksPerCluster / kBeside;
  static constexpr int kMadeBarrier = 9;  // beside those of ContractSm90
  typedef typename Contract::Ring Ring;
  typedef typename Contract::MapsOfB MapsOfB;

  // All of the tiles, by a warpgroup. A thread makes what it has loaded, of some steps or of a part
  // of one, loads as much again, and only then waits for room: loads are in flight all the time.
  static __device__ __forceinline__ void make(const Prologue& prologue, const MapsOfB& b,
                                              const ContractShape& shape, const TileWalk& walk,
                                              int steps, u32 rank, int beside, u8* stages,
                                              Ring& ring) {
    constexpr int kLines = kTileRows / kBeside;
    typedef PrologueTile<Prologue, kLines, kTileDepth, 128> Tile;
    constexpr int kAheadOf = Tile::kAhead;
    constexpr int kSteps = kAheadOf > Tile::kChunks ? kAheadOf / Tile::kChunks : 1;
    constexpr int kParts = Tile::kChunks > kAheadOf ? Tile::kChunks / kAheadOf : 1;
    constexpr int kChunks = Tile::kChunks / kParts;  // of a step, made at once
    const int stride = gridDim.x / kBlocksPerCluster;
    const int line = beside * kLines + Tile::line(threadIdx.x);
    const int in_step = Tile::column(threadIdx.x);
    const int rounds = (steps + kSteps - 1) / kSteps;
    int tile = blockIdx.x / kBlocksPerCluster;
    if (tile >= walk.total) return;
    Loaded<typename Tile::Function> loaded[kAheadOf];
    const auto load = [&](i64 q, int m, int first_step, int part) {
#pragma unroll
      for (int i = 0; i < kAheadOf; ++i) {
        loaded[i] = Tile::load(prologue, shape, q, m + (part * kChunks + i % kChunks) * Tile::kStep,
                               (first_step + i / kChunks) * kTileDepth + in_step);
      }
    };
    int batch, unit, column;
    walk.locate(tile, &batch, &unit, &column);
    i64 q = first_line<Prologue>(shape, batch);
    int m = (unit * kAbove + (int)rank) * kTileRows + line;
    load(q, m, 0, 0);
    auto at = Ring::to_fill();
    while (tile < walk.total) {
      const int outer = batch / shape.inner, inner = batch % shape.inner;
      const int c2 = inner * shape.b_inner, c3 = outer * shape.b_outer;
      const TileColumn at_column =
          Contract::Products::template locate<kTileN>(column * kBeside + beside, shape.n);
      const int n = at_column.column * kTileN;
      const TensorMap& map = *b.at(Contract::kPairs ? 0 : at_column.product);
      // The next tile; the last one is loaded again, for nobody.
      i64 next_q = q;
      int next_m = m;
      tile += stride;
      if (tile < walk.total) {
        walk.locate(tile, &batch, &unit, &column);
        next_q = first_line<Prologue>(shape, batch);
        next_m = (unit * kAbove + (int)rank) * kTileRows + line;
      }
      // Steps behind the last one are made for nobody, too.
      const auto fill = [&](int first, i64 q_ahead, int m_ahead, int first_ahead) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          uint4 words[kAheadOf];
#pragma unroll
          for (int i = 0; i < kAheadOf; ++i) {
            words[i] = Tile::make(loaded[i], shape, (first + i / kChunks) * kTileDepth + in_step);
          }
          if (part + 1 < kParts) {
            load(q, m, first, part + 1);
          } else {
            load(q_ahead, m_ahead, first_ahead, 0);
          }
#pragma unroll
          for (int i = 0; i < kSteps; ++i) {
            if (kSteps > 1 && first + i >= steps) break;
            u8* const to = stages + at.stage * Contract::kStageBytes;
            u64* const full = &ring.full[at.stage];
            if (part == 0) {
              ring.wait_empty(at);
              begin_stage(to, map, *b.of[Contract::kMapsOfB - 1], full, n, (first + i) * kTileDepth,
                          c2, c3, rank, beside);
            }
#pragma unroll
            for (int chunk = 0; chunk < kChunks; ++chunk) {
              const int row = line + (part * kChunks + chunk) * Tile::kStep;
              // As the copy engine's 128-byte swizzle has it.
              *reinterpret_cast<uint4*>(to + row * 128 + ((in_step / 8 ^ (row & 7)) << 4)) =
                  words[i * kChunks + chunk];
            }
            if (part + 1 == kParts) {
              hand_over(to, full, rank, beside);
              at.next();
            }
          }
        }
      };
      // The last steps apart, so that the addresses of a tile's lines are worked out once.
#pragma unroll 1
      for (int round = 0; round + 1 < rounds; ++round) {
        fill(round * kSteps, q, m, (round + 1) * kSteps);
      }
      fill((rounds - 1) * kSteps, next_q, next_m, 0);
      q = next_q, m = next_m;
    }
  }

  // Announces what other blocks and the copy engine bring to a stage, and fetches B: a thread of
  // each of the warps that make A issues some of its boxes.
  static __device__ __forceinline__ void begin_stage(u8* stage, const TensorMap& b,
                                                     const TensorMap& b2, u64* full, int n, int k,
                                                     int c2, int c3, u32 rank, int beside) {
    if (threadIdx.x % 32 != 0) return;
    if (threadIdx.x == 0) {
      barrier_expect(full,
                     Contract::TileB::kBytes + Contract::TileA::kBytes / kBeside * (kBeside - 1));
    }
    Contract::template fetch_b<4>(stage + Contract::TileA::kBytes, b, b2, full, n, k, c2, c3, rank,
                                  threadIdx.x / 32, beside * kAbove);
  }

  // What the warpgroup has made of a stage, to this block and those beside it: a warp for each.
  static __device__ __forceinline__ void hand_over(u8* stage, u64* full, u32 rank, int beside) {
    constexpr u32 kBytes = Contract::TileA::kBytes / kBeside;
    static_assert(kBeside <= 4, "warps");
    stores_fence();
    group_sync(kMadeBarrier, 128);
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 != 0 || warp >= kBeside) return;
    if (warp == beside) {
      barrier_arrive(full);
    } else {
      copy_to_block(stage + beside * kBytes, full, warp * kAbove + rank, kBytes);
    }
  }
};
