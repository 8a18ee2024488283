// Convolutions of one channel in a group as convolve_last_sm90 has them, of 32 bits each. Needs
// convolve_last_sm90.cuh and what that needs before it.

// Of 32 bits, by ordinary arithmetic: a thread has four channels of two neighbouring columns, and
// holds their weights.
template <class Geometry, typename Element, int kChannels, int kColumns, int kDeep, int kLines,
          int kTogether, int kWarps, int kStages, int kEach, class Operands, class Epilogue>
struct ConvolveLastWide {
  typedef BoxesOfLast<Geometry, Element, kChannels, kColumns, 1, kDeep, kLines, kTogether, kStages,
                      kEach>
      Boxes;
  typedef typename Boxes::Place Place;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTileRows = kChannels, kTileColumns = Boxes::kTileLines * kColumns;
  static constexpr int kSharedBytes = kStages * Boxes::kStageBytes;
  static constexpr int kBoxColumns = Boxes::kBoxColumns, kBoxLines = Boxes::kBoxLines;
  static constexpr int kTaps2 = Boxes::kTaps2, kGroups = Geometry::kShape.groups;
  static constexpr int kSpan = Boxes::kStep2 + (kTaps2 - 1) * Boxes::kApart2 + 1;
  static_assert(sizeof(Element) == 4 && kChannels == 32 && kColumns % 2 == 0,
                "eight lanes have the channels");

  static __device__ __forceinline__ void run(const TensorMap& x, const Operands& operands,
                                             const Epilogue& epilogue) {
    extern __shared__ __align__(1024) u8 shared[];
    const int four = threadIdx.x % 8;
    const int channel = (int)blockIdx.x % Boxes::kChunks * kChannels + four * 4;
    float by[Boxes::kTaps][4];
#pragma unroll
    for (int t = 0; t < Boxes::kTaps; ++t) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const i64 own = min(channel + c, kGroups - 1);
        by[t][c] = operands.weight(own * Boxes::kTaps + t);
      }
    }
    Boxes::template walk<kWarps>(x, shared, [&](int stage, int tile) {
      int place = threadIdx.x / 32;
      do {
        convolve(epilogue, shared + stage, by, Place(tile, place), channel);
        place += kWarps;
      } while (Boxes::kPlaces > kWarps && place < Boxes::kPlaces);
    });
  }

  static __device__ __forceinline__ void convolve(const Epilogue& epilogue, const u8* box,
                                                  const float (&by)[Boxes::kTaps][4],
                                                  const Place& place, int channel) {
    const int lane = threadIdx.x % 32;
    const u32 own = place.template window<2>(0, lane / 8 * 2) + (u32)(lane % 8 * 16);
    float acc[kLines][2][4] = {};
#pragma unroll
    for (int row = 0; row < Boxes::kRows; ++row) {
      if (Boxes::takes_row(row)) {
        float at[kSpan][4];
#pragma unroll
        for (int i = 0; i < kSpan; ++i) {
          const u32 from = Boxes::swizzled(own + (u32)(i * Boxes::kPixelBytes), row);
          const float4 four = *reinterpret_cast<const float4*>(box + from);
          at[i][0] = four.x, at[i][1] = four.y, at[i][2] = four.z, at[i][3] = four.w;
        }
        add_row(row, at, by, acc);
      }
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        if (l * Boxes::kStep1 + Boxes::kReach == row) leave(epilogue, place, l, channel, acc[l]);
      }
    }
  }

  static __device__ __forceinline__ void add_row(int row, const float (&at)[kSpan][4],
                                                 const float (&by)[Boxes::kTaps][4],
                                                 float (&acc)[kLines][2][4]) {
#pragma unroll
    for (int l = 0; l < kLines; ++l) {
      if (Boxes::tap_of(row, l) < 0) continue;
#pragma unroll
      for (int t = 0; t < kTaps2; ++t) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            acc[l][j][c] += at[j * Boxes::kStep2 + t * Boxes::kApart2][c] *
                            by[Boxes::tap_of(row, l) * kTaps2 + t][c];
          }
        }
      }
    }
  }

  // Two neighbouring lanes have four channels each of two pixels; then each has all eight of one.
  static __device__ __forceinline__ void leave(const Epilogue& epilogue, const Place& place,
                                               int line, int channel, const float (&acc)[2][4]) {
    const int lane = threadIdx.x % 32;
    const bool odd = lane % 2 != 0;
    float v[8];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float own = odd ? acc[1][c] : acc[0][c];
      const float taken = __shfl_xor_sync(0xffffffffu, odd ? acc[0][c] : acc[1][c], 1);
      v[c] = odd ? taken : own;
      v[4 + c] = odd ? own : taken;
    }
    place.leave(epilogue, 0, line, lane / 8 * 2 + odd, channel - lane % 2 * 4, v);
  }
};
