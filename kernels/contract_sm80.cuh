// C[m][n] = sum over k of A B, batched, for sm_80 and everything after it, of any size, stride and
// alignment, with an epilogue (epilogue.cuh) in place of a plain store. Needs elements.cuh,
// quick.cuh, accumulators.cuh, columns.cuh, epilogue.cuh, tile_walk.cuh, prologue.cuh, mma.cuh and
// operand_sm80.cuh before it; with Groups (rows that are multiplied by matrices of B of their own)
// row_groups.cuh, and neither is A across k, nor are columns reduced.
//
// An entry is
//   extern "C" __global__ void __launch_bounds__(Contract::kThreads, Contract::kBlocksPerSm)
//       name(const Element* a, const Element* b, ...) {
//     Contract::run(a, b, shape, strides, Epilogue{...});
//   }
// with Contract = ContractSm80<Element, Product, Tile, kAlignA, kAlignB, kAlongM, kAlongN,
// Epilogue>. Element: bf16, f16, f32, or fp8 (4 to 16 elements aligned, and neither
// operand across k).
// Product: what they are multiplied as: the same (f32 means tf32), or exact_f32. kAlign: 8, 4, 2 or
// 1 (16 for fp8): every row (the lines below) begins at a multiple of that many elements, and of as
// many bytes in memory, which is even. kAlongM: A lies as [k][m], else [m][k]. kAlongN: B lies as
// [k][n], else [n][k].
// With a Prologue (prologue.cuh) run() takes it in place of a: elements are of 16 bits.
//
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, kSplit blocks for each tile of
// kTileRows x kTileColumns of each batch. Where kSplit > 1, `work`: kTileWorkspaceBytes for each
// tile, at a multiple of 16 bytes, all zero before the first launch. A row's partials count tiles
// of kTileColumns.
//
// A warp computes kWarpRows x 64 of a tile, in registers: the larger, the fewer bytes of shared
// memory a product takes. Fragments are loaded one slice (32 bytes of k) before they are
// multiplied.
//
// Traffic: as for sm_90, the walk keeps a group's rows of A in the L2 while B streams through.

// How a block divides its tile: warps of kWarpRows x 64, and as many groups of them as share k, the
// sums of which are added at the end. A ring of kStages holds kLineBytes of k each. kSplit blocks
// share a tile's k.
template <int kRowsOf, int kColumnsOf, int kWarpRowsOf, int kGroupsOf, int kLineBytesOf,
          int kStagesOf, int kBlocksOf, int kSplitOf = 1>
struct MmaTile {
  static constexpr int kRows = kRowsOf, kColumns = kColumnsOf, kWarpRows = kWarpRowsOf;
  static constexpr int kGroups = kGroupsOf, kLineBytes = kLineBytesOf, kStages = kStagesOf;
  static constexpr int kBlocksPerSm = kBlocksOf, kSplit = kSplitOf;
};

template <typename Element, typename Product, class Tile, int kAlignA, int kAlignB, bool kAlongM,
          bool kAlongN, class Epilogue, class Prologue = NoPrologue, class Groups = NoGroups>
struct ContractSm80 {
  static constexpr int kTileRows = Tile::kRows, kTileColumns = Tile::kColumns;
  static constexpr int kLineBytes = Tile::kLineBytes;  // of K in a tile
  static constexpr int kSize = sizeof(Element);
  static constexpr int kTileDepth = kLineBytes / kSize;
  static constexpr int kWarpRows = Tile::kWarpRows, kWarpColumns = 64;
  static constexpr int kGroups = Tile::kGroups;
  static constexpr int kWarpsDown = kTileRows / kWarpRows,
                       kWarpsAcross = kTileColumns / kWarpColumns;
  static constexpr int kGroupThreads = 32 * kWarpsDown * kWarpsAcross;
  static constexpr int kThreads = kGroupThreads * kGroups;
  static constexpr int kBlocksPerSm = Tile::kBlocksPerSm;
  static constexpr int kStages = Tile::kStages, kSplit = Tile::kSplit;
  // The sums of each block of a tile, and how many blocks have left theirs.
  static constexpr int kTileWorkspaceBytes =
      kSplit == 1 ? 0 : kSplit * kTileRows * kTileColumns * 4 + 4;
  static constexpr int kBytesA = kTileRows * kLineBytes, kBytesB = kTileColumns * kLineBytes;
  static constexpr int kSlices = kLineBytes / 32 / kGroups;  // of a warp, in a tile's depth
  static constexpr int kFragmentsA = kWarpRows / 16, kFragmentsB = kWarpColumns / 16;
  static_assert(kSlices >= 2 && kSlices % 2 == 0, "fragments are loaded one slice ahead");
  typedef typename Epilogue::Rows Rows;
  typedef typename Epilogue::Columns Columns;
  static constexpr bool kPairs = kTakesPairs<Epilogue>;
  typedef ProductsOf<Epilogue> Products;
  static constexpr int kSources = kPairs ? 2 : Products::kProducts;
  typedef SourcesOfB<Element, kSources> Sources;
  typedef MmaOperand<Element, kTileRows, kLineBytes, kAlongM> OperandA;
  typedef MmaOperand<Element, kTileColumns, kLineBytes, kAlongN> OperandB;
  typedef FetchedTiles<Element, kTileRows, kLineBytes, kAlignA, kAlongM, false, kThreads> FetchedA;
  typedef FetchedTiles<Element, kTileColumns, kLineBytes, kAlignB, kAlongN, kPairs, kThreads>
      FetchedB;
  static constexpr bool kShiftsA = !Prologue::kHere && FetchedA::kShifts;
  static constexpr bool kShiftsB = FetchedB::kShifts;
  static constexpr int kStageA = kShiftsA ? FetchedA::kStageBytes : kBytesA;
  static constexpr int kStageBytes = kStageA + FetchedB::kStageBytes;
  // Behind the stages: two tiles of an operand that is shifted.
  static constexpr int kShiftedA = kStages * kStageBytes;
  static constexpr int kShiftedB = kShiftedA + (kShiftsA ? 2 * kBytesA : 0);
  static constexpr int kSharedBytes = kShiftedB + (kShiftsB ? 2 * kBytesB : 0);
  typedef float Sums[kFragmentsA][2 * kFragmentsB][4];

  // A's tiles, made as steps are asked for in order.
  struct MadeA {
    typedef PrologueTile<Prologue, kTileRows, kTileDepth, kThreads> Made;
    static constexpr int kChunks = Made::kChunks;
    const Prologue& prologue;
    const ContractShape& shape;
    i64 q;
    int m, k;
    Loaded<typename Made::Function> loaded[kChunks];

    __device__ __forceinline__ MadeA(const Prologue& source, const ContractShape& of, int batch,
                                     int first, int from)
        : prologue(source), shape(of), q(first_line<Prologue>(of, batch)), m(first), k(from) {
      load();
    }
    __device__ __forceinline__ void load() {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        loaded[i] = Made::load(prologue, shape, q, m + Made::line(threadIdx.x) + i * Made::kStep,
                               k + Made::column(threadIdx.x));
      }
    }
    __device__ __forceinline__ void operator()(u8* tile) {
      const int column = Made::column(threadIdx.x);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        *reinterpret_cast<uint4*>(
            tile + OperandA::place(Made::line(threadIdx.x) + i * Made::kStep, column * kSize)) =
            Made::make(loaded[i], shape, k + column);
      }
      k += kTileDepth;
      load();
    }
  };

  template <class A>
  static __device__ __forceinline__ void run(const A& a, const Element* b,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue, u8* work = nullptr,
                                             const Groups& groups = {}) {
    run(a, Sources{{b}}, shape, strides, epilogue, work, groups);
  }
  // With halves, the second source has the second half of B's columns. All batches share several.
  template <class A>
  static __device__ __forceinline__ void run(const A& a, const Sources& sources,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue, u8* work = nullptr,
                                             const Groups& groups = {}) {
    static_assert(!Groups::kHere || (!kAlongM && Columns::kParts == 0), "rows begin anywhere");
    const TileWalk walk = groups.walk(shape, kTileRows, kTileColumns);
    if (Groups::kHere && blockIdx.x / kSplit >= walk.total) return;
    TilePart part;
    part.rows = groups.locate(walk, shape, kTileRows, blockIdx.x / kSplit, &part.column);
    part.at = Products::template locate<kTileColumns>(part.column, shape.n);
    const int steps = part.rows.none ? 0 : (shape.k + kTileDepth - 1) / kTileDepth;
    const int share = blockIdx.x % kSplit;
    const int first = kSplit == 1 ? 0 : (int)((i64)steps * share / kSplit);
    part.steps = kSplit == 1 ? steps : (int)((i64)steps * (share + 1) / kSplit) - first;
    const int k = first * kTileDepth, m = part.rows.first;
    const int outer = part.rows.batch / shape.inner, inner = part.rows.batch % shape.inner;
    const i64 matrix = part.rows.matrix / shape.inner * strides.b_outer + inner * strides.b_inner;
    const Element* const b = sources.at(kPairs ? 0 : part.at.product) + matrix;
    // Lines of columns are as long as the product has columns, without gaps.
    constexpr bool kOwnLines = kAlongN && Products::kProducts > 1;
    const i64 line = kOwnLines ? part.at.columns : strides.b_line;
    FetchedB source_b(b, sources.of[kSources - 1] + matrix, line, part.at.column * kTileColumns,
                      part.at.columns, k, shape.k);
    if constexpr (Prologue::kHere) {
      MadeA source_a(a, shape, part.rows.batch, m, k);
      multiply_tile(source_a, source_b, epilogue, part, work);
    } else {
      FetchedA source_a(a + outer * strides.a_outer + inner * strides.a_inner, nullptr,
                        strides.a_line, m, part.rows.end, k, shape.k);
      multiply_tile(source_a, source_b, epilogue, part, work);
    }
  }

  // A tile, and the block's steps of its k.
  struct TilePart {
    int column, steps;
    TileRows rows;
    TileColumn at;
  };
  struct Fragments {
    u32 a[kFragmentsA][4], b[kFragmentsB][4];
  };

  template <class SourceA>
  static __device__ __forceinline__ void multiply_tile(SourceA& source_a, FetchedB& source_b,
                                                       const Epilogue& epilogue,
                                                       const TilePart& part, u8* work) {
    extern __shared__ __align__(128) u8 shared[];
    const int warp = threadIdx.x / 32, own = warp % (kWarpsDown * kWarpsAcross);
    const int warp_m = own / kWarpsAcross * kWarpRows, warp_n = own % kWarpsAcross * kWarpColumns;
    const int first_slice = kGroups == 1 ? 0 : warp / (kWarpsDown * kWarpsAcross) * kSlices;
    int filled = 0, left = part.steps;  // the stage that is filled next, and steps that are not yet
    const auto fetch_step = [&] {
      if (left-- > 0) {
        u8* const stage = shared + filled * kStageBytes;
        source_a(stage);
        source_b(stage + kStageA);
        filled = filled == kStages - 1 ? 0 : filled + 1;
      }
      copies_commit();
    };
    // A step's operands: in their stage, or shifted.
    const auto shift_step = [&](int stage, int odd) {
      const u8* const from = shared + stage * kStageBytes;
      if constexpr (kShiftsA) source_a.shift(from, shared + kShiftedA + odd * kBytesA);
      if constexpr (kShiftsB) source_b.shift(from + kStageA, shared + kShiftedB + odd * kBytesB);
    };
    const auto load = [&](int stage, int odd, int slice, Fragments& f) {
      const u8* const from = shared + stage * kStageBytes;
      const u8* const a = kShiftsA ? shared + kShiftedA + odd * kBytesA : from;
      const u8* const b = kShiftsB ? shared + kShiftedB + odd * kBytesB : from + kStageA;
#pragma unroll
      for (int i = 0; i < kFragmentsA; ++i) {
        OperandA::template fragment<true>(a, warp_m, i * 16, first_slice + slice, f.a[i]);
      }
#pragma unroll
      for (int j = 0; j < kFragmentsB; ++j) {
        OperandB::template fragment<false>(b, warp_n, j * 16, first_slice + slice, f.b[j]);
      }
    };
    constexpr bool kShifts = kShiftsA || kShiftsB;
    constexpr int kPending = kShifts ? kStages - 3 : kStages - 2;  // copies that may be under way
    for (int step = 0; step < kStages - 1; ++step) fetch_step();
    copies_wait<kPending>();
    __syncthreads();
    if constexpr (kShifts) {
      shift_step(0, 0);
      __syncthreads();
    }
    Sums acc = {};
    Fragments fragments[2];
    load(0, 0, 0, fragments[0]);
    int stage = 0, odd = 0;
    for (int step = 0; step < part.steps; ++step) {
      const int next = stage == kStages - 1 ? 0 : stage + 1;
#pragma unroll
      for (int slice = 0; slice < kSlices; ++slice) {
        if (slice == 0) {
          fetch_step();
          // One step before it is multiplied.
          if constexpr (kShifts) shift_step(next, odd ^ 1);
        }
        if (slice < kSlices - 1) {
          load(stage, odd, slice + 1, fragments[(slice + 1) % 2]);
        } else {
          copies_wait<kPending>();
          __syncthreads();
          load(next, odd ^ 1, 0, fragments[0]);
        }
        multiply_slice(acc, fragments[slice % 2]);
      }
      stage = next;
      odd ^= 1;
    }
    copies_wait<0>();
    __syncthreads();
    if constexpr (kGroups > 1) {
      if (!add_groups(acc, shared)) return;
    }
    if constexpr (kSplit > 1) {
      if (!add_blocks(acc, reinterpret_cast<float4*>(work), shared)) return;
    }
    u8* const states = shared;
    Products::template finish<ContractSm80>(epilogue, part.at, part.rows, acc, states);
  }

  static __device__ __forceinline__ void multiply_slice(Sums& acc, const Fragments& f) {
    multiply_all<2 * kFragmentsB>(
        [&](int i, int j) -> float(&)[4] { return acc[i][j]; }, f.a,
        [&](int, int j, int word) { return f.b[j / 2][j % 2 * 2 + word]; }, Product{});
  }

  // Groups of warps that share k leave their sums to the first. Whether this warp is of that.
  static __device__ __forceinline__ bool add_groups(Sums& acc, u8* shared) {
    static_assert((kGroups - 1) * kTileRows * kTileColumns * 4 <= kSharedBytes, "sums fit");
    constexpr int kSums = kFragmentsA * 2 * kFragmentsB * 4;
    const int group = threadIdx.x / kGroupThreads, thread = threadIdx.x % kGroupThreads;
    float* const sums = reinterpret_cast<float*>(shared) + thread;
    if (group > 0) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        sums[((group - 1) * kSums + i) * kGroupThreads] =
            acc[i / (8 * kFragmentsB)][i / 4 % (2 * kFragmentsB)][i % 4];
      }
    }
    __syncthreads();
    if (group > 0) return false;
#pragma unroll
    for (int g = 0; g < kGroups - 1; ++g) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        acc[i / (8 * kFragmentsB)][i / 4 % (2 * kFragmentsB)][i % 4] +=
            sums[(g * kSums + i) * kGroupThreads];
      }
    }
    return true;
  }

  // Blocks that share a tile leave their sums in memory; the last to do so adds all, in a fixed
  // order. Whether this block is that one.
  static __device__ __forceinline__ bool add_blocks(Sums& acc, float4* work, u8* shared) {
    const int tiles = gridDim.x / kSplit, tile = blockIdx.x / kSplit;
    constexpr int kEach = kTileRows * kTileColumns / 4;
    float4* const sums = work + (i64)tile * kSplit * kEach + threadIdx.x;
    u32* const arrived = reinterpret_cast<u32*>(work + (i64)tiles * kSplit * kEach) + tile;
    const auto place = [&](int of, int i, int j) {
      return sums + of * kEach + (i * 2 * kFragmentsB + j) * kGroupThreads;
    };
#pragma unroll
    for (int i = 0; i < kFragmentsA; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * kFragmentsB; ++j) {
        *place(blockIdx.x % kSplit, i, j) = {acc[i][j][0], acc[i][j][1], acc[i][j][2],
                                             acc[i][j][3]};
      }
    }
    group_barrier();
    int* const last = reinterpret_cast<int*>(shared);
    if (threadIdx.x == 0) {
      *last = arrive_at(arrived, 1) == kSplit - 1;
      if (*last) *arrived = 0;  // for the next launch
    }
    group_barrier();
    if (!*last) return false;
    for (int of = 0; of < kSplit; ++of) {
#pragma unroll
      for (int i = 0; i < kFragmentsA; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * kFragmentsB; ++j) {
          const float4 more = __ldcg(place(of, i, j));
          const float sums_of[4] = {more.x, more.y, more.z, more.w};
#pragma unroll
          for (int e = 0; e < 4; ++e)
            acc[i][j][e] = of == 0 ? sums_of[e] : acc[i][j][e] + sums_of[e];
        }
      }
    }
    group_barrier();  // `last` is where states will be
    return true;
  }

  // A warp has kWarpRows by kWarpColumns of the tile's product.
  template <class Own>
  static __device__ __forceinline__ void finish(const Own& epilogue, const TileColumn& at,
                                                const TileRows& tile, const Sums& acc, u8* shared) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    typedef typename Rows::State RowState;
    typedef typename Columns::State ColumnState;
    // [column of warps][row], [16 rows][column]
    RowState* const row_states = reinterpret_cast<RowState*>(shared);
    ColumnState* const column_states = reinterpret_cast<ColumnState*>(shared + 8192);
    const int column = at.column * kTileColumns;
    const int warp_m = warp / kWarpsAcross * kWarpRows, warp_n = warp % kWarpsAcross * kWarpColumns;
#pragma unroll
    for (int i = 0; i < kFragmentsA; ++i) {
      const int m = warp_m + i * 16;
      const Piece piece{tile.batch, tile.first + m, column + warp_n, tile.end, at.columns};
      float part[8 * kFragmentsB];
#pragma unroll
      for (int j = 0; j < 8 * kFragmentsB; ++j) part[j] = acc[i][j / 4][j % 4];
      RowState rows[2] = {Rows::none(), Rows::none()};
      run_epilogue<kWarpColumns>(epilogue, piece, part, rows,
                                 column_states + m / 16 * kTileColumns + warp_n);
      if constexpr (Rows::kParts > 0) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          rows[half] = merge_with_lane<Rows>(merge_with_lane<Rows>(rows[half], 1), 2);
          if (lane % 4 == 0) {
            row_states[warp % kWarpsAcross * kTileRows + m + lane / 4 + 8 * half] = rows[half];
          }
        }
      }
    }
    if constexpr (Rows::kParts > 0 || Columns::kParts > 0) group_barrier();
    if constexpr (Columns::kParts > 0) {
      constexpr int kStripRows = ContractShape::kStripRows;
      for (int i = threadIdx.x; i < kTileRows / kStripRows * kTileColumns; i += kGroupThreads) {
        const int strip = i / kTileColumns, n = i % kTileColumns;
        const ColumnState* const own = column_states + strip * (kStripRows / 16) * kTileColumns + n;
        ColumnState state = own[0];
#pragma unroll
        for (int j = 1; j < kStripRows / 16; ++j) {
          state = Columns::merge(state, own[j * kTileColumns]);
        }
        const int all_strip = tile.first / kStripRows + strip;
        if (all_strip * kStripRows < tile.end && column + n < at.columns) {
          epilogue.column_done(tile.batch, all_strip, column + n, state);
        }
      }
    }
    if constexpr (Rows::kParts > 0) {
      for (int i = threadIdx.x; i < kTileRows; i += kGroupThreads) {
        const int row = tile.first + i;
        if (row >= tile.end) break;
        RowState state = row_states[i];
#pragma unroll
        for (int w = 1; w < kWarpsAcross; ++w) {
          state = Rows::merge(state, row_states[w * kTileRows + i]);
        }
        epilogue.row_done(tile.batch, row, at.column, state);
      }
    }
  }
  static __device__ __forceinline__ void group_barrier() {
    asm volatile("bar.sync 1, %0;" ::"n"(kGroupThreads) : "memory");
  }
};
