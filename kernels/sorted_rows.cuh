// Sorts of rows. A row, or a stretch of a longer one, is sorted in registers, by shuffles and
// through shared memory, in a bitonic network. Where rows have several stretches, a second entry
// adds to each element's place in its own stretch how many of the others come before it.

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
    return key < other.key || (key == other.key && at < other.at);
  }
  __device__ __forceinline__ WideItem of_lane(int mask) const {
    return {__shfl_xor_sync(0xffffffffu, key, mask), __shfl_xor_sync(0xffffffffu, at, mask)};
  }
};

// The threads of a stretch sort it: thread t has the items from t * kItems on in the end.
template <typename Item, int kItems, int kThreads>
struct Network {
  // In shared memory, an item of each thread in a row; padded, as they are read in another order.
  static constexpr int kPitch = kThreads + 32 / kItems;
  static constexpr int kSlots = kItems * kPitch;
  static __device__ __forceinline__ int slot(int thread, int e) { return e * kPitch + thread; }

  static __device__ __forceinline__ void order(Item& a, Item& b, bool up) {
    if (b.before(a) != up) return;
    const Item first = a;
    a = b;
    b = first;
  }

  // Partners that are fewer places apart than a thread has items.
  template <int kFrom>
  static __device__ __forceinline__ void order_own(Item (&x)[kItems], bool up) {
#pragma unroll
    for (int apart = kFrom; apart > 0; apart /= 2) {
#pragma unroll
      for (int e = 0; e < kItems; ++e) {
        if ((e & apart) == 0) order(x[e], x[e | apart], up);
      }
    }
  }

  // Partners of another thread.
  static __device__ __forceinline__ void order_others(Item (&x)[kItems], Item* slots, int thread,
                                                      int apart, bool up) {
    const bool keeps_first = ((thread & apart) == 0) == up;
    if (apart >= 32) {
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kItems; ++e) slots[slot(thread, e)] = x[e];
      __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const Item other = apart < 32 ? x[e].of_lane(apart) : slots[slot(thread ^ apart, e)];
      if (other.before(x[e]) == keeps_first) x[e] = other;
    }
  }

  // All threads of the block take part.
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
#pragma unroll 1
      for (int apart = size / 2 / kItems; apart > 0; apart /= 2) {
        order_others(x, slots, thread, apart, up);
      }
      order_own<kItems / 2>(x, up);
    }
  }
};

// Where stretches are: stretch `unit` is number unit % kStretches of row unit / kStretches. In has
// the elements: key(i), for the order that is asked for, and take(from, to, place), which stores
// one. Elements of a row are `apart` from each other.
template <u64 kRows, u64 kLength, u64 kApart, u64 kKept, int kStretches>
struct SortedRows {
  static constexpr u64 kUnits = kRows * kStretches;

  static __device__ __forceinline__ u64 row(u64 q, u64 length) {
    return q / kApart * (length * kApart) + q % kApart;
  }

  // A block sorts some stretches. Of each, the first kStretchKept items are stored in `work`, or,
  // where rows have but one, as results.
  template <typename Item, int kItems, int kThreads, int kTogether, int kStretchKept, typename In>
  static __device__ __forceinline__ void sort(const In& in, Item* slots, Item* work) {
    using Sorts = Network<Item, kItems, kThreads>;
    constexpr u64 kStretch = kItems * kThreads;
    const int thread = threadIdx.x % kThreads;
    const u64 own = (u64)blockIdx.x * kTogether + threadIdx.x / kThreads;
    const u64 unit = own < kUnits ? own : 0;
    const u64 q = unit / kStretches;
    const u64 begin = unit % kStretches * kStretch;
    slots += threadIdx.x / kThreads * Sorts::kSlots;
    Item x[kItems];
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const u64 place = begin + e * kThreads + thread;
      x[e] = place < kLength ? Item::of(in.key(row(q, kLength) + place * kApart), place)
                             : Item::none();
    }
    Sorts::sort(x, slots, thread);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) slots[Sorts::slot(thread, e)] = x[e];
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kItems; ++e) {
      const int rank = e * kThreads + thread;
      if (own >= kUnits || rank >= kStretchKept) continue;
      const Item item = slots[Sorts::slot(rank / kItems, rank % kItems)];
      if (kStretches > 1) {
        work[unit * kStretchKept + rank] = item;
      } else {
        in.take(row(q, kLength) + item.place() * kApart, row(q, kKept) + rank * kApart,
                item.place());
      }
    }
  }

  // A thread finds the place in its row of one item of a stretch.
  template <typename Item, int kStretchKept, typename In>
  static __device__ __forceinline__ void merge(const In& in, const Item* work) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= kUnits * kStretchKept) return;
    const Item item = work[at];
    const u64 unit = at / kStretchKept;
    const u64 q = unit / kStretches;
    if (item.place() >= kLength) return;
    u64 rank = at % kStretchKept;
    for (int s = 0; s < kStretches && rank < kKept; ++s) {
      if (q * kStretches + s == unit) continue;
      const Item* const others = work + (q * kStretches + s) * kStretchKept;
      int count = 0;  // that come before it
#pragma unroll 1
      for (int left = kStretchKept; left > 0;) {
        const int half = left / 2;
        const bool before = others[count + half].before(item);
        count = before ? count + half + 1 : count;
        left = before ? left - half - 1 : half;
      }
      rank += count;
    }
    if (rank >= kKept) return;
    in.take(row(q, kLength) + item.place() * kApart, row(q, kKept) + rank * kApart, item.place());
  }
};
