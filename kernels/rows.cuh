// The accumulators of reductions over whole rows, and how the threads that share a row merge them.
// An accumulator adds elements one by one (add), adds another accumulator of the same row (merge),
// and computes its results once the whole row was added (finish).

// Bytes that the largest of several uses takes.
template <int n>
__device__ constexpr u64 most_of(const u64 (&sizes)[n]) {
  u64 most = 16;
  for (int i = 0; i < n; ++i) most = sizes[i] > most ? sizes[i] : most;
  return most;
}

template <typename T>
struct Sum {
  T sum = 0;
  static constexpr int kMerged = sizeof(T) / 4;  // words, from the first on
  __device__ __forceinline__ void reset() { sum = 0; }
  __device__ __forceinline__ void add(T x, u64) { sum += x; }
  __device__ __forceinline__ void merge(const Sum& o) { sum += o.sum; }
  __device__ __forceinline__ void finish(u64, double) {}
};

// Keeps one value of all: which one it starts with, and which of two it keeps.
template <typename T, T (*kFirst)(), T (*kKept)(T, T)>
struct alignas(sizeof(T) < 4 ? 4 : sizeof(T)) Extreme {
  T value = kFirst();
  static constexpr int kMerged = (sizeof(T) + 3) / 4;  // words, from the first on
  __device__ __forceinline__ void reset() { value = kFirst(); }
  __device__ __forceinline__ void add(T x, u64) { value = kKept(x, value); }
  __device__ __forceinline__ void merge(const Extreme& o) { value = kKept(o.value, value); }
  __device__ __forceinline__ void finish(u64, double) {}
};
template <typename T>
__device__ __forceinline__ T zero() {
  return T(0);
}
template <typename T>
using Largest = Extreme<T, lowest<T>, larger>;
template <typename T>
using Smallest = Extreme<T, highest<T>, smaller>;
template <typename T>
struct LargestMagnitude : Extreme<T, zero<T>, larger> {
  __device__ __forceinline__ void add(T x, u64 at) {
    Extreme<T, zero<T>, larger>::add(magnitude(x), at);
  }
};

template <typename T>
struct Product {
  T value = 1;
  static constexpr int kMerged = (sizeof(T) + 3) / 4;  // words, from the first on
  __device__ __forceinline__ void reset() { value = 1; }
  __device__ __forceinline__ void add(T x, u64) { value *= x; }
  __device__ __forceinline__ void merge(const Product& o) { value *= o.value; }
  __device__ __forceinline__ void finish(u64, double) {}
};

// Whether any element is not 0, or none is.
template <typename T, bool kAll>
struct Truth {
  u32 value = kAll;
  static constexpr int kMerged = 1;  // words, from the first on
  __device__ __forceinline__ void reset() { value = kAll; }
  __device__ __forceinline__ void take(u32 x) { value = kAll ? value & x : value | x; }
  __device__ __forceinline__ void add(T x, u64) { take(x != T(0)); }
  __device__ __forceinline__ void merge(const Truth& o) { take(o.value); }
  __device__ __forceinline__ void finish(u64, double) {}
};
template <typename T>
using Any = Truth<T, false>;
template <typename T>
using All = Truth<T, true>;

// The first place of the largest or smallest value; NaN wins over all.
template <typename T, bool kLargest>
struct Place {
  T value = kLargest ? lowest<T>() : highest<T>();
  idx place = ~(idx)0;
  static constexpr int kMerged =
      (sizeof(T) < sizeof(idx) ? sizeof(idx) : sizeof(T)) / 2;  // words, from the first on
  __device__ __forceinline__ void reset() { *this = Place(); }
  // Without branches, over which no later load is moved.
  __device__ __forceinline__ void take(T x, idx at) {
    const bool wins = (kLargest ? x > value : x < value) | ((x != x) & (value == value));
    const bool ties = (x == value) | ((x != x) & (value != value));
    const bool kept = wins | (ties & (at < place));
    value = kept ? x : value;
    place = kept ? at : place;
  }
  __device__ __forceinline__ void add(T x, u64 at) { take(x, (idx)at); }
  __device__ __forceinline__ void merge(const Place& o) { take(o.value, o.place); }
  __device__ __forceinline__ void finish(u64, double) {}
};
template <typename T>
using LargestPlace = Place<T, true>;
template <typename T>
using SmallestPlace = Place<T, false>;

template <typename T>
struct SquareSum {
  T sum = 0;
  T scale;                                       // 1 / sqrt(mean + eps)
  static constexpr int kMerged = sizeof(T) / 4;  // words, from the first on
  __device__ __forceinline__ void reset() { sum = 0; }
  __device__ __forceinline__ void add(T x, u64) { sum += x * x; }
  __device__ __forceinline__ void merge(const SquareSum& o) { sum += o.sum; }
  __device__ __forceinline__ void finish(u64 count, double eps) {
    scale = rsqrt(sum / (T)count + (T)eps);
  }
};

// Mean and variance, out of sums of distances from the row's first element, which all threads know:
// a mean far from zero costs no digits, and states merge by adding.
template <typename T>
struct Moments {
  T sum = 0;
  T squares = 0;
  T pivot;
  T mean;
  T variance;
  T rstd;                                        // 1 / sqrt(variance + eps)
  static constexpr int kMerged = sizeof(T) / 2;  // words, from the first on
  __device__ __forceinline__ void reset() { sum = squares = 0; }
  __device__ __forceinline__ void add(T x, u64) {
    const T d = x - pivot;
    sum += d;
    squares += d * d;
  }
  __device__ __forceinline__ void merge(const Moments& o) {
    sum += o.sum;
    squares += o.squares;
  }
  __device__ __forceinline__ void finish(u64 count, double eps) {
    const T share = T(1) / (T)count;
    const T off = sum * share;
    mean = pivot + off;
    variance = squares * share - off * off;
    variance = variance < T(0) ? T(0) : variance;
    rstd = rsqrt(variance + (T)eps);
  }
};

// Sum of exponentials in one pass, as multiples of exp(most): `most` is an element of the row, or
// the lowest number. Others may be larger by kAbove, so that the sum is scaled down a few times a
// row, and the exponentials, of at most exp(kAbove), lose no digits.
template <typename T>
struct ExponentialSum {
  T most = lowest_finite<T>();
  T sum = 0;
  T inverse;                                     // 1 / sum
  T log;                                         // of the sum of all exponentials
  static constexpr int kMerged = sizeof(T) / 2;  // words, from the first on
  static constexpr T kAbove = 8;
  __device__ __forceinline__ void reset() { *this = ExponentialSum(); }
  // An infinite x makes the sum NaN: what is added next is exp(x - x).
  __device__ __forceinline__ void raise(T x) {
    if (x > most + kAbove) {
      sum *= exp_below(most - x);
      most = x;
    }
  }
  __device__ __forceinline__ void add(T x, u64) {
    raise(x);
    sum += exp_below(x - most);
  }
  // One look for the largest of a whole group.
  template <int n>
  __device__ __forceinline__ void add_group(const T (&x)[n]) {
    T top = x[0];
#pragma unroll
    for (int j = 1; j < n; ++j) top = larger(x[j], top);
    raise(top);
    T more = exp_below(x[0] - most);
#pragma unroll
    for (int j = 1; j < n; ++j) more += exp_below(x[j] - most);
    sum += more;
  }
  // The sum with the smaller of the two units is scaled down.
  __device__ __forceinline__ void merge(const ExponentialSum& o) {
    const T d = o.most - most;
    const T scale = exp_below(d > T(0) ? -d : d);
    sum = d > T(0) ? sum * scale + o.sum : sum + o.sum * scale;
    most = larger(o.most, most);
  }
  __device__ __forceinline__ void finish(u64, double) {
    // A row of nothing but minus infinity has no softmax: 0 times an infinite inverse.
    inverse = T(1) / sum;
    log = most + ::log(sum);
  }
};

// Adds a group of elements of a row that lie kApart from each other, one by one unless the
// accumulator has a faster way.
template <u32 kApart = 1, typename S, typename T, int n>
__device__ __forceinline__ void take(S& state, const T (&x)[n], u64 first) {
#pragma unroll
  for (int j = 0; j < n; ++j) state.add(x[j], first + j * kApart);
}
template <u32 kApart = 1, typename T, int n>
__device__ __forceinline__ void take(ExponentialSum<T>& state, const T (&x)[n], u64) {
  state.add_group(x);
}
// The first of a group's best, which is NaN if one is, then the better of that and the state's.
template <u32 kApart = 1, typename T, bool kLargest, int n>
__device__ __forceinline__ void take(Place<T, kLargest>& state, const T (&x)[n], u64 first) {
  T best = x[0];
#pragma unroll
  for (int j = 1; j < n; ++j) best = kLargest ? larger(x[j], best) : smaller(x[j], best);
  const bool unordered = best != best;
  u32 place = n - 1;
#pragma unroll
  for (int j = n - 2; j >= 0; --j) {
    place = (x[j] == best) | (unordered & (x[j] != x[j])) ? j : place;
  }
  state.add(best, first + place * kApart);
}

// Threads merge their states.

// The part of another lane's state that merge() reads.
template <typename S>
__device__ __forceinline__ S shuffled(const S& state, int mask) {
  S other;
  u32* const to = reinterpret_cast<u32*>(&other);
  const u32* const from = reinterpret_cast<const u32*>(&state);
#pragma unroll
  for (int w = 0; w < S::kMerged; ++w) to[w] = __shfl_xor_sync(0xffffffffu, from[w], mask);
  return other;
}

// The kTeam threads of a row are neighbours (a power of two up to 32): each gets the row's state.
template <int kTeam, typename S>
__device__ __forceinline__ void merge_lanes(S& state) {
#pragma unroll
  for (int mask = 1; mask < kTeam; mask *= 2) state.merge(shuffled(state, mask));
}

// The fewest neighbouring lanes, a power of two, that have a value of each of so many warps.
__device__ constexpr int lanes_for(int warps) {
  int lanes = 2;
  while (lanes < warps) lanes *= 2;
  return lanes;
}

// All kThreads threads of the block share a row. `scratch` holds a state per warp; the barriers
// leave it free for the next use.
template <int kThreads, typename S>
__device__ __forceinline__ void merge_block(S& state, void* scratch) {
  constexpr int kWarps = kThreads / 32;
  merge_lanes<32>(state);
  if (kWarps == 1) return;
  S* states = static_cast<S*>(scratch);
  __syncthreads();
  if (threadIdx.x % 32 == 0) states[threadIdx.x / 32] = state;
  __syncthreads();
  constexpr int kLanes = lanes_for(kWarps);
  const int warp = threadIdx.x % kLanes;
  if (warp < kWarps) {
    state = states[warp];
  } else {
    state.reset();
  }
  merge_lanes<kLanes>(state);
}

// Thread (x, y) of a block, x running first, has kWidth columns and every kTall-th of their
// elements. `scratch` holds the states of half of the block.
template <int kWide, int kTall, int kWidth, typename S>
__device__ __forceinline__ void merge_columns(S (&state)[kWidth], void* scratch) {
  S* states = static_cast<S*>(scratch);
  const int x = threadIdx.x % kWide;
  const int y = threadIdx.x / kWide;
#pragma unroll
  for (int half = kTall / 2; half > 0; half /= 2) {
    __syncthreads();
    if (y >= half && y < 2 * half) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) states[((y - half) * kWidth + j) * kWide + x] = state[j];
    }
    __syncthreads();
    if (y < half) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) state[j].merge(states[(y * kWidth + j) * kWide + x]);
    }
  }
  if (kTall == 1) return;
  __syncthreads();
  if (y == 0) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) states[j * kWide + x] = state[j];
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kWidth; ++j) state[j] = states[j * kWide + x];
}

// Merges lines of kColumns states each into the first, in a fixed order.
template <int kThreads, int kColumns, typename S>
__device__ __forceinline__ void fold_lines(S* states, u32 lines) {
#pragma unroll 1
  for (; lines > 1; lines -= lines / 2) {
    __syncthreads();
    const u32 half = (lines - lines / 2) * kColumns;
    for (u32 i = threadIdx.x; i < lines / 2 * kColumns; i += kThreads) {
      states[i].merge(states[half + i]);
    }
  }
  __syncthreads();
}

// Lines of kColumns follow each other, kWidth of their elements for each thread. Leaves what the
// block has of each column at `to`. There is room for kRoom lines in `scratch`.
template <int kThreads, int kColumns, int kRoom, typename S, int kWidth>
__device__ __forceinline__ void leave_columns(S* to, const S (&state)[kWidth], void* scratch) {
  constexpr u32 kElements = kThreads * kWidth;
  constexpr u32 kTogether = kRoom * kColumns < kElements ? kRoom * kColumns : kElements;
  S* const states = static_cast<S*>(scratch);
#pragma unroll
  for (u32 begin = 0; begin < kElements; begin += kTogether) {
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const u32 i = threadIdx.x * kWidth + j - begin;
      if (begin == 0 && i < kTogether) states[i] = state[j];
      if (begin > 0 && i < kTogether) states[i].merge(state[j]);
    }
  }
  fold_lines<kThreads, kColumns>(states, kTogether / kColumns);
  for (u32 c = threadIdx.x; c < kColumns; c += kThreads) to[c] = states[c];
}

// Merges what so many blocks left of this thread's column, one of kWide neighbours that the block
// has. `from` has a state for each block and column.
template <int kThreads, int kWide, typename S>
__device__ __forceinline__ void merge_left(S& state, S* from, u32 columns, u32 blocks, u32 column,
                                           void* scratch) {
  constexpr u32 kTall = kThreads / kWide;
  S* const states = static_cast<S*>(scratch);
  state.reset();
  __syncthreads();
  if (threadIdx.x < kWide * kTall) {
#pragma unroll 4
    for (u32 i = threadIdx.x / kWide; i < blocks; i += kTall)
      state.merge(from[i * columns + column]);
    states[threadIdx.x] = state;
  }
  fold_lines<kThreads, kWide>(states, kTall < blocks ? kTall : blocks);
  state = states[threadIdx.x % kWide];
}

// Merges what so many blocks left, one state each, for the whole block: all that a thread reads is
// on its way before the first is merged.
template <int kThreads, u32 kBlocks, typename S>
__device__ __forceinline__ void merge_blocks_left(S& state, const S* from, void* scratch) {
  state.reset();
#pragma unroll 16
  for (u32 begin = 0; begin < kBlocks; begin += kThreads) {
    S left;
    left.reset();
    if (begin + threadIdx.x < kBlocks) left = from[begin + threadIdx.x];
    state.merge(left);
  }
  merge_block<kThreads>(state, scratch);
}

// Values that are held for another pass, in shared memory or in registers. The compiler would give
// each byte a register of its own: the asm makes it keep whole words.
template <typename P>
__device__ __forceinline__ void hold_at(P& to, const P& value) {
  to = value;
}
template <typename P>
__device__ __forceinline__ void hold_packed(P& to, const P& value) {
  to = value;
  if (sizeof(to.v[0]) > 1 || sizeof(P) % 4 != 0) return;
  u32* const words = reinterpret_cast<u32*>(&to);
#pragma unroll
  for (int i = 0; i < (int)sizeof(P) / 4; ++i) asm("" : "+r"(words[i]));
}

// Copies from memory to shared memory that bypass the registers, so that all of a row's can be in
// flight at once. A thread waits for its own copies only, until at most the last kLeft groups of
// them are unfinished.
template <typename P, typename T>
__device__ __forceinline__ void copy_async(P& to, const T* from) {
#if __CUDA_ARCH__ >= 800
  const u32 place = (u32)__cvta_generic_to_shared(&to);
  if (sizeof(P) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(sizeof(P))
                 : "memory");
  }
#else
  to = *reinterpret_cast<const P*>(from);
#endif
}
template <typename P, typename T>
__device__ __forceinline__ void copy_now(P& to, const T* from) {
  hold_packed(to, *reinterpret_cast<const P*>(from));
}
__device__ __forceinline__ void end_copy_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// A run of `count` elements, from one that begins a group of 16 bytes on: copied to shared memory
// in whole groups, which memory has, and from there, which ends where the run does.
template <u32 kThreads, typename T>
__device__ __forceinline__ void fetch_run(T* to, const T* from, u32 count) {
  constexpr u32 kGroup = 16 / sizeof(T);
  for (u32 i = threadIdx.x * kGroup; i < count; i += kThreads * kGroup) {
    copy_async(*reinterpret_cast<Pack<T, kGroup>*>(to + i), from + i);
  }
}
template <u32 kThreads, typename T>
__device__ __forceinline__ void store_run(T* to, const T* from, u32 count) {
  constexpr u32 kGroup = 16 / sizeof(T);
  for (u32 i = threadIdx.x * kGroup; i < count; i += kThreads * kGroup) {
    if (count - i >= kGroup) {
      store_pack<kGroup>(to + i, load_pack<kGroup>(from + i));
      continue;
    }
    for (u32 j = i; j < count; ++j) to[j] = from[j];
  }
}

// For rows that several blocks share.

// All blocks of the grid wait for each other; they must be resident together. The top bit of `gate`
// flips with every wait, and the other bits return to 0: later launches need not reset it.
__device__ __forceinline__ void wait_for_grid(u32* gate) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
    const u32 before = arrive_at(gate, mine);
    while (((look_at(gate) ^ before) & 0x80000000u) == 0) {
    }
  }
  __syncthreads();
}

// The blocks of a cluster wait for each other, and see what the others have written to memory.
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Whether this block is the last of `blocks` to call this; the last one resets the ticket.
__device__ __forceinline__ bool last_of(u32* ticket, u32 blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    last = arrive_at(ticket, 1) == blocks - 1;
    if (last) *ticket = 0;
  }
  __syncthreads();
  return last;
}
