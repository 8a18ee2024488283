// Products of 8-bit floats that are scaled block by block, for contract_sm90: each step of k sums
// 128 products, and its sums are scaled before they are added to the tile's, in 32 bits. Needs
// contract_sm90.cuh before it.

// Scales is a struct that the generator writes. Blocks of A and of B are whole steps long along k,
// and begin with one:
//   static constexpr bool kHere = true;
//   static constexpr bool kEachColumn;  // else 128 columns have one scale
//   __device__ float of_row(int row, int step) const;
//   __device__ float of_column(int column, int step) const;
// A lane loads its scales some steps ahead, as the L2 takes about as long as a step. One warpgroup
// scales while the other multiplies.
template <class Scales, int kTileN, bool kInOrder>
struct StepScales {
  // Columns that are multiplied and scaled at once: the sums of more would leave no registers.
  static constexpr int kTogether = 128, kParts = kTileN / kTogether;
  static_assert(kTileN % kTogether == 0 && (kParts == 1 || !Scales::kEachColumn), "whole parts");
  static constexpr int kColumns = Scales::kEachColumn ? kTogether / 4 : kParts;  // of a lane
  static constexpr int kAhead = Scales::kEachColumn ? 0 : kParts == 1 ? 3 : 1;   // steps
  const Scales& scales;
  const Piece piece;
  const int steps;
  float rows[kAhead + 1][2], columns[kAhead + 1][kColumns];

  __device__ __forceinline__ StepScales(const Scales& all, const Piece& own, int of_all)
      : scales(all), piece(own), steps(of_all) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(i, rows[i + 1], columns[i + 1]);
  }

  // Before each step: its scales are the first then.
  __device__ __forceinline__ void begin(int step) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      copy(rows[i], rows[i + 1]);
      copy(columns[i], columns[i + 1]);
    }
    load(step + kAhead, rows[kAhead], columns[kAhead]);
  }
  __device__ __forceinline__ void add(float (&acc)[kTileN / 2], const float (&sums)[kTogether / 2],
                                      int part) const {
    const float both[2] = {rows[0][0] * columns[0][part], rows[0][1] * columns[0][part]};
#pragma unroll
    for (int i = 0; i < kTogether / 2; ++i) {
      const int half = i / 2 % 2;
      const float scale =
          Scales::kEachColumn ? rows[0][half] * columns[0][i / 4 * 2 + i % 2] : both[half];
      acc[part * (kTogether / 2) + i] += scale * sums[i];
    }
  }

 private:
  template <int kCount>
  static __device__ __forceinline__ void copy(float (&to)[kCount], const float (&from)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = from[i];
  }
  // Where in the tile a lane's i-th column is. wgmma leaves each lane two of every eight columns;
  // where B's lines are in order, these are eight neighbours of every 32.
  static __device__ __forceinline__ int column_of(int i) {
    const int lane = threadIdx.x % 4;
    return kInOrder ? i / 8 * 32 + 8 * lane + i % 8 : i / 2 * 8 + 2 * lane + i % 2;
  }
  // Behind the last step the last one's, for nobody.
  __device__ __forceinline__ void load(int step, float (&of_rows)[2],
                                       float (&of_columns)[kColumns]) const {
    step = min(step, steps - 1);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = piece.row + (int)(threadIdx.x % 32 / 4) + 8 * half;
      of_rows[half] = scales.of_row(min(row, piece.rows - 1), step);
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = piece.column + (Scales::kEachColumn ? column_of(i) : i * kTogether);
      of_columns[i] = scales.of_column(min(column, piece.columns - 1), step);
    }
  }
};
