// What only sm_90a has: mbarriers with byte counts, bulk tensor copies (TMA), wgmma. Needs
// elements.cuh before it. Compiles for no other architecture.

// A CUtensorMap as cuTensorMapEncodeTiled fills it; passed as const __grid_constant__.
struct alignas(64) TensorMap {
  u64 words[16];
};

__device__ __forceinline__ u32 shared_address(const void* p) {
  return (u32)__cvta_generic_to_shared(p);
}

// Barriers in shared memory. A phase ends when all arrivals are in and all announced bytes have
// landed; waiting names the parity of the phase that is to end. Scopes are the block's, across a
// cluster too: what is handed over was read by wgmma or written by the copy engine, never by plain
// loads and stores, and the cluster's scope would flush the L1 at every wait.

__device__ __forceinline__ void barrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(u64* barrier, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ __forceinline__ void barrier_arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
// At the same barrier of block `rank` of the cluster.
__device__ __forceinline__ void barrier_arrive_at(u64* barrier, u32 rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
__device__ __forceinline__ void barrier_wait(u64* barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// To the same place in block `rank` of the cluster, counted as bytes on that block's `barrier`: a
// thread that waits there may read it. No fence: a release of plain stores would also wait for
// stores to memory.
__device__ __forceinline__ void store_async_at(float* to, u64* barrier, u32 rank, float value) {
  asm volatile(
      "{\n.reg .b32 remote, counted;\n"
      "mapa.shared::cluster.u32 remote, %0, %3;\n"
      "mapa.shared::cluster.u32 counted, %1, %3;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [remote], %2, "
      "[counted];\n}" ::"r"(shared_address(to)),
      "r"(shared_address(barrier)), "r"(__float_as_uint(value)), "r"(rank)
      : "memory");
}

// Where a launch may start before the one before it has ended (Launch::overlaps): that one calls
// let_next_start() in all blocks, and this one reads nothing of what that wrote before
// wait_for_previous(), which does nothing otherwise.
__device__ __forceinline__ void let_next_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ __forceinline__ void wait_for_previous() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
// What lies at the same place of block `rank`.
__device__ __forceinline__ float4 load_of_block(const float4* at, u32 rank) {
  float4 four;
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n}"
      : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
      : "r"(shared_address(at)), "r"(rank)
      : "memory");
  return four;
}
// cluster_sync() after barrier_init_done(), where nothing else was written: it waits for no store.
__device__ __forceinline__ void cluster_sync_inits() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
// Threads that all name the same barrier (1..15) and count.
__device__ __forceinline__ void group_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void group_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
// Registers a thread of this warpgroup may use: given back, or taken.
template <int kRegisters>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// A box of a rank-4 tensor to shared memory; what lies outside the tensor arrives as 0. `hint` is
// the L2's policy for it.

constexpr u64 kEvictNormal = 0x1000000000000000ull;
constexpr u64 kEvictFirst = 0x12f0000000000000ull;

__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, u64* barrier, int c0,
                                         int c1, int c2, int c3, u64 hint) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(hint)
      : "memory");
}
// To the same place of each of kBlocks of a cluster, every kStride-th from `first` on, counted on
// each one's own barrier: one read of the L2 serves them all.
template <int kBlocks, int kStride = 1>
__device__ __forceinline__ void copy_box_to_all(void* to, const TensorMap& map, u64* barrier,
                                                int c0, int c1, int c2, int c3, u64 hint,
                                                u32 first = 0) {
  if constexpr (kBlocks == 1) return copy_box(to, map, barrier, c0, c1, c2, c3, hint);
  constexpr u32 kAll = ((1u << kBlocks * kStride) - 1) / ((1u << kStride) - 1);
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7, %8;" ::"r"(
          shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3),
      "h"((unsigned short)(kAll << first)), "l"(hint)
      : "memory");
}

// So many bytes, a multiple of 16, to the same place in block `rank` of the cluster, counted on
// that block's `barrier`. What plain stores wrote needs stores_fence() first.
__device__ __forceinline__ void copy_to_block(void* place, u64* barrier, u32 rank, u32 bytes) {
  asm volatile(
      "{\n.reg .b32 remote, counted;\n"
      "mapa.shared::cluster.u32 remote, %0, %2;\n"
      "mapa.shared::cluster.u32 counted, %1, %2;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[remote], [%0], %3, [counted];\n}" ::"r"(shared_address(place)),
      "r"(shared_address(barrier)), "r"(rank), "r"(bytes)
      : "memory");
}

// So many bytes, a multiple of 16, counted on `barrier`.
__device__ __forceinline__ void load_bulk(void* to, const void* from, int bytes, u64* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// A box from shared memory, written by plain stores before stores_fence(); what lies outside the
// tensor is left out. The thread waits for its own stores: until at most so many have not been read
// from shared memory, or have not arrived.
__device__ __forceinline__ void stores_fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// So many bytes, a multiple of 16.
__device__ __forceinline__ void store_bulk(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void stores_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void stores_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
template <int kPending>
__device__ __forceinline__ void stores_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// The same of a map of windows (cuTensorMapEncodeIm2col): neighbouring pixels of a convolution's
// result, one after the other and on in the next line and image, at one tap: (row, column) of the
// window. (w, h, image) is where the first pixel's window begins.
template <int kBlocks, int kStride = 1>
__device__ __forceinline__ void copy_windows_to_all(void* to, const TensorMap& map, u64* barrier,
                                                    int channel, int w, int h, int image,
                                                    int column, int row, u64 hint, u32 first = 0) {
  const unsigned short at_column = (unsigned short)column, at_row = (unsigned short)row;
  if constexpr (kBlocks == 1) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(channel), "r"(w), "r"(h), "r"(image),
        "h"(at_column), "h"(at_row), "l"(hint)
        : "memory");
  } else {
    constexpr u32 kAll = ((1u << kBlocks * kStride) - 1) / ((1u << kStride) - 1);
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9, "
        "%10;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(channel), "r"(w), "r"(h), "r"(image),
        "h"(at_column), "h"(at_row), "h"((unsigned short)(kAll << first)), "l"(hint)
        : "memory");
  }
}

// wgmma: D[64][N] += A[64][k] B[k][N] by four warps, k being 32 bytes of an operand.

__device__ __forceinline__ void wgmma_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most this many committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps the compiler from moving an accumulator's reads and writes over a wait.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// An operand in shared memory, in rows of 128 bytes swizzled as TMA's SWIZZLE_128B leaves them, at
// 1024-byte boundaries. K-major: a row is 64 steps of K for one m (or n), and `repeat` is unused.
// MN-major: a row is 64 adjacent m (n) for one step of K, and `repeat` bytes lead to the next 64.
__device__ __forceinline__ u64 wgmma_operand(const void* p, u32 repeat) {
  constexpr u64 kSwizzle128 = 1ull << 62;
  constexpr u64 kEightRows = 1024 >> 4;
  return kSwizzle128 | kEightRows << 32 | (u64)(repeat >> 4) << 16 |
         (shared_address(p) & 0x3ffffu) >> 4;
}

#define FUSECALC_ACC4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FUSECALC_ACC8(i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define FUSECALC_ACC32(i) \
  FUSECALC_ACC8(i), FUSECALC_ACC8(i + 8), FUSECALC_ACC8(i + 16), FUSECALC_ACC8(i + 24)
#define FUSECALC_ACC_16 FUSECALC_ACC8(0)
#define FUSECALC_ACC_32 FUSECALC_ACC8(0), FUSECALC_ACC8(8)
#define FUSECALC_ACC_48 FUSECALC_ACC_32, FUSECALC_ACC8(16)
#define FUSECALC_ACC_64 FUSECALC_ACC32(0)
#define FUSECALC_ACC_80 FUSECALC_ACC_64, FUSECALC_ACC8(32)
#define FUSECALC_ACC_96 FUSECALC_ACC_80, FUSECALC_ACC8(40)
#define FUSECALC_ACC_104 FUSECALC_ACC_96, FUSECALC_ACC4(48)
#define FUSECALC_ACC_112 FUSECALC_ACC_96, FUSECALC_ACC8(48)
#define FUSECALC_ACC_128 FUSECALC_ACC_64, FUSECALC_ACC32(32)
#define FUSECALC_ACC_160 FUSECALC_ACC_128, FUSECALC_ACC8(64), FUSECALC_ACC8(72)
#define FUSECALC_ACC_192 FUSECALC_ACC_128, FUSECALC_ACC32(64)
#define FUSECALC_ACC_224 FUSECALC_ACC_192, FUSECALC_ACC8(96), FUSECALC_ACC8(104)
#define FUSECALC_ACC_256 FUSECALC_ACC_192, FUSECALC_ACC32(96)
#define FUSECALC_LIST16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FUSECALC_LIST32 FUSECALC_LIST16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FUSECALC_LIST48 FUSECALC_LIST32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FUSECALC_LIST64                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FUSECALC_LIST80 \
  FUSECALC_LIST64       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FUSECALC_LIST96 \
  FUSECALC_LIST80       \
  ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FUSECALC_LIST104 \
  FUSECALC_LIST96        \
  ", %48, %49, %50, %51"
#define FUSECALC_LIST112 \
  FUSECALC_LIST96        \
  ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FUSECALC_LIST128 \
  FUSECALC_LIST96        \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FUSECALC_LIST160 \
  FUSECALC_LIST128       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define FUSECALC_LIST192                                                             \
  FUSECALC_LIST128                                                                   \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FUSECALC_LIST224 \
  FUSECALC_LIST192       \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define FUSECALC_LIST256                                                                         \
  FUSECALC_LIST192                                                                               \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, " \
  "%127"

// A and B from shared memory; kTransposed says that the operand is MN-major. d is kept and added to
// where `keep` is not 0, and overwritten where it is.
template <int kN>
struct Wgmma;

#define FUSECALC_WGMMA(kN, T, N0, N1, N2, N3, N4, N5, N6)                                        \
  template <bool kTransposedA, bool kTransposedB>                                                \
  static __device__ __forceinline__ void shared(float(&d)[kN / 2], u64 a, u64 b, int keep, T) {  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #N2                                        \
                 ", 0;\n"                                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." #T "." #T                    \
                 " {" FUSECALC_LIST##kN "}, %" #N0 ", %" #N1 ", p, 1, 1, %" #N3 ", %" #N4 ";\n}" \
                 : FUSECALC_ACC_##kN                                                             \
                 : "l"(a), "l"(b), "r"(keep), "n"(kTransposedA), "n"(kTransposedB));             \
  }                                                                                              \
  template <bool kTransposedB>                                                                   \
  static __device__ __forceinline__ void registers(float(&d)[kN / 2], const u32(&a)[4], u64 b,   \
                                                   int keep, T) {                                \
    asm volatile(                                                                                \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %" #N5                                                 \
        ", 0;\n"                                                                                 \
        "wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." #T "." #T " {" FUSECALC_LIST##kN      \
        "}, {%" #N0 ", %" #N1 ", %" #N2 ", %" #N3 "}, %" #N4 ", p, 1, 1, %" #N6 ";\n}"           \
        : FUSECALC_ACC_##kN                                                                      \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(kTransposedB));     \
  }
// Operands of eight bits are K-major, and the sum keeps some fourteen bits of its mantissa; so are
// those of 32, which enter as tf32 (a map of that type rounds them).
#define FUSECALC_WGMMA_ALONG(kN, T, kDepth, kName, N0, N1, N2, N3, N4, N5, N6)                  \
  template <bool kTransposedA, bool kTransposedB>                                               \
  static __device__ __forceinline__ void shared(float(&d)[kN / 2], u64 a, u64 b, int keep, T) { \
    static_assert(!kTransposedA && !kTransposedB, "lines run along k");                         \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #N2                                       \
                 ", 0;\n"                                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #kN "k" #kDepth ".f32." #kName "." #kName  \
                 " {" FUSECALC_LIST##kN "}, %" #N0 ", %" #N1 ", p, 1, 1;\n}"                    \
                 : FUSECALC_ACC_##kN                                                            \
                 : "l"(a), "l"(b), "r"(keep));                                                  \
  }                                                                                             \
  template <bool kTransposedB>                                                                  \
  static __device__ __forceinline__ void registers(float(&d)[kN / 2], const u32(&a)[4], u64 b,  \
                                                   int keep, T) {                               \
    static_assert(!kTransposedB, "lines run along k");                                          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #N5                                       \
                 ", 0;\n"                                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #kN "k" #kDepth ".f32." #kName "." #kName  \
                 " {" FUSECALC_LIST##kN "}, {%" #N0 ", %" #N1 ", %" #N2 ", %" #N3 "}, %" #N4    \
                                        ", p, 1, 1;\n}"                                         \
                 : FUSECALC_ACC_##kN                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));              \
  }
#define FUSECALC_WGMMA_ALL(kN, N0, N1, N2, ...)                           \
  template <>                                                             \
  struct Wgmma<kN> {                                                      \
    FUSECALC_WGMMA(kN, bf16, N0, N1, N2, __VA_ARGS__)                     \
    FUSECALC_WGMMA(kN, f16, N0, N1, N2, __VA_ARGS__)                      \
    FUSECALC_WGMMA_ALONG(kN, fp8_e4m3, 32, e4m3, N0, N1, N2, __VA_ARGS__) \
    FUSECALC_WGMMA_ALONG(kN, fp8_e5m2, 32, e5m2, N0, N1, N2, __VA_ARGS__) \
    FUSECALC_WGMMA_ALONG(kN, f32, 8, tf32, N0, N1, N2, __VA_ARGS__)       \
  };
FUSECALC_WGMMA_ALL(16, 8, 9, 10, 11, 12, 13, 14)
FUSECALC_WGMMA_ALL(32, 16, 17, 18, 19, 20, 21, 22)
FUSECALC_WGMMA_ALL(48, 24, 25, 26, 27, 28, 29, 30)
FUSECALC_WGMMA_ALL(64, 32, 33, 34, 35, 36, 37, 38)
FUSECALC_WGMMA_ALL(80, 40, 41, 42, 43, 44, 45, 46)
FUSECALC_WGMMA_ALL(96, 48, 49, 50, 51, 52, 53, 54)
FUSECALC_WGMMA_ALL(104, 52, 53, 54, 55, 56, 57, 58)
FUSECALC_WGMMA_ALL(112, 56, 57, 58, 59, 60, 61, 62)
FUSECALC_WGMMA_ALL(128, 64, 65, 66, 67, 68, 69, 70)
FUSECALC_WGMMA_ALL(160, 80, 81, 82, 83, 84, 85, 86)
FUSECALC_WGMMA_ALL(192, 96, 97, 98, 99, 100, 101, 102)
FUSECALC_WGMMA_ALL(224, 112, 113, 114, 115, 116, 117, 118)
FUSECALC_WGMMA_ALL(256, 128, 129, 130, 131, 132, 133, 134)
