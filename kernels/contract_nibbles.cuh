// C[m][n] = sum over k of A B for at most 16 rows, B lying as [n][k] in integers of four bits, of
// which a group of neighbours shares a function weight = scale * integer + offset; with an epilogue
// (epilogue.cuh) in place of a plain store; sm_80 and later. Needs elements.cuh, quick.cuh,
// accumulators.cuh, columns.cuh, epilogue.cuh, tile_walk.cuh, mma.cuh and contract_skinny.cuh
// before it.
//
// An entry is
//   typedef ContractNibbles<Element, kLineWarps, kDepthWarps, kLineTiles, kRows, kStages, Weights,
//                           Epilogue> Contract;
//   extern "C" __global__ void __launch_bounds__(Contract::kThreads, Contract::kBlocksPerSm)
//       name(const Element* a, ...) {
//     Contract::run(a, Weights{...}, shape, strides, Epilogue{...});
//   }
// Element: bf16 or f16. kLineWarps of the block's warps have different lines of B, kLineTiles times
// 16 each; kDepthWarps share k. kRows: those of A. k is a multiple of 128; lines of A begin at
// multiples of 16 bytes. Weights is a struct that the generator writes:
//   typedef u4 Packed;  // or i4
//   static constexpr int kGroup;  // 32, 64 or 128 neighbours along k
//   __device__ const Packed* packed() const;
//   __device__ float operator()(int line, int k, float q) const;
//       what the weight would be if its integer were q; affine in q, and the same for the whole
//       group that k is in
// Launch: kThreads threads, kSharedBytes of dynamic shared memory, ceil(n / kTileColumns) blocks;
// one batch.
//
// A weight costs two instructions: a word of eight integers becomes four pairs of Elements by three
// shifts and four LOP3, each integer under the exponent of a power of two, kBias, whose last bits
// it becomes. The tensor cores multiply these as they are. A group's sums are multiplied by its
// scale, and what kBias and the offset add to every weight is multiplied by the sum of the group's
// elements of A, which the tensor cores compute like a line of B that is 1 everywhere. Lines of B
// take the instruction's sixteen rows, as the larger operand. The order in which k is summed does
// not matter: integers i and i + 4 of a word are neighbours for the instruction, and so are
// elements of A.
//
// Traffic: B dominates; each element of it is read once, kStages - 1 steps ahead. A comes from the
// L2, once for each block: with 16 rows that takes as long as B does, unless tiles are long. Blocks
// begin at different steps, so that not all of them read the same lines of A at a time. Scales
// are read by a thread each, for all lanes, and pass through shared memory.

template <typename Element, int kLineWarps, int kDepthWarps, int kLineTiles, int kRows, int kStages,
          class Weights, class Epilogue>
struct ContractNibbles {
  static constexpr int kThreads = 32 * kLineWarps * kDepthWarps;
  static constexpr int kRowTiles = (kRows + 7) / 8;                  // of 8 rows
  static constexpr int kTileColumns = 16 * kLineTiles * kLineWarps;  // of the result, lines of B
  typedef ContractSkinny<Element, 1, kTileColumns / 8, StoredWeights<Element>, Epilogue> Finish;
  static constexpr int kTileRows = Finish::kTileRows;
  static constexpr int kBlocksPerSm = kThreads > 256 || kLineTiles > 4 ||
                                              (kLineTiles == 4 && kRows > 8)
                                          ? 1
                                          : 2;
  static constexpr int kPart = 128;  // of k, of a warp's step
  static constexpr int kTileDepth = kPart * kDepthWarps;
  static constexpr int kLineBytes = kTileDepth / 2, kRowBytes = kTileDepth * 2;
  static constexpr int kBytesB = kTileColumns * kLineBytes, kBytesA = kRows * kRowBytes;
  static constexpr int kStageBytes = kBytesA + kBytesB;
  // In a group of 32 a lane has one word of eight integers.
  static constexpr int kGroup = Weights::kGroup, kGroups = kPart / kGroup, kWords = kGroup / 32;
  static constexpr int kFunctions = kTileColumns * kTileDepth / kGroup;  // of a stage
  static constexpr int kFunctionBytes = 2 * kFunctions * sizeof(float2);
  static constexpr u32 kSharedBytes = kStages * kStageBytes + kFunctionBytes;
  static_assert(kDepthWarps * kTileRows * kTileColumns * 4 <= kStages * kStageBytes,
                "sums are left in the stages");
  // Integers are below 16; a signed one has its first bit flipped, which adds 8.
  static constexpr bool kSigned = is_signed(typename Weights::Packed{});
  static constexpr bool kWide = is_bf16(Element{});
  static constexpr float kBias = (kWide ? 128.0f : 1024.0f) + (kSigned ? 8.0f : 0.0f);
  static constexpr u32 kExponent = kWide ? 0x43004300u : 0x64006400u;
  static constexpr u32 kOnes = kWide ? 0x3f803f80u : 0x3c003c00u;

  // Integers i and i + 4 of a word's eight, plus kBias each.
  static __device__ __forceinline__ u32 pair(u32 word, int i) {
    u32 result;  // (word & mask) ^ (sign | exponent)
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;"
        : "=r"(result)
        : "r"(word >> (4 * i)), "r"(0x000f000fu), "r"(kExponent | (kSigned ? 0x00080008u : 0u)));
    return result;
  }

  // Where a lane finds its words of a part of a line of B, and of a row of A: a quad's lanes are 16
  // bytes apart, and neighbouring lines and rows are in the other half of the banks.
  static __device__ __forceinline__ int place_b(int line, int part) {
    return line * kLineBytes + (part ^ (line & 1 & (kDepthWarps - 1))) * (kPart / 2);
  }
  static __device__ __forceinline__ int place_a(int row, int part, int word) {
    return row * kRowBytes + part * (kPart * 2) + (word ^ (row & 1)) * 64;
  }

  // What a thread copies of every stage: chunks of 16 bytes, kLinesApart lines of B and kRowsApart
  // rows of A apart.
  struct Fetcher {
    static constexpr int kChunksB = kLineBytes / 16, kLinesApart = kThreads / kChunksB;
    static constexpr int kChunksA = kRowBytes / 16, kRowsApart = kThreads / kChunksA;
    const ContractShape& shape;
    i64 line_b, line_a;  // bytes, elements
    const u8* from_b;
    const Element* from_a;
    int k_b, k_a, lines, row;  // lines: of B from this thread's first to the last
    int step, steps;
    u32 to_b, to_a;

    __device__ __forceinline__ Fetcher(const Element* a, const Weights& weights,
                                       const ContractShape& shape, const ContractStrides& strides,
                                       int n, int first, int steps)
        : shape(shape), line_b(shape.k / 2), line_a(strides.a_line), step(0), steps(steps) {
      const u32 line = threadIdx.x / kChunksB, at_b = threadIdx.x % kChunksB;
      k_b = at_b * 32;
      lines = shape.n - 1 - n - (int)line;
      from_b = reinterpret_cast<const u8*>(weights.packed()) +
               min(n + (int)line, shape.n - 1) * line_b + at_b * 16;
      to_b = place_b(line, at_b / 4) + at_b % 4 * 16;
      // A chunk of A is a word of integers': its group, its lane and its place there.
      row = threadIdx.x / kChunksA;
      const u32 at_a = threadIdx.x % kChunksA;
      const u32 group = at_a % 16 / (4 * kWords), lane = at_a / kWords % 4;
      k_a = at_a * 8;
      from_a = a + row * line_a + k_a;
      to_a = kBytesB + place_a(row, at_a / 16, group * kWords + at_a % kWords) + lane * 16;
      move(first);
    }

    __device__ __forceinline__ void move(int count) {
      step += count;
      from_b += (i64)count * kLineBytes, from_a += (i64)count * kTileDepth;
      k_b += count * kTileDepth, k_a += count * kTileDepth;
    }

    __device__ __forceinline__ void next(u8* stage) {
      const bool whole = shape.k % kTileDepth == 0;
#pragma unroll
      for (int i = 0; i < kTileColumns / kLinesApart; ++i) {
        int apart = i * kLinesApart;
        if (shape.n % kTileColumns != 0) apart = max(min(apart, lines), 0);
        copy_async<16>(stage + to_b + i * kLinesApart * kLineBytes,
                       whole || k_b < shape.k ? from_b + apart * line_b : from_b,
                       whole || k_b < shape.k ? 16 : 0);
      }
#pragma unroll
      for (int i = 0; i < (kRows + kRowsApart - 1) / kRowsApart; ++i) {
        if ((i + 1) * kRowsApart > kRows && row + i * kRowsApart >= kRows) continue;
        copy_async<16>(stage + to_a + i * kRowsApart * kRowBytes,
                       whole || k_a < shape.k ? from_a + i * kRowsApart * line_a : from_a,
                       whole || k_a < shape.k ? 16 : 0);
      }
      move(step + 1 < steps ? 1 : 1 - steps);
    }
  };

  // The functions of a stage's groups, a thread each: factors of an integer plus kBias, and of 1.
  struct Functions {
    static constexpr int kEach = (kFunctions + kThreads - 1) / kThreads;
    static constexpr int kOfLine = kTileDepth / kGroup;
    // Of a function; beyond the last one, it.
    static __device__ __forceinline__ u32 number(int i) {
      const u32 own = threadIdx.x + i * kThreads;
      return kFunctions % kThreads == 0 ? own : min(own, (u32)kFunctions - 1);
    }
    float at_zero[kEach], at_one[kEach];

    __device__ __forceinline__ Functions(const Weights& weights, const ContractShape& shape, int n,
                                         int step) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int line = min(n + (int)(number(i) / kOfLine), shape.n - 1);
        const int k =
            min(step * kTileDepth + (int)(number(i) % kOfLine) * kGroup, shape.k - kGroup);
        at_zero[i] = weights(line, k, 0.0f);
        at_one[i] = weights(line, k, 1.0f);
      }
    }
    __device__ __forceinline__ void store(float2* to) const {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float scale = at_one[i] - at_zero[i];
        to[number(i) % kOfLine * kTileColumns + number(i) / kOfLine] = {
            scale, fmaf(-kBias, scale, at_zero[i])};
      }
    }
  };

  static __device__ __forceinline__ void run(const Element* a, const Weights& weights,
                                             const ContractShape& shape,
                                             const ContractStrides& strides,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(128) u8 shared[];
    float2* const functions = reinterpret_cast<float2*>(shared + kStages * kStageBytes);
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int part = warp % kDepthWarps, line0 = warp / kDepthWarps * (16 * kLineTiles);
    const int n = blockIdx.x * kTileColumns;
    const int steps = (shape.k + kTileDepth - 1) / kTileDepth;
    const int first = (int)((i64)blockIdx.x * steps / gridDim.x);
    const auto turned = [&](int step) { return step + first - (step + first < steps ? 0 : steps); };
    Fetcher fetcher(a, weights, shape, strides, n, first, steps);
    u32 to = 0, from = 0;  // stages
    const auto fetch_step = [&](int step) {
      if (step < steps) fetcher.next(shared + to);
      copies_commit();  // none is a group, too: groups are counted
      to = to == (kStages - 1) * kStageBytes ? 0 : to + kStageBytes;
    };
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) fetch_step(s);
    Functions(weights, shape, n, first).store(functions);
    float acc[kLineTiles][kRowTiles][4] = {};
    for (int step = 0; step < steps; ++step) {
      copies_wait<kStages - 2>();
      __syncthreads();  // the stage has arrived, and all have read the one before
      fetch_step(step + kStages - 1);
      const Functions next(weights, shape, n, turned(step + 1));
      multiply_stage(shared + from,
                     functions + step % 2 * kFunctions + part * kGroups * kTileColumns, part, line0,
                     acc);
      next.store(functions + (step + 1) % 2 * kFunctions);
      from = from == (kStages - 1) * kStageBytes ? 0 : from + kStageBytes;
    }
    copies_wait<0>();
    __syncthreads();
    float* const sums = reinterpret_cast<float*>(shared);  // [part][row][line]
#pragma unroll
    for (int c = 0; c < kRowTiles; ++c) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 row = c * 8 + lane % 4 * 2 + e % 2;
        float* const own = sums + (part * kTileRows + row) * kTileColumns + line0 + lane / 4;
#pragma unroll
        for (int i = 0; i < kLineTiles; ++i) own[i * 16 + e / 2 * 8] = acc[i][c][e];
      }
    }
    __syncthreads();
    Finish::template finish<kDepthWarps, kThreads>(shape, 0, n, sums, epilogue);
  }

  static __device__ __forceinline__ void multiply_stage(const u8* stage, const float2* functions,
                                                        int part, int line0,
                                                        float (&acc)[kLineTiles][kRowTiles][4]) {
    const u32 lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      // Rows beyond the last are computed from it, and never stored.
      u32 of_a[kRowTiles][kWords][4];
      float sum[kRowTiles][4] = {};
#pragma unroll
      for (int c = 0; c < kRowTiles; ++c) {
        const int row = min(c * 8 + (int)lane / 4, kRows - 1);
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          const uint4 x = *reinterpret_cast<const uint4*>(
              stage + kBytesB + place_a(row, part, g * kWords + w) + t * 16);
          of_a[c][w][0] = __byte_perm(x.x, x.z, 0x5410);
          of_a[c][w][1] = __byte_perm(x.x, x.z, 0x7632);
          of_a[c][w][2] = __byte_perm(x.y, x.w, 0x5410);
          of_a[c][w][3] = __byte_perm(x.y, x.w, 0x7632);
        }
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
          constexpr u32 kLine[4] = {kOnes, kOnes, kOnes, kOnes};
          multiply(sum[c], kLine, of_a[c][w][0], of_a[c][w][1], Element{});
          multiply(sum[c], kLine, of_a[c][w][2], of_a[c][w][3], Element{});
        }
      }
#pragma unroll
      for (int i = 0; i < kLineTiles; ++i) {
        Pack<u32, kWords> words[2];
        float2 function[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int line = line0 + i * 16 + half * 8 + lane / 4;
          words[half] = *reinterpret_cast<const Pack<u32, kWords>*>(
              stage + place_b(line, part) + g * (kGroup / 2) + t * (4 * kWords));
          function[half] = functions[g * kTileColumns + line];
        }
        float product[kRowTiles][4] = {};
#pragma unroll
        for (int w = 0; w < kWords; ++w) {
#pragma unroll
          for (int j = 0; j < 4; j += 2) {
            const u32 lines[4] = {pair(words[0].v[w], j), pair(words[1].v[w], j),
                                  pair(words[0].v[w], j + 1), pair(words[1].v[w], j + 1)};
#pragma unroll
            for (int c = 0; c < kRowTiles; ++c) {
              multiply(product[c], lines, of_a[c][w][j], of_a[c][w][j + 1], Element{});
            }
          }
        }
#pragma unroll
        for (int c = 0; c < kRowTiles; ++c) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            acc[i][c][e] = fmaf(function[e / 2].x, product[c][e],
                                fmaf(function[e / 2].y, sum[c][e % 2], acc[i][c][e]));
          }
        }
      }
    }
  }
};
