// Stands in for an operation of which only sizes are known: reads `input_bytes`, writes
// `output_bytes`, computes next to nothing.
//
// Traffic: every block takes one slice of the input and the matching slice of the output, so reads
// and writes mix evenly over the run. Slices are whole 128-byte lines, accesses 16 bytes a thread,
// and the last bytes of each buffer are moved one by one: nothing is touched twice or beyond the
// end. A load whose value is not stored is kept alive by its asm.

typedef unsigned long long u64;

__device__ uint4 load16(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

// The slice of block b when `vectors` are dealt out to all blocks in whole lines.
__device__ void slice_of(u64 vectors, u64* begin, u64* end) {
  const u64 lines = (vectors + 7) / 8;
  const u64 each = (lines + gridDim.x - 1) / gridDim.x * 8;
  *begin = min(vectors, blockIdx.x * each);
  *end = min(vectors, *begin + each);
}

extern "C" __global__ void __launch_bounds__(256)
stream(const uint4* input, u64 input_bytes, uint4* output, u64 output_bytes, unsigned salt) {
  const unsigned kDepth = 4;  // loads in flight a thread
  u64 in, in_end, out, out_end;
  slice_of(input_bytes / 16, &in, &in_end);
  slice_of(output_bytes / 16, &out, &out_end);
  uint4 value[kDepth] = {};
  for (in += threadIdx.x, out += threadIdx.x; in < in_end || out < out_end;
       in += kDepth * blockDim.x, out += kDepth * blockDim.x) {
#pragma unroll
    for (unsigned k = 0; k < kDepth; ++k) {
      if (in + k * blockDim.x < in_end) value[k] = load16(input + in + k * blockDim.x);
    }
#pragma unroll
    for (unsigned k = 0; k < kDepth; ++k) {
      value[k].x ^= salt;
      if (out + k * blockDim.x < out_end) output[out + k * blockDim.x] = value[k];
    }
  }
  if (blockIdx.x + 1 == gridDim.x) {
    unsigned byte = salt;
    const u64 in_tail = input_bytes / 16 * 16 + threadIdx.x;
    if (in_tail < input_bytes) {
      asm volatile("ld.global.u8 %0, [%1];" : "=r"(byte) : "l"((const char*)input + in_tail));
    }
    const u64 out_tail = output_bytes / 16 * 16 + threadIdx.x;
    if (out_tail < output_bytes) ((char*)output)[out_tail] = (char)(byte ^ salt);
  }
}
