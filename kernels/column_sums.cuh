// Kernels that reduce rows and add up columns of the same tensors, in one pass over the rows.
//
// Traffic: what is as large as the rows is read once, and a row's results are written as soon as
// its sums are known. While a team works on a row, its next ones are copied to shared memory,
// enough to keep the memory busy. Threads copy what they read themselves, so that copies need no
// barriers. Sums of columns stay in the registers of the thread that has those columns. After the
// last row, the block's sums go to the workspace, where the blocks add them up in a fixed order:
// numbers per block and column, which the L2 holds. Lines that were read are discarded, or they
// would be written to memory.
//
// Rows whose length is no multiple of a group (kShifted) begin anywhere in one. Groups are those of
// the memory: the first and the last of a row have elements of its neighbours, which count for
// nothing. All rows of a team begin at the same place in their first group, so that its threads
// keep their columns.
//
// `Tiling` has the constants of src/plan/column_sums.hpp and `Number`, the type that is computed
// in. `Body` has the rest: it copies and reads operands, adds up, and stores results. Its members:
//   Row, Columns, Group: what is read of a row, of a group's columns, of a group of elements
//   row(r), take_columns(columns, c, part), start(shared, place, i), group(shared, place)
//   add(row, columns, group, r, i, part, sums, column_sums): the first pass; it adds to the row's
//     sums and sets what it adds to each column of the group
//   finish(row, columns, group, r, i, part, sums, column_sums): the second, which stores
//   store_row(row, r, sums), store_column(which, c, sum)

// Elements of a group that are of the row.
template <typename Tiling>
struct Part {
  int from = 0;
  int to = Tiling::kWidth;
  __device__ __forceinline__ bool has(int j) const {
    return !Tiling::kShifted || (j >= from && j < to);
  }
  __device__ __forceinline__ bool whole() const {
    return !Tiling::kShifted || (from == 0 && to == Tiling::kWidth);
  }
};

// Stores the elements of a group that are of the row.
template <typename Tiling, typename T, int N>
__device__ __forceinline__ void store_part(T* at, const Pack<T, N>& pack,
                                           const Part<Tiling>& part) {
  if (part.whole()) {
    store_pack(at, pack);
    return;
  }
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (part.has(j)) at[j] = pack.v[j];
  }
}

// Copies a group to shared memory, without what would lie behind the tensor's end.
template <typename Tiling, typename T, int N>
__device__ __forceinline__ void start_group(Pack<T, N>& to, const T* tensor, idx i) {
  constexpr u64 kElements = Tiling::kRows * Tiling::kLength;
  if (Tiling::kShifted && i + N > kElements) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (i + j < kElements) to.v[j] = tensor[i + j];
    }
  } else if constexpr (sizeof(to) >= 4) {
    copy_async(to, tensor + i);
  } else {
    copy_now(to, tensor + i);
  }
}

// The elements of a group's columns of a tensor that has one for each column.
template <typename Tiling, typename T, int N>
__device__ __forceinline__ void take_columns(Pack<T, N>& to, const T* tensor, int c,
                                             const Part<Tiling>& part) {
  if constexpr (!Tiling::kShifted) {
    to = load_pack<N>(tensor + c);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (part.has(j)) to.v[j] = tensor[c + j];
    }
  }
}

// Sums of a row, or of one warp's part of it.
template <typename Tiling>
struct RowSums {
  static constexpr int kCount = Tiling::kRowSums;
  typename Tiling::Number v[kCount > 0 ? kCount : 1];
};

// Adds the sums of so many neighbouring lanes.
template <int kLanes, typename Sums>
__device__ __forceinline__ void add_lanes(Sums& sums) {
#pragma unroll
  for (int mask = 1; mask < kLanes; mask *= 2) {
#pragma unroll
    for (int n = 0; n < Sums::kCount; ++n) {
      sums.v[n] += __shfl_xor_sync(0xffffffffu, sums.v[n], mask);
    }
  }
}

// The sums of all warps of a team, in the same order in each of its threads. `places` has two sets
// that rows take turns with: who is late may still read the last row's.
template <int kTeam, int kTeams, typename Sums>
__device__ __forceinline__ void add_team(Sums& sums, Sums* places, u32 turn, u32 team) {
  if constexpr (kTeam <= 32) {
    add_lanes<kTeam>(sums);
  } else {
    constexpr int kWarps = kTeam / 32;
    add_lanes<32>(sums);
    Sums* const mine = places + (turn * kTeams + team) * kWarps;
    if (threadIdx.x % 32 == 0) mine[threadIdx.x % kTeam / 32] = sums;
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kTeam) : "memory");
    constexpr int kGroup = kWarps <= 2    ? 2
                           : kWarps <= 4  ? 4
                           : kWarps <= 8  ? 8
                           : kWarps <= 16 ? 16
                                          : 32;
    const u32 warp = threadIdx.x % kGroup;
    sums = warp < kWarps ? mine[warp] : Sums{};
    add_lanes<kGroup>(sums);
  }
}

// Which groups a thread has of its team's rows.
template <typename Tiling>
struct Groups {
  u32 t;     // of the team's threads
  u32 lead;  // elements of the first group that are ahead of the row
  // The first column of the k-th group, which may be ahead of the row.
  __device__ __forceinline__ int column(int k) const {
    return (int)((k * Tiling::kTeam + t) * Tiling::kWidth) - (int)lead;
  }
  __device__ __forceinline__ bool has(int k) const {
    return (k + 1) * Tiling::kTeam * Tiling::kWidth <= Tiling::kLength ||
           column(k) < (int)Tiling::kLength;
  }
  __device__ __forceinline__ Part<Tiling> part(int k) const {
    if (!Tiling::kShifted) return {};
    const int c = column(k);
    const int left = (int)Tiling::kLength - c;
    return {c < 0 ? -c : 0, left < Tiling::kWidth ? left : Tiling::kWidth};
  }
};

// Leaves the block's sums of one kind at `to`, and zeros up to a multiple of four columns.
template <typename Tiling>
__device__ __forceinline__ void leave_sums(
    const typename Tiling::Number (&sums)[Tiling::kRounds][Tiling::kWidth],
    const Groups<Tiling>& groups, typename Tiling::Number* to, u8* shared) {
  typedef typename Tiling::Number C;
  constexpr u32 kLength = Tiling::kLength;
  C* const of_teams = reinterpret_cast<C*>(shared);
  C* const mine = Tiling::kTeams > 1 ? of_teams + threadIdx.x / Tiling::kTeam * kLength : to;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < Tiling::kRounds; ++k) {
    if (!groups.has(k)) continue;
    const int c = groups.column(k);
    if constexpr (Tiling::kShifted) {
      const Part<Tiling> part = groups.part(k);
#pragma unroll
      for (int j = 0; j < Tiling::kWidth; ++j) {
        if (part.has(j)) mine[c + j] = sums[k][j];
      }
    } else {
      Pack<C, Tiling::kWidth> group;
#pragma unroll
      for (int j = 0; j < Tiling::kWidth; ++j) group.v[j] = sums[k][j];
      store_pack(mine + c, group);
    }
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
template <typename Tiling, typename Body>
__device__ __forceinline__ void finish_columns(const Body& body, typename Tiling::Number* partials,
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
        if (column + j < Tiling::kLength) {
          body.store_column(place / Tiling::kPitch, column + j, sum.v[j]);
        }
      }
    }
    __syncthreads();
  }
}

template <typename Tiling, typename Body>
__device__ __forceinline__ void rows_and_columns(const Body& body, u32* gate,
                                                 typename Tiling::Number* partials, u8* shared) {
  typedef typename Tiling::Number C;
  typedef RowSums<Tiling> Sums;
  constexpr int kRounds = Tiling::kRounds;
  constexpr int kSums = Tiling::kSums > 0 ? Tiling::kSums : 1;
  constexpr int kPlaces =
      Tiling::kTeam > 32 ? 2 * (int)Tiling::kTeams * ((int)Tiling::kTeam / 32) : 1;
  __shared__ Sums places[kPlaces];
  const u32 team = threadIdx.x / Tiling::kTeam;
  // All teams of a block make as many rounds; the last may find no row.
  constexpr idx kRows = (idx)Tiling::kRows;
  const idx step = (idx)gridDim.x * Tiling::kTeams;
  const idx first = (idx)blockIdx.x * Tiling::kTeams;
  const Groups<Tiling> groups{
      threadIdx.x % Tiling::kTeam,
      Tiling::kShifted ? (u32)((first + team) * Tiling::kLength % Tiling::kWidth) : 0};
  const auto place = [&](u32 stage, int k) {
    return (stage * kRounds + k) * Tiling::kThreads + threadIdx.x;
  };
  const auto element = [&](idx row, int k) {
    return row * Tiling::kLength + (idx)(i64)groups.column(k);
  };

  typename Body::Columns columns[kRounds] = {};
  C column_sums[kSums][kRounds][Tiling::kWidth] = {};
#pragma unroll
  for (int k = 0; k < kRounds; ++k) {
    if (groups.has(k)) body.take_columns(columns[k], groups.column(k), groups.part(k));
  }
  const auto add_columns = [&](int k, const C(&more)[kSums][Tiling::kWidth]) {
#pragma unroll
    for (int n = 0; n < Tiling::kSums; ++n) {
#pragma unroll
      for (int j = 0; j < Tiling::kWidth; ++j) column_sums[n][k][j] += more[n][j];
    }
  };
  const auto start = [&](idx row, u32 stage, int k) {
    if (row < kRows && groups.has(k)) body.start(shared, place(stage, k), element(row, k));
  };
#pragma unroll
  for (u32 stage = 0; stage < Tiling::kStages; ++stage) {
#pragma unroll
    for (int k = 0; k < kRounds; ++k) start(first + stage * step + team, stage, k);
    end_copy_group();
  }
  const auto clamped = [](idx row) { return row < kRows ? row : kRows - 1; };
  typename Body::Row next = body.row(clamped(first + team));
  u32 stage = 0;
  u32 turn = 0;
  for (idx base = first; base < kRows; base += step) {
    const idx r = base + team;
    const bool active = r < kRows;
    const typename Body::Row row = next;
    next = body.row(clamped(r + step));
    wait_for_copies<Tiling::kStages - 1>();
    Sums sums = {};
#pragma unroll
    for (int k = 0; k < kRounds; ++k) {
      if (!active || !groups.has(k)) continue;
      C more[kSums][Tiling::kWidth] = {};
      body.add(row, columns[k], body.group(shared, place(stage, k)), r, element(r, k),
               groups.part(k), sums.v, more);
      add_columns(k, more);
    }
    if (Tiling::kRowSums > 0) {
      add_team<Tiling::kTeam, Tiling::kTeams>(sums, places, turn, team);
      if (active && groups.t == 0) body.store_row(row, r, sums.v);
    }
#pragma unroll
    for (int k = 0; k < kRounds; ++k) {
      if (active && groups.has(k)) {
        C more[kSums][Tiling::kWidth] = {};
        body.finish(row, columns[k], body.group(shared, place(stage, k)), r, element(r, k),
                    groups.part(k), sums.v, more);
        add_columns(k, more);
      }
      // The thread has read its own part of the row: what follows takes its place.
      start(r + Tiling::kStages * step, stage, k);
    }
    end_copy_group();
    stage = stage + 1 == Tiling::kStages ? 0 : stage + 1;
    turn ^= 1;
  }
  if constexpr (Tiling::kSums > 0) {
    wait_for_copies<0>();
    C* const mine = partials + (u64)blockIdx.x * (Tiling::kSums * Tiling::kPitch);
#pragma unroll
    for (int n = 0; n < Tiling::kSums; ++n) {
      leave_sums<Tiling>(column_sums[n], groups, mine + n * Tiling::kPitch, shared);
    }
    wait_for_grid(gate);
    finish_columns<Tiling>(body, partials, shared);
  }
}
