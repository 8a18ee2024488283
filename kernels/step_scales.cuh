// Products of 8-bit floats that are scaled block by block, for contract_sm90: each step of k sums
// 128 products, and its sums are scaled before they are added to the tile's, in 32 bits. Needs
// contract_sm90.cuh before it.

// Scales is a struct that the generator writes. Blocks of A and of B are whole steps long along k,
// and begin with one:
//   static constexpr StepSums kKind = StepSums::kScaled;
//   static constexpr bool kEachColumn;  // else 128 columns have one scale
//   __device__ float of_row(int row, int step) const;
//   __device__ float of_column(int column, int step) const;
// A thread loads scales some steps ahead, as the L2 takes about as long as a step; those of columns
// that have one each, for its warpgroup, which reads them in shared memory. One warpgroup scales
// while the other multiplies.
template <class Scales, int kTileN, bool kInOrder>
struct StepScales {
  // Columns that are multiplied and scaled at once: the sums of more would leave no registers.
  static constexpr int kTogether = 128, kParts = kTileN / kTogether;
  static_assert(kTileN % kTogether == 0, "whole parts");
  static constexpr int kAhead = kParts == 1 ? 3 : 1;  // steps
  static constexpr bool kShared = Scales::kEachColumn;
  static constexpr int kColumns = kShared ? 2 * kTileN : 0;  // of a warpgroup, for two steps
  const Scales& scales;
  const Piece piece;
  const int steps;
  float* const shared;  // kColumns
  float rows[kAhead + 1][2], columns[kAhead + 1][kParts];

  __device__ __forceinline__ StepScales(const Scales& all, const Piece& own, int of_all,
                                        float* mine)
      : scales(all), piece(own), steps(of_all), shared(mine) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(i, rows[i + 1], columns[i + 1]);
    if constexpr (kShared) group_sync(1 + threadIdx.x / 128, 128);  // the last tile's were read
  }

  // Before each step: its scales are the first then.
  __device__ __forceinline__ void begin(int step) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      copy(rows[i], rows[i + 1]);
      copy(columns[i], columns[i + 1]);
    }
    load(step + kAhead, rows[kAhead], columns[kAhead]);
    if constexpr (kShared) {
      // All are past the step before the last one, whose scales these replace.
#pragma unroll
      for (int i = 0; i < kParts; ++i) {
        shared[step % 2 * kTileN + i * kTogether + threadIdx.x % 128] = columns[0][i];
      }
      group_sync(1 + threadIdx.x / 128, 128);
    }
  }
  __device__ __forceinline__ void add(float (&acc)[kTileN / 2], const float (&sums)[kTogether / 2],
                                      int step, int part) const {
    // wgmma leaves each lane two of every eight columns; where B's lines are in order, these are
    // eight neighbours of every 32.
    constexpr int kNeighbours = kInOrder ? 8 : 2;
    const float* const own =
        shared + step % 2 * kTileN + part * kTogether + threadIdx.x % 4 * kNeighbours;
    const float both[2] = {rows[0][0] * columns[0][part], rows[0][1] * columns[0][part]};
#pragma unroll
    for (int first = 0; first < kTogether / 4; first += kNeighbours) {
      Pack<float, kNeighbours> each;
      if constexpr (kShared) each = load_pack<kNeighbours>(own + 4 * first);
#pragma unroll
      for (int i = 2 * first; i < 2 * (first + kNeighbours); ++i) {
        const int half = i / 2 % 2;
        // In this order no product waits in a register for the sums.
        const float scaled = kShared ? sums[i] * each.v[i / 4 * 2 + i % 2 - first] : sums[i];
        acc[part * (kTogether / 2) + i] += (kShared ? rows[0][half] : both[half]) * scaled;
      }
    }
  }

 private:
  template <int kCount>
  static __device__ __forceinline__ void copy(float (&to)[kCount], const float (&from)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = from[i];
  }
  // Behind the last step the last one's, for nobody.
  __device__ __forceinline__ void load(int step, float (&of_rows)[2],
                                       float (&of_columns)[kParts]) const {
    step = min(step, steps - 1);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = piece.row + (int)(threadIdx.x % 32 / 4) + 8 * half;
      of_rows[half] = scales.of_row(min(row, piece.rows - 1), step);
    }
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const int column = piece.column + i * kTogether + (kShared ? (int)(threadIdx.x % 128) : 0);
      of_columns[i] = scales.of_column(min(column, piece.columns - 1), step);
    }
  }
};
