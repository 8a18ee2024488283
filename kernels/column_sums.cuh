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
// Rows whose length is no multiple of a group begin anywhere in one. Their groups are those of the
// memory, and all rows have as many; the first threads of the team have an element each of the rest
// (kEnds), ahead of the first group and behind the last. All rows of a team begin at the same place
// in a group, so that its threads keep their columns.
//
// `Tiling` has the constants of src/plan/column_sums.hpp and `Number`, the type that is computed
// in. `Body` has the rest: it copies and reads operands, adds up, and stores results, N elements at
// a time, a group or one. Its members:
//   Row, Columns<N>, Group<N>: what is read of a row, of N columns, of N elements
//   Results, results(row, sums): what follows from a row's sums
//   row(r), take_columns(columns, c), start(shared, place, i), group(shared, place), read(i)
//   add(row, columns, group, r, i, sums, column_sums): the first pass; it adds to the row's sums
//     and sets what it adds to each column
//   finish(row, columns, group, r, i, results, column_sums): the second, which stores
//   store_row(row, r, sums), store_column(which, c, sum)

// The elements of N columns of a tensor that has one for each column.
template <typename Tiling, typename T, int N>
__device__ __forceinline__ void take_columns(Pack<T, N>& to, const T* tensor, u32 c) {
  if constexpr (Tiling::kEnds == 0) {
    to = load_pack<N>(tensor + c);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) to.v[j] = tensor[c + j];
  }
}

// Copies a group to shared memory.
template <typename T, int N>
__device__ __forceinline__ void start_group(Pack<T, N>& to, const T* tensor, idx i) {
  // Copies that run by themselves are of 4 bytes at least.
  if constexpr (sizeof(to) >= 4) {
    copy_async(to, tensor + i);
  } else {
    copy_now(to, tensor + i);
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

// The sums of all warps of a team, in the same order in each of its threads. `of_warps` has two
// sets that rows take turns with: who is late may still read the last row's.
template <int kTeam, int kTeams, typename Sums>
__device__ __forceinline__ void add_team(Sums& sums, Sums* of_warps, u32 turn, u32 team) {
  if constexpr (kTeam <= 32) {
    add_lanes<kTeam>(sums);
  } else {
    constexpr int kWarps = kTeam / 32;
    add_lanes<32>(sums);
    Sums* const mine = of_warps + (turn * kTeams + team) * kWarps;
    if (threadIdx.x % 32 == 0) mine[threadIdx.x % kTeam / 32] = sums;
    asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(kTeam) : "memory");
    constexpr int kGroup = lanes_for(kWarps);
    const u32 warp = threadIdx.x % kGroup;
    sums = warp < kWarps ? mine[warp] : Sums{};
    add_lanes<kGroup>(sums);
  }
}

// Which columns a thread has: those of some groups, and maybe one of a row's ends.
template <typename Tiling>
struct Places {
  u32 t;     // of the team's threads
  u32 head;  // elements of a row ahead of its first group
  __device__ __forceinline__ u32 column(int k) const {
    return head + (k * Tiling::kTeam + t) * Tiling::kWidth;
  }
  __device__ __forceinline__ bool has(int k) const {
    return (k + 1) * Tiling::kTeam <= Tiling::kGroups || k * Tiling::kTeam + t < Tiling::kGroups;
  }
  __device__ __forceinline__ bool has_end() const { return t < Tiling::kEnds; }
  __device__ __forceinline__ u32 end() const {
    return t < head ? t : Tiling::kGroups * Tiling::kWidth + t;
  }
};

// What a thread keeps of N columns.
template <typename Tiling, typename Body, int N>
struct ColumnState {
  typedef typename Tiling::Number C;
  static constexpr int kSums = Tiling::kSums > 0 ? Tiling::kSums : 1;
  typename Body::template Columns<N> columns = {};
  C sums[kSums][N] = {};

  __device__ __forceinline__ void add(const C (&more)[kSums][N]) {
#pragma unroll
    for (int n = 0; n < Tiling::kSums; ++n) {
#pragma unroll
      for (int j = 0; j < N; ++j) sums[n][j] += more[n][j];
    }
  }
  template <typename Row, typename Sums>
  __device__ __forceinline__ void first_pass(const Body& body, const Row& row,
                                             const typename Body::template Group<N>& group, idx r,
                                             idx i, Sums& row_sums) {
    C more[kSums][N] = {};
    body.add(row, columns, group, r, i, row_sums.v, more);
    add(more);
  }
  template <typename Row, typename Results>
  __device__ __forceinline__ void second_pass(const Body& body, const Row& row,
                                              const typename Body::template Group<N>& group, idx r,
                                              idx i, const Results& results) {
    C more[kSums][N] = {};
    body.finish(row, columns, group, r, i, results, more);
    add(more);
  }
  // Leaves the n-th sums from `to` on.
  __device__ __forceinline__ void leave(int n, C* to) const {
    Pack<C, N> group;
#pragma unroll
    for (int j = 0; j < N; ++j) group.v[j] = sums[n][j];
    if constexpr (Tiling::kEnds == 0) {
      store_pack(to, group);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) to[j] = group.v[j];
    }
  }
};

// Leaves the block's n-th sums at `to`, and zeros up to a multiple of four columns.
template <typename Tiling, typename State, typename End>
__device__ __forceinline__ void leave_sums(const State (&state)[Tiling::kRounds], const End& end,
                                           int n, const Places<Tiling>& places,
                                           typename Tiling::Number* to, u8* shared) {
  typedef typename Tiling::Number C;
  constexpr u32 kLength = Tiling::kLength;
  C* const of_teams = reinterpret_cast<C*>(shared);
  C* const mine = Tiling::kTeams > 1 ? of_teams + threadIdx.x / Tiling::kTeam * kLength : to;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < Tiling::kRounds; ++k) {
    if (places.has(k)) state[k].leave(n, mine + places.column(k));
  }
  if (places.has_end()) end.leave(n, mine + places.end());
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
  typedef RowSums<Tiling> Sums;
  constexpr int kRounds = Tiling::kRounds;
  constexpr idx kRows = (idx)Tiling::kRows;
  constexpr int kTeamSums =
      Tiling::kTeam > 32 ? 2 * (int)Tiling::kTeams * ((int)Tiling::kTeam / 32) : 1;
  __shared__ Sums team_sums[kTeamSums];
  const u32 team = threadIdx.x / Tiling::kTeam;
  // All teams of a block make as many rounds; the last may find no row.
  const idx step = (idx)gridDim.x * Tiling::kTeams;
  const idx first = (idx)blockIdx.x * Tiling::kTeams;
  const u32 lead = Tiling::kEnds > 0 ? (u32)((first + team) * Tiling::kLength % Tiling::kWidth) : 0;
  const Places<Tiling> places{threadIdx.x % Tiling::kTeam,
                              (Tiling::kWidth - lead) % Tiling::kWidth};
  const auto place = [&](u32 stage, int k) {
    return (stage * kRounds + k) * Tiling::kThreads + threadIdx.x;
  };
  const auto element = [&](idx row, u32 column) { return row * Tiling::kLength + column; };
  const auto clamped = [](idx row) { return row < kRows ? row : kRows - 1; };

  ColumnState<Tiling, Body, Tiling::kWidth> state[kRounds];
  ColumnState<Tiling, Body, 1> end;
#pragma unroll
  for (int k = 0; k < kRounds; ++k) {
    if (places.has(k)) body.take_columns(state[k].columns, places.column(k));
  }
  if (places.has_end()) body.take_columns(end.columns, places.end());
  const auto start = [&](idx row, u32 stage, int k) {
    if (row < kRows && places.has(k)) {
      body.start(shared, place(stage, k), element(row, places.column(k)));
    }
  };
#pragma unroll
  for (u32 stage = 0; stage < Tiling::kStages; ++stage) {
#pragma unroll
    for (int k = 0; k < kRounds; ++k) start(first + stage * step + team, stage, k);
    end_copy_group();
  }
  // What a row has one of, and its ends, are read a row ahead.
  typename Body::Row next = body.row(clamped(first + team));
  typename Body::template Group<1> next_end = {};
  if (places.has_end()) next_end = body.read(element(clamped(first + team), places.end()));
  u32 stage = 0;
  u32 turn = 0;
  for (idx base = first; base < kRows; base += step) {
    const idx r = base + team;
    const bool active = r < kRows;
    const typename Body::Row row = next;
    const typename Body::template Group<1> of_end = next_end;
    next = body.row(clamped(r + step));
    if (places.has_end()) next_end = body.read(element(clamped(r + step), places.end()));
    wait_for_copies<Tiling::kStages - 1>();
    Sums sums = {};
#pragma unroll
    for (int k = 0; k < kRounds; ++k) {
      if (!active || !places.has(k)) continue;
      state[k].first_pass(body, row, body.group(shared, place(stage, k)), r,
                          element(r, places.column(k)), sums);
    }
    if constexpr (Tiling::kEnds > 0) {
      if (active && places.has_end()) {
        end.first_pass(body, row, of_end, r, element(r, places.end()), sums);
      }
    }
    if constexpr (Tiling::kRowSums > 0) {
      add_team<Tiling::kTeam, Tiling::kTeams>(sums, team_sums, turn, team);
      if (active && places.t == 0) body.store_row(row, r, sums.v);
    }
    const typename Body::Results results = body.results(row, sums.v);
#pragma unroll
    for (int k = 0; k < kRounds; ++k) {
      if (active && places.has(k)) {
        state[k].second_pass(body, row, body.group(shared, place(stage, k)), r,
                             element(r, places.column(k)), results);
      }
      // The thread has read its own part of the row: what follows takes its place.
      start(r + Tiling::kStages * step, stage, k);
    }
    if constexpr (Tiling::kEnds > 0) {
      if (active && places.has_end()) {
        end.second_pass(body, row, of_end, r, element(r, places.end()), results);
      }
    }
    end_copy_group();
    stage = stage + 1 == Tiling::kStages ? 0 : stage + 1;
    turn ^= 1;
  }
  if constexpr (Tiling::kSums > 0) {
    wait_for_copies<0>();
    typename Tiling::Number* const mine =
        partials + (u64)blockIdx.x * (Tiling::kSums * Tiling::kPitch);
#pragma unroll
    for (int n = 0; n < Tiling::kSums; ++n) {
      leave_sums<Tiling>(state, end, n, places, mine + n * Tiling::kPitch, shared);
    }
    wait_for_grid(gate);
    finish_columns<Tiling>(body, partials, shared);
  }
}
