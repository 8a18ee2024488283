// What sm_80 and all after it have: asynchronous copies to shared memory, ldmatrix, mma.sync. Needs
// elements.cuh before it.

__device__ __forceinline__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// kBytes (4, 8 or 16) of which only the first `real` are read; the others become 0. 16 bytes go
// past the L1: what a tile loads is used from shared memory alone.
template <int kBytes>
__device__ __forceinline__ void copy_async(u32 to, const void* from, int real) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(real)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(real)
                 : "memory");
  }
}
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, int real) {
  copy_async<kBytes>(shared_at(to), from, real);
}
// All of them: no instructions for addresses and sizes of what is cut off.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to)), "l"(from)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_at(to)), "l"(from),
                 "n"(kBytes)
                 : "memory");
  }
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;"); }
template <int kPending>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements (or 8 x 4 of 32-bit ones); lane l names row l % 8 of
// matrix l / 8 and receives, of each, row l / 4 and its elements 2 * (l % 4), + 1.
__device__ __forceinline__ void load_matrices(const void* at, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_at(at))
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(const void* at, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_at(at))
               : "memory");
}

// D[16][8] += A[16][k] B[k][8], k being 32 bytes of operand: 32 steps of fp8 (from sm_89 on), 16 of
// bf16 and f16, 8 of f32, which enters as tf32.
struct tf32 {};
#define FUSECALC_MMA(kDepth, kName, T)                                                          \
  __device__ __forceinline__ void multiply(float(&d)[4], const u32(&a)[4], u32 b0, u32 b1, T) { \
    asm volatile("mma.sync.aligned.m16n8k" #kDepth ".row.col.f32." #kName "." #kName            \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"         \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));               \
  }
FUSECALC_MMA(16, bf16, bf16)
FUSECALC_MMA(16, f16, f16)
FUSECALC_MMA(8, tf32, tf32)
// The same of half as many steps of bf16 and f16.
#define FUSECALC_MMA_EIGHT(kName, T)                                                       \
  __device__ __forceinline__ void multiply_eight(float(&d)[4], u32 a0, u32 a1, u32 b, T) { \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." #kName "." #kName                 \
                 ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"                \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                          \
                 : "r"(a0), "r"(a1), "r"(b));                                              \
  }
FUSECALC_MMA_EIGHT(bf16, bf16)
FUSECALC_MMA_EIGHT(f16, f16)
#if __CUDA_ARCH__ >= 890
FUSECALC_MMA(32, e4m3, fp8_e4m3)
FUSECALC_MMA(32, e5m2, fp8_e5m2)
#endif
// To the nearest tf32, of whose bits the tensor cores leave out those behind its 10: as cvt.rna, at
// four times the speed. The sum of a NaN would be negative.
__device__ __forceinline__ u32 to_tf32(u32 bits) { return max((int)bits, (int)(bits + 0x1000)); }
// An f32 but for what its tf32 misses of it.
__device__ __forceinline__ u32 tf32_part(u32 bits) { return bits & 0xffffe000; }
// What it misses, as tf32.
__device__ __forceinline__ u32 tf32_rest(u32 bits, u32 part) {
  return to_tf32(__float_as_uint(__uint_as_float(bits) - __uint_as_float(part)));
}

// f32 in full: each operand as two tf32, and the three products that matter.
struct exact_f32 {
  float high, low;
};
__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, f32) {
  u32 high[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) high[i] = to_tf32(a[i]);
  multiply(d, high, to_tf32(b0), to_tf32(b1), tf32{});
}

// Adds products of kA A with kB B each to sums: to sum(i, j), float (&)[4], that of A number i with
// its B number j, whose words are b(i, j, 0) and b(i, j, 1).
template <int kB, int kA, class Sum, class Words, typename T>
__device__ __forceinline__ void multiply_all(const Sum& sum, const u32 (&a)[kA][4], const Words& b,
                                             T) {
#pragma unroll
  for (int i = 0; i < kA; ++i) {
#pragma unroll
    for (int j = 0; j < kB; ++j) multiply(sum(i, j), a[i], b(i, j, 0), b(i, j, 1), T{});
  }
}
// Products that add to the same sums lie apart, so that none waits for the one before. The tensor
// cores truncate when they add; the sum over k is therefore computed outside of them.
template <int kB, int kA, class Sum, class Words>
__device__ __forceinline__ void multiply_all(const Sum& sum, const u32 (&a)[kA][4], const Words& b,
                                             exact_f32) {
  u32 high[kA][4], low[kA][4];
#pragma unroll
  for (int i = 0; i < kA; ++i) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      high[i][x] = tf32_part(a[i][x]);
      low[i][x] = tf32_rest(a[i][x], high[i][x]);
    }
  }
  float part[kA][kB][4] = {};
  const auto add = [&](const u32(&of)[kA][4], bool rests) {
#pragma unroll
    for (int i = 0; i < kA; ++i) {
#pragma unroll
      for (int j = 0; j < kB; ++j) {
        const u32 b0 = b(i, j, 0), b1 = b(i, j, 1), c0 = tf32_part(b0), c1 = tf32_part(b1);
        multiply(part[i][j], of[i], rests ? tf32_rest(b0, c0) : c0, rests ? tf32_rest(b1, c1) : c1,
                 tf32{});
      }
    }
  };
  add(low, false);
  add(high, true);
  add(high, false);
#pragma unroll
  for (int i = 0; i < kA; ++i) {
#pragma unroll
    for (int j = 0; j < kB; ++j) {
#pragma unroll
      for (int x = 0; x < 4; ++x) sum(i, j)[x] += part[i][j][x];
    }
  }
}
