// Sorts of rows. A row, or a stretch of a longer one, is sorted in registers, by shuffles and
// through shared memory, in a bitonic network. Where rows have several stretches, entries that
// follow merge them.

// Keys of an order that integers have: -0 is 0, and NaN is larger than all.
__device__ __forceinline__ u32 key_of(bool x) { return x; }
__device__ __forceinline__ u32 key_of(i32 x) { return (u32)x ^ 0x80000000u; }
__device__ __forceinline__ u64 key_of(i64 x) { return (u64)x ^ 0x8000000000000000ull; }
__device__ __forceinline__ u32 key_of(f32 x) {
  const u32 bits = __float_as_uint(x == 0 ? 0.0f : x);
  if (x != x) return 0xffffffffu;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ u64 key_of(f64 x) {
  const u64 bits = (u64)__double_as_longlong(x == 0 ? 0.0 : x);
  if (x != x) return 0xffffffffffffffffull;
  return bits & 0x8000000000000000ull ? ~bits : bits | 0x8000000000000000ull;
}

// An element: its key, then its place, so that equal elements keep their order. No element comes
// after all others.
struct NarrowItem {
  u64 bits;

  __device__ __forceinline__ static NarrowItem none() { return {~0ull}; }
  __device__ __forceinline__ static NarrowItem of(u32 key, u64 place) {
    return {(u64)key << 32 | place};
  }
  __device__ __forceinline__ u64 place() const { return bits & 0xffffffffull; }
  __device__ __forceinline__ bool before(const NarrowItem& other) const {
    return bits < other.bits;
  }
  __device__ __forceinline__ NarrowItem of_lane(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, bits, mask)};
  }
};

struct WideItem {
  u64 key;
  u64 at;

  __device__ __forceinline__ static WideItem none() { return {~0ull, ~0ull}; }
  __device__ __forceinline__ static WideItem of(u64 key, u64 place) { return {key, place}; }
  __device__ __forceinline__ u64 place() const { return at; }
  __device__ __forceinline__ bool before(const WideItem& other) const {
    // Without a branch.
    return (key < other.key) | ((key == other.key) & (at < other.at));
  }
  __device__ __forceinline__ WideItem of_lane(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, key, mask), __shfl_xor_sync(0xffffffffu, at, mask)};
  }
};

// The threads of a stretch sort it: thread t has the items from t * kItems on in the end. kTogether
// threads of the block do so at once, in one or several stretches.
template <typename Item, int kItems, int kThreads, int kTogether>
struct Network {
  // In shared memory, an item of each thread in a row; padded, as they are read in another order.
  static constexpr int kPitch = kThreads + (kItems > 1 ? 32 / kItems : 0);
  static constexpr int kSlots = kItems * kPitch;
  static __device__ __forceinline__ int slot(int thread, int e) { return e * kPitch + thread; }

  static __device__ __forceinline__ void wait() {
    asm volatile("bar.sync 1, %0;" ::"n"(kTogether < 32 ? 32 : kTogether) : "memory");
  }

  static __device__ __forceinline__ void order(Item& a, Item& b, bool up) {
    if (b.before(a) != up) return;
    const Item first = a;
    a = b;
    b = first;
  }

  // Partners of other threads of the warp.
  template <int kApart>
  static __device__ __forceinline__ void order_lanes(Item (&x)[kItems], int thread, bool up) {
    const bool keeps_first = ((thread & kApart) == 0) == up;
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const Item other = x[e].of_lane(kApart);
      if (other.before(x[e]) == keeps_first) x[e] = other;
    }
  }

  // Partners of other warps.
  static __device__ __forceinline__ void order_warps(Item (&x)[kItems], Item* slots, int thread,
                                                     int apart, bool up) {
    const bool keeps_first = ((thread & apart) == 0) == up;
    wait();
#pragma unroll
    for (int e = 0; e < kItems; ++e) slots[slot(thread, e)] = x[e];
    wait();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const Item other = slots[slot(thread ^ apart, e)];
      if (other.before(x[e]) == keeps_first) x[e] = other;
    }
  }

  static __device__ __forceinline__ void sort(Item (&x)[kItems], Item* slots, int thread) {
#pragma unroll
    for (int size = 2; size < kItems; size *= 2) {
#pragma unroll
      for (int apart = size / 2; apart > 0; apart /= 2) {
#pragma unroll
        for (int e = 0; e < kItems; ++e) {
          if ((e & apart) == 0) order(x[e], x[e | apart], (e & size) == 0);
        }
      }
    }
#pragma unroll 1
    for (int size = kItems < 2 ? 2 : kItems; size <= kItems * kThreads; size *= 2) {
      const bool up = (thread * kItems & size) == 0;
      const int threads = size / kItems;
#pragma unroll 1
      for (int apart = threads / 2; apart >= 32; apart /= 2) {
        order_warps(x, slots, thread, apart, up);
      }
      if (threads > 16) order_lanes<16>(x, thread, up);
      if (threads > 8) order_lanes<8>(x, thread, up);
      if (threads > 4) order_lanes<4>(x, thread, up);
      if (threads > 2) order_lanes<2>(x, thread, up);
      if (threads > 1) order_lanes<1>(x, thread, up);
#pragma unroll
      for (int apart = kItems / 2; apart > 0; apart /= 2) {
#pragma unroll
        for (int e = 0; e < kItems; ++e) {
          if ((e & apart) == 0) order(x[e], x[e | apart], up);
        }
      }
    }
  }
};

// No less than n, and no less than a warp.
__device__ constexpr int power_of_two(int n) {
  int power = 32;
  while (power < n) power *= 2;
  return power;
}

// Rows of kLength elements that are kApart from each other, of whose sorted elements the first
// kKept are results. In has the elements: key(i), for the order that is asked for, and take(from,
// to, place), which stores one.
template <u64 kRows, u64 kLength, u64 kApart, u64 kKept>
struct SortedRows {
  static __device__ __forceinline__ u64 begin(u64 q, u64 length) {
    return q / kApart * (length * kApart) + q % kApart;
  }

  template <typename In, typename Item>
  static __device__ __forceinline__ void take(const In& in, u64 q, u64 rank, const Item& item) {
    in.take(begin(q, kLength) + item.place() * kApart, begin(q, kKept) + rank * kApart,
            item.place());
  }

  // A block sorts some stretches. Of each, the first kStretchKept items are stored in `work`, or,
  // where rows have but one, as results.
  template <typename Item, int kItems, int kThreads, int kTogether, int kStretchKept, typename In>
  static __device__ __forceinline__ void sort(const In& in, Item* slots, Item* work) {
    using Sorts = Network<Item, kItems, kThreads, kThreads * kTogether>;
    constexpr u64 kStretch = kItems * kThreads;
    constexpr u64 kStretches = (kLength + kStretch - 1) / kStretch;
    constexpr u64 kUnits = kRows * kStretches;
    const int thread = threadIdx.x % kThreads;
    const u64 own = (u64)blockIdx.x * kTogether + threadIdx.x / kThreads;
    const u64 unit = own < kUnits ? own : 0;
    const u64 q = unit / kStretches;
    slots += threadIdx.x / kThreads * Sorts::kSlots;
    Item x[kItems];
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const u64 place = unit % kStretches * kStretch + e * kThreads + thread;
      x[e] = place < kLength ? Item::of(in.key(begin(q, kLength) + place * kApart), place)
                             : Item::none();
    }
    const auto store = [&](int rank, const Item& item) {
      if (own >= kUnits || rank >= kStretchKept || item.place() >= kLength) return;
      if (kStretches > 1) {
        work[unit * kStretchKept + rank] = item;
      } else {
        take(in, q, rank, item);
      }
    };
    if constexpr (kTogether == 1 && kItems > 1 && kItems * kStretchKept <= kThreads) {
      store(thread, picked<Item, kItems, kThreads, kStretchKept>(x, slots, thread));
      return;
    }
    Sorts::sort(x, slots, thread);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) slots[Sorts::slot(thread, e)] = x[e];
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const int rank = e * kThreads + thread;
      store(rank, slots[Sorts::slot(rank / kItems, rank % kItems)]);
    }
  }

  // The item of each thread in the order of the first few, without sorting them all: these are
  // items of as many threads, those whose first items come first.
  template <typename Item, int kItems, int kThreads, int kFirst>
  static __device__ __forceinline__ Item picked(const Item (&x)[kItems], Item* slots, int thread) {
    using Sorts = Network<Item, 1, kThreads, kThreads>;
    // All threads whose items may be among the first ones, and whole warps.
    constexpr int kLeft = power_of_two(kItems * kFirst);
    using Rest = Network<Item, 1, kLeft, kLeft>;
    Item first[1] = {x[0]};
#pragma unroll
    for (int e = 1; e < kItems; ++e) first[0] = x[e].before(first[0]) ? x[e] : first[0];
    Sorts::sort(first, slots, thread);
    __shared__ Item last;
    __shared__ int count;
    __syncthreads();
    if (thread == kFirst - 1) last = first[0];
    if (thread == 0) count = 0;
    slots[thread] = Item::none();
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const bool taken = x[e].before(Item::none()) && !last.before(x[e]);
      if (taken) slots[atomicAdd(&count, 1)] = x[e];
    }
    __syncthreads();
    if (thread >= kLeft) return Item::none();
    first[0] = slots[thread];
    Rest::sort(first, slots, thread);
    return first[0];
  }

  // Merges runs of `from`, each of kSpan elements of a row, of which the first kFromKept are there;
  // kRunsMerged runs become one, of which the first kToKept are stored in `to`, or as results. A
  // thread counts how many items of the other runs come before its own.
  template <typename Item, int kRunsMerged, u64 kSpan, u64 kFromKept, u64 kToKept, bool kLast,
            typename In>
  static __device__ __forceinline__ void merge(const In& in, const Item* from, Item* to) {
    constexpr u64 kRuns = (kLength + kSpan - 1) / kSpan;
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= kRows * kRuns * kFromKept) return;
    const u64 q = at / kFromKept / kRuns;
    const u64 run = at / kFromKept % kRuns;
    const u64 first = run / kRunsMerged * kRunsMerged;
    const auto items_of = [&](u64 r) {
      const u64 left = r < kRuns ? kLength - r * kSpan : 0;
      return left < kFromKept ? left : kFromKept;
    };
    u64 rank = at % kFromKept;
    if (rank >= items_of(run)) return;
    const Item item = from[at];
    u32 items[kRunsMerged];
    u32 counts[kRunsMerged];
    const Item* runs[kRunsMerged];
#pragma unroll
    for (int r = 0; r < kRunsMerged; ++r) {
      items[r] = first + r == run ? 0 : (u32)items_of(first + r);
      counts[r] = 0;
      runs[r] = from + (q * kRuns + (items[r] == 0 ? run : first + r)) * kFromKept;
    }
    u32 step = 1;
    while (step * 2 <= kFromKept) step *= 2;
#pragma unroll 1
    for (; step > 0; step /= 2) {
      // All runs are looked at at once, also where there is nothing to find.
      bool before[kRunsMerged];
#pragma unroll
      for (int r = 0; r < kRunsMerged; ++r) {
        const u32 next = counts[r] + step;
        const bool within = next <= items[r];
        before[r] = runs[r][within ? next - 1 : 0].before(item) && within;
      }
#pragma unroll
      for (int r = 0; r < kRunsMerged; ++r) counts[r] += before[r] ? step : 0;
    }
#pragma unroll
    for (int r = 0; r < kRunsMerged; ++r) rank += counts[r];
    if (rank >= kToKept) return;
    if (kLast) {
      take(in, q, rank, item);
    } else {
      constexpr u64 kRunsLeft = (kRuns + kRunsMerged - 1) / kRunsMerged;
      to[(q * kRunsLeft + run / kRunsMerged) * kToKept + rank] = item;
    }
  }
};
