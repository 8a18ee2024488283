// Operands of wgmma in shared memory as two tf32 each (exact_f32 in mma.cuh): 32-bit floats as they
// are, of which the tensor cores leave out the bits behind tf32's, and what that misses of them.
// Lines have 128 bytes, swizzled as TMA leaves them. Needs mma.cuh before it.

__device__ __forceinline__ u32 rest_of(u32 bits) { return tf32_rest(bits, tf32_part(bits)); }
__device__ __forceinline__ uint4 rest_of(uint4 x) {
  return {rest_of(x.x), rest_of(x.y), rest_of(x.z), rest_of(x.w)};
}

// Where a chunk of 16 bytes lies.
__device__ __forceinline__ u32 chunk_at(int line, int chunk) {
  return line * 128 + (chunk ^ line % 8) * 16;
}

// Writes the rest of each float of a tile to the same place of another, by kThreads threads. Loads
// come before stores: the compiler does not know that they are of other places. kUnrolled rounds at
// once: as many as its caller has registers for.
template <int kThreads, u32 kBytes, int kUnrolled>
__device__ __forceinline__ void write_rests(const u8* tile, u8* rests, int thread) {
  constexpr int kAtOnce = 4;
  constexpr u32 kStep = kThreads * 16;
  static_assert(kBytes % (kAtOnce * kStep) == 0, "no thread has fewer");
#pragma unroll kUnrolled
  for (u32 begin = 0; begin < kBytes; begin += kAtOnce * kStep) {
    const u32 first = begin + thread * 16;
    uint4 x[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      x[i] = *reinterpret_cast<const uint4*>(tile + first + i * kStep);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      *reinterpret_cast<uint4*>(rests + first + i * kStep) = rest_of(x[i]);
    }
  }
}
