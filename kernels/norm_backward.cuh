// The gradients of a layer_norm or an rms_norm, in one pass over the rows. With n = (x - mean) rstd
// and g = dy w:
//   dx = rstd (g - mean of g - n (mean of g n)), the means being taken over the row;
//   dw = sum over the rows of dy n; db = sum over the rows of dy.
// An rms_norm has no mean, neither of x nor of g.
//
// Traffic: x and dy are read once, and a row's dx is written as soon as its means are known. While
// a team works on a row, its next ones are copied to shared memory, enough to keep the memory busy.
// Threads copy what they read themselves, so that copies need no barriers. Sums of columns stay in
// the registers of the thread that has those columns. After the last row, the block's sums go to
// the workspace, where the blocks add them up in a fixed order: two numbers per block and column,
// which the L2 holds. Lines that were read are discarded, or they would be written to memory.
//
// `Tiling` has the constants of src/plan/norm_backward.hpp, `Number`, the type that is computed in,
// and X, Dy and Weight, the types on chip; `In` reads the operands and stores the results.

// Two numbers of a row, or of one warp's part of it.
template <typename C>
struct alignas(2 * sizeof(C)) RowSums {
  C g;
  C gn;
};

// Adds the sums of so many neighbouring lanes.
template <int kLanes, typename C>
__device__ __forceinline__ void add_lanes(RowSums<C>& sums) {
#pragma unroll
  for (int mask = 1; mask < kLanes; mask *= 2) {
    sums.g += __shfl_xor_sync(0xffffffffu, sums.g, mask);
    sums.gn += __shfl_xor_sync(0xffffffffu, sums.gn, mask);
  }
}

// The sums of all warps of a team, in the same order in each of its threads. `places` has two sets
// that rows take turns with: who is late may still read the last row's.
template <int kTeam, int kTeams, typename C>
__device__ __forceinline__ void add_team(RowSums<C>& sums, RowSums<C>* places, u32 turn, u32 team) {
  if constexpr (kTeam <= 32) {
    add_lanes<kTeam>(sums);
  } else {
    constexpr int kWarps = kTeam / 32;
    add_lanes<32>(sums);
    RowSums<C>* const mine = places + (turn * kTeams + team) * kWarps;
    if (threadIdx.x % 32 == 0) mine[threadIdx.x % kTeam / 32] = sums;
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kTeam) : "memory");
    constexpr int kGroup = kWarps <= 2    ? 2
                           : kWarps <= 4  ? 4
                           : kWarps <= 8  ? 8
                           : kWarps <= 16 ? 16
                                          : 32;
    const u32 warp = threadIdx.x % kGroup;
    sums = warp < kWarps ? mine[warp] : RowSums<C>{C(0), C(0)};
    add_lanes<kGroup>(sums);
  }
}

// What a thread keeps from row to row.
template <typename Tiling>
struct ColumnState {
  typedef typename Tiling::Number C;
  Pack<typename Tiling::Weight, Tiling::kWidth> weight[Tiling::kRounds];
  C dw[Tiling::kRounds][Tiling::kWidth];
  C db[Tiling::kRounds][Tiling::kWidth];
};

// Leaves the block's sums of one kind at `to`, and zeros up to a multiple of four columns.
template <typename Tiling>
__device__ __forceinline__ void leave_sums(
    const typename Tiling::Number (&sums)[Tiling::kRounds][Tiling::kWidth],
    typename Tiling::Number* to, u8* shared) {
  typedef typename Tiling::Number C;
  constexpr u32 kLength = Tiling::kLength;
  const u32 t = threadIdx.x % Tiling::kTeam;
  const u32 team = threadIdx.x / Tiling::kTeam;
  C* const of_teams = reinterpret_cast<C*>(shared);
  C* const mine = Tiling::kTeams > 1 ? of_teams + team * kLength : to;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < Tiling::kRounds; ++k) {
    const u32 c = (k * Tiling::kTeam + t) * Tiling::kWidth;
    Pack<C, Tiling::kWidth> group;
#pragma unroll
    for (int j = 0; j < Tiling::kWidth; ++j) group.v[j] = sums[k][j];
    if (c < kLength) store_pack(mine + c, group);
  }
  if (threadIdx.x < (kLength + 3) / 4 * 4 - kLength) to[kLength + threadIdx.x] = C(0);
  if (Tiling::kTeams == 1) return;
  __syncthreads();
  for (u32 c = threadIdx.x; c < kLength; c += Tiling::kThreads) {
    C sum = of_teams[c];
    for (u32 other = 1; other < Tiling::kTeams; ++other) sum += of_teams[other * kLength + c];
    to[c] = sum;
  }
}

// The line at this address is not needed again: not even in memory.
__device__ __forceinline__ void discard_line(const void* line) {
#if __CUDA_ARCH__ >= 800
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
#endif
}

// Adds up what all blocks have left in the workspace: slices of 128 columns, each by some warps,
// which take turns with the blocks' sums.
template <typename Tiling, typename In>
__device__ __forceinline__ void finish_columns(const In& in, typename Tiling::Number* partials,
                                               u8* shared) {
  typedef typename Tiling::Number C;
  typedef Pack<C, 4> Four;
  constexpr u32 kWarps = Tiling::kThreads / 32;
  constexpr u32 kEach = kWarps / Tiling::kSlices;  // warps of a slice
  constexpr u32 kSlicesInAll = Tiling::kSums * (Tiling::kPitch / 128);
  constexpr u64 kBlock = Tiling::kSums * Tiling::kPitch;  // numbers of a block
  Four* const of_warps = reinterpret_cast<Four*>(shared);
  const u32 warp = threadIdx.x / 32;
  const u32 lane = threadIdx.x % 32;
  for (u32 first = blockIdx.x * Tiling::kSlices; first < kSlicesInAll;
       first += gridDim.x * Tiling::kSlices) {
    const u32 slice = first + warp / kEach;
    const u32 place = slice * 128 + lane * 4;
    const u32 column = place % Tiling::kPitch;
    const bool active =
        warp / kEach < Tiling::kSlices && slice < kSlicesInAll && column < Tiling::kLength;
    const C* const from = partials + place;
    Four sum = {};
    if (active) {
#pragma unroll 8
      for (u32 block = warp % kEach; block < gridDim.x; block += kEach) {
        const Four more = load_pack<4>(from + block * kBlock);
#pragma unroll
        for (int j = 0; j < 4; ++j) sum.v[j] += more.v[j];
      }
    }
    of_warps[threadIdx.x] = sum;
    __syncthreads();
    if (active && lane * sizeof(Four) % 128 == 0) {
      for (u32 block = warp % kEach; block < gridDim.x; block += kEach) {
        discard_line(from + block * kBlock);
      }
    }
    if (active && warp % kEach == 0) {
      for (u32 w = 1; w < kEach; ++w) {
        const Four more = of_warps[threadIdx.x + w * 32];
#pragma unroll
        for (int j = 0; j < 4; ++j) sum.v[j] += more.v[j];
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (column + j >= Tiling::kLength) continue;
        if (Tiling::kDw && place < Tiling::kPitch) {
          in.store_dw(column + j, sum.v[j]);
        } else {
          in.store_db(column + j, sum.v[j]);
        }
      }
    }
    __syncthreads();
  }
}

template <typename Tiling, typename In>
__device__ __forceinline__ void norm_backward(const In& in, u32* gate,
                                              typename Tiling::Number* partials, u8* shared) {
  typedef typename Tiling::Number C;
  typedef Pack<typename Tiling::X, Tiling::kWidth> XPack;
  typedef Pack<typename Tiling::Dy, Tiling::kWidth> DyPack;
  constexpr int kWidth = Tiling::kWidth;
  constexpr int kRounds = Tiling::kRounds;
  constexpr u32 kThreads = Tiling::kThreads;
  constexpr C kShare = C(1) / C(Tiling::kLength);
  constexpr int kPlaces =
      Tiling::kTeam > 32 ? 2 * (int)Tiling::kTeams * ((int)Tiling::kTeam / 32) : 1;
  __shared__ RowSums<C> places[kPlaces];
  const u32 t = threadIdx.x % Tiling::kTeam;
  const u32 team = threadIdx.x / Tiling::kTeam;
  XPack* const xs = reinterpret_cast<XPack*>(shared) + threadIdx.x;
  DyPack* const dys =
      reinterpret_cast<DyPack*>(shared + sizeof(XPack) * kThreads * kRounds * Tiling::kStages) +
      threadIdx.x;
  const auto column = [&](int k) { return (k * Tiling::kTeam + t) * kWidth; };
  const auto place = [&](u32 stage, int k) { return (stage * kRounds + k) * kThreads; };
  const auto in_row = [&](int k) {
    return (k + 1) * Tiling::kTeam * kWidth <= Tiling::kLength || column(k) < Tiling::kLength;
  };

  ColumnState<Tiling> state = {};
#pragma unroll
  for (int k = 0; k < kRounds; ++k) {
    if (Tiling::kWeighs && in_row(k)) in.take_weight(state.weight[k], column(k));
  }
  // All teams of a block make as many rounds; the last may find no row.
  const u64 step = (u64)gridDim.x * Tiling::kTeams;
  const u64 first = (u64)blockIdx.x * Tiling::kTeams;
  const auto start = [&](u64 row, u32 stage, int k) {
    if (row >= Tiling::kRows || !in_row(k)) return;
    in.start_x(xs[place(stage, k)], (idx)(row * Tiling::kLength + column(k)));
    in.start_dy(dys[place(stage, k)], (idx)(row * Tiling::kLength + column(k)));
  };
#pragma unroll
  for (u32 stage = 0; stage < Tiling::kStages; ++stage) {
#pragma unroll
    for (int k = 0; k < kRounds; ++k) start(first + stage * step + team, stage, k);
    end_copy_group();
  }
  const auto clamped = [](u64 row) { return (idx)(row < Tiling::kRows ? row : Tiling::kRows - 1); };
  C next_mean = in.mean(clamped(first + team));
  C next_rstd = in.rstd(clamped(first + team));
  u32 stage = 0;
  u32 turn = 0;
  for (u64 base = first; base < Tiling::kRows; base += step) {
    const u64 row = base + team;
    const bool active = row < Tiling::kRows;
    const C mean = next_mean;
    const C rstd = next_rstd;
    next_mean = in.mean(clamped(row + step));
    next_rstd = in.rstd(clamped(row + step));
    wait_for_copies<Tiling::kStages - 1>();
    RowSums<C> sums = {C(0), C(0)};
#pragma unroll
    for (int k = 0; k < kRounds; ++k) {
      if (!active || !in_row(k)) continue;
      const XPack x = xs[place(stage, k)];
      const DyPack dy = dys[place(stage, k)];
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        const C v = (C)dy.get(j);
        const C n = (Tiling::kCenters ? (C)x.get(j) - mean : (C)x.get(j)) * rstd;
        const C g = Tiling::kWeighs ? v * (C)state.weight[k].get(j) : v;
        if (Tiling::kDx && Tiling::kCenters) sums.g += g;
        if (Tiling::kDx) sums.gn += g * n;
        if (Tiling::kDw) state.dw[k][j] += v * n;
        if (Tiling::kDb) state.db[k][j] += v;
      }
    }
    if (Tiling::kDx) add_team<Tiling::kTeam, Tiling::kTeams>(sums, places, turn, team);
    const C offset = Tiling::kCenters ? -rstd * kShare * sums.g : C(0);
    const C along = -rstd * rstd * kShare * sums.gn;
#pragma unroll
    for (int k = 0; k < kRounds; ++k) {
      if (Tiling::kDx && active && in_row(k)) {
        const XPack x = xs[place(stage, k)];
        const DyPack dy = dys[place(stage, k)];
        C dx[kWidth];
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          const C d = Tiling::kCenters ? (C)x.get(j) - mean : (C)x.get(j);
          const C g = Tiling::kWeighs ? (C)dy.get(j) * (C)state.weight[k].get(j) : (C)dy.get(j);
          dx[j] = d * along + (g * rstd + offset);
        }
        in.store_dx((idx)(row * Tiling::kLength + column(k)), dx);
      }
      // The thread has read its own part of the row: what follows takes its place.
      start(row + Tiling::kStages * step, stage, k);
    }
    end_copy_group();
    stage = stage + 1 == Tiling::kStages ? 0 : stage + 1;
    turn ^= 1;
  }
  if constexpr (Tiling::kSums > 0) {
    wait_for_copies<0>();
    C* const mine = partials + (u64)blockIdx.x * (Tiling::kSums * Tiling::kPitch);
    if (Tiling::kDw) leave_sums<Tiling>(state.dw, mine, shared);
    if (Tiling::kDb)
      leave_sums<Tiling>(state.db, mine + (Tiling::kDw ? Tiling::kPitch : 0), shared);
    wait_for_grid(gate);
    finish_columns<Tiling>(in, partials, shared);
  }
}
