// How the operands of a product go from memory to wgmma: what contract_sm90, contract_rows_sm90 and
// contract_skinny_sm90 have in common. Needs elements.cuh and hopper.cuh before it.

// The ring of stages through which operands go from the copy engine to wgmma. A stage is full when
// all bytes announced for it, and what else writes to it, have arrived, and empty when its readers
// have arrived.
// With kSplits some threads write a part of each full stage: it is split when they have.
template <int kCount, bool kSplits>
struct SplitBarriers {
  u64 split[kCount];
};
template <int kCount>
struct SplitBarriers<kCount, false> {};
template <int kCount, bool kSplits = false>
struct Stages : SplitBarriers<kCount, kSplits> {
  u64 full[kCount], empty[kCount];

  // A thread's current stage, and the parity of the phase that it waits for there.
  struct Place {
    int stage;
    u32 parity;
    __device__ __forceinline__ void next() {
      if (++stage == kCount) stage = 0, parity ^= 1;
    }
    __device__ __forceinline__ void skip(int count) {
      stage += count;
      parity ^= (u32)(stage / kCount) & 1;
      stage %= kCount;
    }
  };
  static __device__ __forceinline__ Place to_read() { return {0, 0}; }
  // The first round finds every stage empty.
  static __device__ __forceinline__ Place to_fill() { return {0, 1}; }

  __device__ __forceinline__ void init(u32 readers, u32 writers = 1) {
    for (int s = 0; s < kCount; ++s) {
      barrier_init(&full[s], writers);
      barrier_init(&empty[s], readers);
    }
  }
  __device__ __forceinline__ void wait_full(Place at) { barrier_wait(&full[at.stage], at.parity); }
  // Waits until the stage is empty; returns the barrier that counts the bytes copied to it.
  __device__ __forceinline__ u64* wait_empty(Place at) {
    barrier_wait(&empty[at.stage], at.parity);
    return &full[at.stage];
  }
};

// A stage's part of an operand: kLines (rows of A, columns of B) by 128 bytes of k. kAcross: it
// lies as [k][line] in memory, and comes in boxes of 128 bytes of lines; wgmma takes 16-bit
// elements so.
template <typename T, int kLines, bool kAcrossK>
struct OperandTile {
  typedef T Element;
  static constexpr bool kAcross = kAcrossK;
  static constexpr int kDepth = 128 / sizeof(Element);
  static constexpr u32 kBytes = kLines * 128;
  static constexpr u32 kBox = (kAcross ? kDepth : 64) * 128;  // 64 lines, or those of a box
  // In wgmma's operands, a step of k further on: 32 bytes along a K-major row, or 16 MN-major rows.
  static constexpr int kSteps = 4;
  static constexpr u32 kStep = (kAcross ? 16 * 128 : 32) >> 4;

  template <int kBlocks, int kStride = 1>
  static __device__ __forceinline__ void fetch(u8* to, const TensorMap& map, u64* barrier, int line,
                                               int k, int c2, int c3, u64 hint = kEvictNormal,
                                               u32 first = 0) {
    if constexpr (kAcross) {
#pragma unroll
      for (int i = 0; i < kLines / kDepth; ++i) {
        copy_box_to_all<kBlocks, kStride>(to + i * kBox, map, barrier, line + i * kDepth, k, c2, c3,
                                          hint, first);
      }
    } else {
      copy_box_to_all<kBlocks, kStride>(to, map, barrier, k, line, c2, c3, hint, first);
    }
  }
};

// The order of B's lines: along k, as [n][k]; along n, as [k][n]; or along k and fetched so that
// the accumulators of a lane are adjacent columns.
enum class LinesOfB { kAlong, kAcross, kInOrder };

// Lines that lie along k, in the boxes of 32 that put them in that order.
template <typename T, int kLines>
struct InOrderTile : OperandTile<T, kLines, false> {
  static_assert(kLines % 32 == 0, "boxes of 32 lines");
  template <int kBlocks, int kStride = 1>
  static __device__ __forceinline__ void fetch(u8* to, const TensorMap& map, u64* barrier, int line,
                                               int k, int, int, u64 hint = kEvictNormal,
                                               u32 first = 0) {
#pragma unroll
    for (int i = 0; i < kLines / 32; ++i) {
      copy_box_to_all<kBlocks, kStride>(to + i * 32 * 128, map, barrier, k, 0, line / 8 + i * 4, 0,
                                        hint, first);
    }
  }
};
template <typename T, int kLines, LinesOfB kLinesOfB>
struct TileOfB {
  typedef OperandTile<T, kLines, kLinesOfB == LinesOfB::kAcross> Type;
};
template <typename T, int kLines>
struct TileOfB<T, kLines, LinesOfB::kInOrder> {
  typedef InOrderTile<T, kLines> Type;
};

// A part of a lane's sums: those of one wgmma.
template <int kCount, int kSums>
__device__ __forceinline__ float (&part_of(float (&sums)[kSums], int part))[kCount] {
  return reinterpret_cast<float(&)[kCount]>(sums[part * kCount]);
}

// acc[i] += what a stage holds of A's i-th 64 lines and of B, or = that; committed as a group. One
// wgmma has at most 256 lines of B: of more, half.
template <class TileA, class TileB, int kStrips, int kSums>
__device__ __forceinline__ void multiply_stage(float (&acc)[kStrips][kSums], u64 a, u64 b,
                                               bool keep) {
#pragma unroll
  for (int i = 0; i < kStrips; ++i) pin(acc[i]);
  constexpr int kParts = 2 * kSums > 256 ? 2 : 1;
  constexpr int kCount = kSums / kParts;
  static_assert(kParts == 1 || !TileB::kAcross, "parts are no whole boxes");
  wgmma_begin();
#pragma unroll
  for (int k = 0; k < TileA::kSteps; ++k) {
#pragma unroll
    for (int i = 0; i < kStrips * kParts; ++i) {
      const int strip = i / kParts, part = i % kParts;
      Wgmma<2 * kCount>::template shared<TileA::kAcross, TileB::kAcross>(
          part_of<kCount>(acc[strip], part), a + strip * (TileA::kBox >> 4) + k * TileA::kStep,
          b + part * (TileB::kBytes / kParts >> 4) + k * TileB::kStep, keep || k > 0,
          typename TileA::Element{});
    }
  }
  wgmma_commit();
#pragma unroll
  for (int i = 0; i < kStrips; ++i) pin(acc[i]);
}
