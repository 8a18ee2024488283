// Products of 32-bit floats in full, for contract_sm90: each operand as two tf32, what the tensor
// cores see of it and the rest, and the three products that matter. Needs mma.cuh,
// tf32_parts.cuh and contract_sm90.cuh before it.
//
// The tensor cores leave out the last bits of what they read: the first tf32 is the operand as it
// lies there. A's elements go through registers, where each warp finds what it needs of them,
// however its lines lie; B's rest is found once for both warpgroups, by the warps that copy
// nothing, and lies behind B in its stage. So do both parts of a B across k: of 32-bit floats the
// tensor cores take lines of k alone. The tensor cores truncate when they add, so that the sums of
// each step, 96 products, are added to the tile's outside of them; one warpgroup adds while the
// other multiplies.
//
// Shared memory gives 128 bytes a cycle. In the 1536 cycles that the products of a step take, the
// tensor cores read B 24 times (96 KiB), and B's rest, A and the copies take 80 KiB; 96 KiB with a
// B across k.

template <class Contract>
struct ExactSteps {
  typedef typename Contract::TileA TileA;
  typedef typename Contract::TileB TileB;
  typedef typename Contract::Ring Ring;
  static constexpr int kSteps = TileA::kSteps;
  static constexpr int kSums = Contract::kTileColumns / 2;
  static constexpr int kWriters = 64;  // threads: two warps
  // Of a stage, where wgmma reads B's parts.
  static constexpr u32 kHigh = TileA::kBytes + (TileB::kAcross ? TileB::kBytes : 0);
  static constexpr u32 kLow = kHigh + TileB::kBytes;
  static constexpr u32 kStep = OperandTile<f32, 64, false>::kStep;  // they are lines of k

  static __device__ __forceinline__ void init(Ring& ring) {
    for (int s = 0; s < Contract::kStages; ++s) barrier_init(&ring.split[s], kWriters);
  }

  // The last threads of the first warpgroup write B's parts.
  static __device__ __forceinline__ void split(const TileWalk& walk, int steps, u8* stages,
                                               Ring& ring) {
    auto at = Ring::to_read();
    const int stride = gridDim.x / Contract::kBlocksPerCluster;
    for (int tile = blockIdx.x / Contract::kBlocksPerCluster; tile < walk.total; tile += stride) {
      for (int step = 0; step < steps; ++step, at.next()) {
        ring.wait_full(at);
        u8* const stage = stages + at.stage * Contract::kStageBytes;
        TileB::kAcross ? write_parts(stage) : write_rest(stage);
        stores_fence();
        barrier_arrive(&ring.split[at.stage]);
      }
    }
  }

  // Adds a tile's steps to its sums; returns how many there were.
  static __device__ __forceinline__ int multiply(float (&acc)[kSums], int steps, const u8* stages,
                                                 Ring& ring, typename Ring::Place& at) {
    const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32;
    const int row = (threadIdx.x / 128 - 1) * 64 + warp * 16;  // the first of the warp's
    const u64 b = wgmma_operand(stages + kHigh, 0);
#pragma unroll
    for (int i = 0; i < kSums; ++i) acc[i] = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step, at.next()) {
      ring.wait_full(at);
      u32 high[kSteps][4], low[kSteps][4];
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        load_a(stages + at.stage * Contract::kStageBytes, row, lane, k, high[k]);
      }
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) low[k][i] = rest_of(high[k][i]);
      }
      const u64 b_high = b + (u64)at.stage * (Contract::kStageBytes >> 4);
      const u64 b_low = b_high + ((kLow - kHigh) >> 4);
      barrier_wait(&ring.split[at.stage], at.parity);
      float sums[kSums];
      wgmma_begin();
      add(sums, low, b_high, false);
      add(sums, high, b_low, true);
      add(sums, high, b_high, true);
      wgmma_commit();
      wgmma_wait<0>();
      Contract::release(&ring.empty[at.stage], thread);
      pin(sums);
#pragma unroll
      for (int i = 0; i < kSums; ++i) acc[i] += sums[i];
    }
    return steps;
  }

 private:
  static __device__ __forceinline__ int writer() { return threadIdx.x - (128 - kWriters); }

  // A lane's elements of 16 rows and eight steps of k: those of rows lane / 4, + 8 and of steps
  // lane % 4, + 4.
  static __device__ __forceinline__ void load_a(const u8* a, int row, int lane, int k,
                                                u32 (&words)[4]) {
    if constexpr (TileA::kAcross) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int m = row + lane / 4 + i % 2 * 8, line = k * 8 + lane % 4 + i / 2 * 4;
        words[i] = *reinterpret_cast<const u32*>(a + m / 32 * TileA::kBox +
                                                 chunk_at(line, m % 32 / 4) + m % 4 * 4);
      }
    } else {
      // A lane names one of the rows, and the half of the steps.
      load_matrices(a + chunk_at(row + lane % 16, 2 * k + lane / 16), words);
    }
  }

  static __device__ __forceinline__ void write_rest(u8* stage) {
    write_rests<kWriters, TileB::kBytes, 1>(stage + kHigh, stage + kLow, writer());
  }
  // Both parts as lines of k. Of each box a thread turns four by four elements: eight that work at
  // a time read and write chunks in different banks.
  static __device__ __forceinline__ void write_parts(u8* stage) {
    constexpr u32 kOfBox = 32 * 128;  // of B, and turned
    static_assert(!TileB::kAcross || (TileB::kBox == kOfBox && kWriters == 64), "eight by eight");
    const int from_chunk = writer() % 8, to_chunk = from_chunk / 2 ^ writer() / 8;
#pragma unroll 1
    for (u32 box = 0; box < TileB::kBytes; box += kOfBox) {
      uint4 l[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        l[i] = *reinterpret_cast<const uint4*>(stage + TileA::kBytes + box +
                                               chunk_at(to_chunk * 4 + i, from_chunk));
      }
      const uint4 turned[4] = {{l[0].x, l[1].x, l[2].x, l[3].x},
                               {l[0].y, l[1].y, l[2].y, l[3].y},
                               {l[0].z, l[1].z, l[2].z, l[3].z},
                               {l[0].w, l[1].w, l[2].w, l[3].w}};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const u32 at = box + chunk_at(from_chunk * 4 + i, to_chunk);
        *reinterpret_cast<uint4*>(stage + kHigh + at) = turned[i];
        *reinterpret_cast<uint4*>(stage + kLow + at) = rest_of(turned[i]);
      }
    }
  }
  static __device__ __forceinline__ void add(float (&sums)[kSums], const u32 (&a)[kSteps][4], u64 b,
                                             bool keep) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      Wgmma<2 * kSums>::template registers<false>(sums, a[k], b + k * kStep, keep || k > 0, f32{});
    }
  }
};
