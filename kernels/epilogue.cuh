// What follows a contraction's main loop, for both architectures. Needs elements.cuh, quick.cuh,
// accumulators.cuh and columns.cuh before it.
//
// An Epilogue is a struct that the generator writes:
//   typedef NoReduction Rows;     // or Largest, Sum, ExponentialSum: reduces v along a row
//   typedef NoReduction Columns;  // or down a column
//   template <class Valid>
//   __device__ void operator()(int batch, i64 row, i64 column, float (&v)[8], Valid valid) const;
//       v holds columns column..column+7 of one row, the first `valid` of them real; column is a
//       multiple of 8. (64 bits, so that addresses differ by constants.) It loads its own operands
//       (load_columns, load_input), stores its own outputs (store_columns), and leaves in v what
//       Rows and Columns reduce. Valid is one of columns.cuh's: Eight, EightOfWarp, AllOrNone or an
//       int. Where none is real, the row is one of C's all the same, and the column may lie beyond.
//       For convolve_last_down.cuh v has two columns, and column is a multiple of 2.
//   __device__ void row_done(int batch, int row, int tile, Rows::State) const;
//       the row reduced over one tile's columns: a partial, tile counts along N
//   __device__ void column_done(int batch, int strip, int column, Columns::State) const;
//       a column reduced over one strip's rows (64 of them): a partial, too
// With a member `static constexpr bool kPairs = true`, each tile has as many columns of C's second
// half as of the first: 32, then the 32 that lie half of C's columns further, and so on. The
// operator then takes both, and reduces nothing: column is one of the first half.
//   void operator()(int batch, i64 row, i64 column, float (&v)[8], float (&u)[8], Valid) const;
// More are for contract_sm90, where nothing is reduced:
//   typedef Pack<bf16, 8> Ahead;  // or f16
//   template <class Valid>
//   __device__ Ahead ahead(int batch, i64 row, i64 column, Valid valid) const;
//       an operand of those eight (load_ahead), which the operator takes as one more argument
//   __device__ void prefetch_columns(i64 column) const;
//   __device__ void prefetch_own(int batch, i64 row, i64 column, int count) const;
//       what all rows read at eight columns, and what a row reads at so many of its own (a multiple
//       of eight), on its way to the L2; both are there where rows are pixels, and the second does
//       something with kReadsOwn
//   static constexpr int kTerms = 3;
//   __device__ void find_terms(i64 column, f32 (&terms)[kTerms][8]) const;
//       what is the same in all rows, of eight columns: the operator may take it as its last
//       argument, and otherwise finds it itself. WithTerms keeps it in shared memory
//   typedef bf16 Made;  // or f16; with WindowsB (convolve_sm90.cuh)
//   __device__ Made* result() const;
//       the operator stores nothing, but leaves in one more argument, a Pack<Made, 8>&, what
//       belongs to result() at its row and column
//   typedef bf16 Beside;  // or f16; with a Made, and WindowsB
//   __device__ const Beside* operand() const;
//       what operand() has there comes as the operator's last argument, a const Pack<Beside, 8>&
// row_done and column_done may be left out where there is NoReduction. Partials are merged by
// merge_rows() and merge_columns(), in a fixed order: the result does not change between runs.
//
// Traffic: v comes straight from the accumulators. A warp's quad of lanes exchanges its 2-column
// pieces by shuffles until each lane holds 8 columns, so a warp's store is eight whole 64-byte runs
// of 16 bits each (two sectors; of 32 bits, store_in_pair), and no shared memory is spent on
// staging, whose bandwidth the tensor cores need for the operands of the next tile.

// A quad's lanes q = 0..3 each hold columns 8j + 2q, 8j + 2q + 1 of 32 columns; afterwards lane q
// holds columns 8q..8q+7. x[j][e] comes in, v goes out.
__device__ __forceinline__ void columns_of_quad(const float (&x)[4][2], float (&v)[8]) {
  const bool odd = threadIdx.x & 1;
  const bool upper = threadIdx.x & 2;
  float y[2][2][2];  // [pair][low bit of the lane it came from][e]
#pragma unroll
  for (int p = 0; p < 2; ++p) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float keep = odd ? x[2 * p + 1][e] : x[2 * p][e];
      const float send = odd ? x[2 * p][e] : x[2 * p + 1][e];
      const float came = __shfl_xor_sync(0xffffffffu, send, 1);
      y[p][0][e] = odd ? came : keep;
      y[p][1][e] = odd ? keep : came;
    }
  }
#pragma unroll
  for (int b = 0; b < 2; ++b) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float keep = upper ? y[1][b][e] : y[0][b][e];
      const float send = upper ? y[0][b][e] : y[1][b][e];
      const float came = __shfl_xor_sync(0xffffffffu, send, 2);
      v[2 * b + e] = upper ? came : keep;
      v[4 + 2 * b + e] = upper ? keep : came;
    }
  }
}

// Two 8 x 8 matrices of rows r + 8h, of which lane 4r + q has columns 8j + 2q + e of 32, at
// x[8h + 2j + e]: afterwards lane 16h + 4j + q has column 8j + 2q + e of rows 8h..8h+7, row r at
// x[2r + e].
__device__ __forceinline__ void rows_of_lanes(float (&x)[16]) {
#pragma unroll
  for (int bit = 8; bit > 1; bit /= 2) {
    const bool upper = threadIdx.x & (bit * 2);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (i & bit) continue;
      const float keep = upper ? x[i + bit] : x[i];
      const float send = upper ? x[i] : x[i + bit];
      const float came = __shfl_xor_sync(0xffffffffu, send, bit * 2);
      x[i] = upper ? came : keep;
      x[i + bit] = upper ? keep : came;
    }
  }
}

// Merges 8 columns' states over the 8 lanes of equal q that hold other rows; lane i = lane / 4 ends
// with column i of its 8. Halving what is exchanged at each step takes 7 shuffles a part, not 24.
template <class Accumulator>
__device__ __forceinline__ typename Accumulator::State scatter_columns(
    typename Accumulator::State (&s)[8]) {
#pragma unroll
  for (int half = 4; half >= 1; half /= 2) {
    const bool upper = threadIdx.x & (half * 4);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      typename Accumulator::State keep, came;
#pragma unroll
      for (int p = 0; p < Accumulator::kParts; ++p) {
        const float send = upper ? s[i].part[p] : s[i + half].part[p];
        keep.part[p] = upper ? s[i + half].part[p] : s[i].part[p];
        came.part[p] = __shfl_xor_sync(0xffffffffu, send, half * 4);
      }
      s[i] = Accumulator::merge(keep, came);
    }
  }
  return s[0];
}

struct Nothing {};  // where an Epilogue has no Ahead, or no Made
template <class Epilogue, class = void>
struct AheadIn {
  static constexpr bool kHere = false;
  typedef Nothing Type;
  typedef EightOfWarp Whole;  // of a piece that is wholly inside C
};
template <class Epilogue>
struct AheadIn<Epilogue, decltype((void)sizeof(typename Epilogue::Ahead))> {
  static constexpr bool kHere = true;
  typedef typename Epilogue::Ahead Type;
  typedef Eight Whole;  // loads would wait for the exchanges
};
template <class Epilogue, class = void>
struct MadeIn {
  static constexpr bool kHere = false;
  typedef Nothing Type;
};
template <class Epilogue>
struct MadeIn<Epilogue, decltype((void)sizeof(typename Epilogue::Made))> {
  static constexpr bool kHere = true;
  typedef typename Epilogue::Made Type;
};

template <class Epilogue, class = void>
struct BesideIn {
  static constexpr bool kHere = false;
  typedef Nothing Type;
};
template <class Epilogue>
struct BesideIn<Epilogue, decltype((void)sizeof(typename Epilogue::Beside))> {
  static constexpr bool kHere = true;
  typedef typename Epilogue::Beside Type;
};

template <class Epilogue, class = void>
constexpr bool kPrefetches = false;
template <class Epilogue>
constexpr bool kPrefetches<Epilogue, decltype((void)Epilogue::kReadsOwn)> = true;
template <class Epilogue, class = void>
constexpr bool kPrefetchesOwn = false;
template <class Epilogue>
constexpr bool kPrefetchesOwn<Epilogue, decltype((void)Epilogue::kReadsOwn)> = Epilogue::kReadsOwn;

template <class Epilogue, class = void>
constexpr bool kTakesPairs = false;
template <class Epilogue>
constexpr bool kTakesPairs<Epilogue, decltype((void)Epilogue::kPairs)> = Epilogue::kPairs;

template <class Epilogue, class = void>
constexpr int kTermsOf = 0;
template <class Epilogue>
constexpr int kTermsOf<Epilogue, decltype((void)Epilogue::kTerms)> = Epilogue::kTerms;

// The terms of so many columns, from `first` on, in shared memory: [kTerms][kColumns].
template <class Epilogue, int kColumns>
struct WithTerms : Epilogue {
  float* terms;
  i64 first;

  __device__ __forceinline__ void find(int thread) const {
    if (thread >= kColumns / 8) return;
    float own[Epilogue::kTerms][8];
    Epilogue::find_terms(first + thread * 8, own);
#pragma unroll
    for (int i = 0; i < Epilogue::kTerms * 2; ++i) {
      float4* const to = reinterpret_cast<float4*>(terms + i / 2 * kColumns + thread * 8) + i % 2;
      const float* const four = own[i / 2] + i % 2 * 4;
      *to = {four[0], four[1], four[2], four[3]};
    }
  }
  template <class Valid, class... More>
  __device__ __forceinline__ void operator()(int batch, i64 row, i64 column, float (&v)[8],
                                             Valid valid, const More&... more) const {
    float own[Epilogue::kTerms][8];
#pragma unroll
    for (int i = 0; i < Epilogue::kTerms * 2; ++i) {
      const float4 four =
          *(reinterpret_cast<const float4*>(terms + i / 2 * kColumns + (int)(column - first)) +
            i % 2);
      float* const to = own[i / 2] + i % 2 * 4;
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    }
    Epilogue::operator()(batch, row, column, v, valid, more..., own);
  }
};

// The same of an epilogue that may have none; `thread` of the first ones finds some of them.
template <int kColumns, class Epilogue>
__device__ __forceinline__ auto with_terms(const Epilogue& epilogue, float* terms, i64 first,
                                           int thread) {
  constexpr int kTerms = kTermsOf<Epilogue>;
  if constexpr (kTerms > 0) {
    const WithTerms<Epilogue, kColumns> kept{epilogue, terms, first};
    kept.find(thread);
    return kept;
  } else {
    return epilogue;
  }
}

// The position of a warp's 16 x kColumns piece of C, and the size of C.
struct Piece {
  int batch;
  int row;     // its first
  int column;  // its first
  int rows;    // of C
  int columns;
};

// What an epilogue takes ahead, of a lane's two rows, in one of the piece's groups of 32 columns.
template <class Epilogue>
__device__ __forceinline__ void load_group_ahead(const Epilogue& epilogue, const Piece& piece,
                                                 int group,
                                                 typename AheadIn<Epilogue>::Type (&loaded)[2]) {
  const int lane = threadIdx.x % 32;
  const i64 column = (i64)piece.column + lane % 4 * 8 + group * 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 row = (i64)piece.row + lane / 4 + 8 * half;
    const bool inside = row < piece.rows && column < piece.columns;
    loaded[half] =
        epilogue.ahead(piece.batch, min(row, (i64)piece.rows - 1), column, AllOrNone{inside});
  }
}

// A lane's eight neighbours of one of its two rows, in one of the piece's groups of 32 columns.
template <bool kInOrder, int kSums>
__device__ __forceinline__ void take_eight(const float (&acc)[kSums], int group, int half,
                                           float (&v)[8]) {
  float x[4][2];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i / 2][i % 2] = acc[(group * 4 + i / 2) * 4 + half * 2 + i % 2];
  if constexpr (kInOrder) {
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = x[i / 2][i % 2];
  } else {
    columns_of_quad(x, v);
  }
}

// How many of the eight at `column` are C's.
template <class Valid>
__device__ __forceinline__ Valid valid_at(const Piece& piece, i64 column, bool inside) {
  if constexpr (kCounts<Valid>) {
    return (int)min((i64)8, piece.columns - column);
  } else if constexpr (sizeof(Valid) == sizeof(Eight)) {
    return Valid{};
  } else {
    return AllOrNone{inside};
  }
}

// Runs the epilogue over a warp's piece: acc[(8-column group) * 4 + half * 2 + e] is row lane / 4 +
// 8 * half, column 2 * (lane % 4) + e of the group, as mma and wgmma leave it. rows_reduced are the
// states of the lane's two rows, to be merged over the quad; columns_reduced[kColumns] is where the
// warp leaves its columns' states.
template <int kColumns, bool kInOrder, class Valid, int kLoaded, class Epilogue, class Operands>
__device__ __forceinline__ void run_groups(const Epilogue& epilogue, const Piece& piece,
                                           const float (&acc)[kColumns / 2],
                                           const Operands (&operands)[kLoaded][2],
                                           typename Epilogue::Rows::State (&rows_reduced)[2],
                                           typename Epilogue::Columns::State* columns_reduced) {
  typedef typename Epilogue::Rows Rows;
  typedef typename Epilogue::Columns Columns;
  constexpr bool kWhole = sizeof(Valid) < sizeof(int);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int group = 0; group < kColumns / 32; ++group) {
    if (!kWhole && piece.column + group * 32 >= piece.columns) break;
    // The sums of 160 columns, of two strips, and those of 224 and 320 leave too few registers to
    // overlap all groups.
    constexpr bool kFew = kColumns == 160 || kColumns == 224 || kColumns == 320;
    if (!kCounts<Valid> && kFew && group > 0 && group % 2 == 0) __syncwarp();
    const i64 column = (i64)piece.column + lane % 4 * 8 + group * 32;
    typename Columns::State states[8];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = (i64)piece.row + lane / 4 + 8 * half;
      float v[8];
      take_eight<kInOrder>(acc, group, half, v);
      const bool inside = kWhole || (row < piece.rows && column < piece.columns);
      const Valid valid = valid_at<Valid>(piece, column, inside);
      if (inside || !kCounts<Valid>) {
        const i64 at = kWhole ? row : min(row, (i64)piece.rows - 1);
        if constexpr (!AheadIn<Epilogue>::kHere) {
          epilogue(piece.batch, at, column, v, valid);
        } else if constexpr (kLoaded > 1) {
          epilogue(piece.batch, at, column, v, valid, operands[group][half]);
        } else {
          epilogue(piece.batch, at, column, v, valid,
                   epilogue.ahead(piece.batch, at, column, valid));
        }
      }
      if constexpr (Rows::kParts > 0) {
        if (inside) rows_reduced[half] = Rows::merge(rows_reduced[half], Rows::of_row(v, valid));
      }
      if constexpr (Columns::kParts > 0) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const typename Columns::State one = inside ? Columns::of(v[i]) : Columns::none();
          states[i] = half == 0 ? one : Columns::merge(states[i], one);
        }
      }
    }
    if constexpr (Columns::kParts > 0) {
      columns_reduced[group * 32 + lane % 4 * 8 + lane / 4] = scatter_columns<Columns>(states);
    }
  }
}

// The same where the columns are of two halves, kEach of one after kEach of the other.
template <int kColumns, bool kInOrder, int kEach, class Valid, class Epilogue>
__device__ __forceinline__ void run_pairs(const Epilogue& epilogue, const Piece& piece,
                                          const float (&acc)[kColumns / 2]) {
  static_assert(Epilogue::Rows::kParts == 0 && Epilogue::Columns::kParts == 0, "no reductions");
  constexpr bool kWhole = sizeof(Valid) < sizeof(int);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int group = 0; group < kColumns / 64; ++group) {
    if (!kWhole && piece.column + group * 32 >= piece.columns) break;
    const i64 column = (i64)piece.column + lane % 4 * 8 + group * 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 row = (i64)piece.row + lane / 4 + 8 * half;
      float v[8], u[8];
      constexpr int kGroups = kEach / 32;
      const int first = group / kGroups * 2 * kGroups + group % kGroups;
      take_eight<kInOrder>(acc, first, half, v);
      take_eight<kInOrder>(acc, first + kGroups, half, u);
      const bool inside = kWhole || (row < piece.rows && column < piece.columns);
      if (inside || !kCounts<Valid>) {
        epilogue(piece.batch, kWhole ? row : min(row, (i64)piece.rows - 1), column, v, u,
                 valid_at<Valid>(piece, column, inside));
      }
    }
  }
}

// Only without branches can the compiler overlap the loads and the arithmetic of many groups, and
// two warps a scheduler hide little latency alone: a piece that is wholly inside C has none, nor
// has one at the edge where rows are a multiple of eight long.
// kPairColumns: of each half, side by side.
template <int kColumns, bool kInOrder = false, int kPairColumns = 32, int kLoaded, class Epilogue,
          class Operands>
__device__ __forceinline__ void run_epilogue(const Epilogue& epilogue, const Piece& piece,
                                             const float (&acc)[kColumns / 2],
                                             const Operands (&operands)[kLoaded][2],
                                             typename Epilogue::Rows::State (&rows_reduced)[2],
                                             typename Epilogue::Columns::State* columns_reduced) {
  if constexpr (kTakesPairs<Epilogue>) {
    const Piece half{piece.batch, piece.row, piece.column / 2, piece.rows, piece.columns / 2};
    if (half.row + 16 <= half.rows && half.column + kColumns / 2 <= half.columns) {
      run_pairs<kColumns, kInOrder, kPairColumns, EightOfWarp>(epilogue, half, acc);
    } else if (half.columns % 8 == 0) {
      run_pairs<kColumns, kInOrder, kPairColumns, AllOrNone>(epilogue, half, acc);
    } else {
      run_pairs<kColumns, kInOrder, kPairColumns, int>(epilogue, half, acc);
    }
  } else if (piece.row + 16 <= piece.rows && piece.column + kColumns <= piece.columns) {
    run_groups<kColumns, kInOrder, typename AheadIn<Epilogue>::Whole>(
        epilogue, piece, acc, operands, rows_reduced, columns_reduced);
  } else if (piece.columns % 8 == 0) {
    run_groups<kColumns, kInOrder, AllOrNone>(epilogue, piece, acc, operands, rows_reduced,
                                              columns_reduced);
  } else {
    run_groups<kColumns, kInOrder, int>(epilogue, piece, acc, operands, rows_reduced,
                                        columns_reduced);
  }
}

template <int kColumns, bool kInOrder = false, class Epilogue>
__device__ __forceinline__ void run_epilogue(const Epilogue& epilogue, const Piece& piece,
                                             const float (&acc)[kColumns / 2],
                                             typename Epilogue::Rows::State (&rows_reduced)[2],
                                             typename Epilogue::Columns::State* columns_reduced) {
  const Nothing nothing[1][2] = {};
  run_epilogue<kColumns, kInOrder>(epilogue, piece, acc, nothing, rows_reduced, columns_reduced);
}

// Merges partials [outer][count][inner] to one result for each (outer, inner): finish(o, i, state).
// One thread each: neighbours read neighbours where inner > 1, so columns' partials are read in
// whole lines.
template <class Accumulator, class Finish>
__device__ __forceinline__ void merge_columns(const typename Accumulator::State* partials,
                                              int outer, int count, int inner,
                                              const Finish& finish) {
  const i64 all = (i64)outer * inner;
  for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < all;
       at += (i64)gridDim.x * blockDim.x) {
    const i64 o = at / inner, i = at % inner;
    typename Accumulator::State state = Accumulator::none();
    for (int c = 0; c < count; ++c) {
      state = Accumulator::merge(state, partials[(o * count + c) * inner + i]);
    }
    finish((int)o, (int)i, state);
  }
}

// Merges partials [rows][count] to one result for each row, a warp each: finish(row, state).
template <class Accumulator, class Finish>
__device__ __forceinline__ void merge_rows(const typename Accumulator::State* partials, i64 rows,
                                           int count, const Finish& finish) {
  const int lane = threadIdx.x % 32;
  const i64 warps = (i64)gridDim.x * blockDim.x / 32;
  for (i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; row < rows; row += warps) {
    typename Accumulator::State state = Accumulator::none();
    for (int c = lane; c < count; c += 32) {
      state = Accumulator::merge(state, partials[row * count + c]);
    }
#pragma unroll
    for (int mask = 16; mask >= 1; mask /= 2) state = merge_with_lane<Accumulator>(state, mask);
    if (lane == 0) finish(row, state);
  }
}
