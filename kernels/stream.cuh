// Replaces an operation of which only sizes are known: reads `input_bytes`, writes
// `output_bytes`, computes next to nothing.
//
// Traffic: every block takes one slice of the input and the matching slice of the output, so reads
// and writes mix evenly over the run. Slices are whole 128-byte lines, accesses 16 bytes a thread,
// and the last bytes of each buffer are moved one by one: nothing is touched twice or beyond the
// end. What is loaded is stored, or might be in a later round: no compiler can drop a load. One
// vector a round with many threads resident is faster than several (H200: 0.99 of a copy's speed).

typedef unsigned long long u64;

constexpr unsigned kThreads = 256;  // of a block

// The slice of block b when `vectors` are dealt out to all blocks in whole lines.
__device__ void slice_of(u64 vectors, u64* begin, u64* end) {
  const u64 lines = (vectors + 7) / 8;
  const u64 each = (lines + gridDim.x - 1) / gridDim.x * 8;
  *begin = min(vectors, blockIdx.x * each);
  *end = min(vectors, *begin + each);
}

extern "C" __global__ void __launch_bounds__(kThreads, 8)
    stream(const uint4* input, u64 input_bytes, uint4* output, u64 output_bytes, unsigned salt) {
  u64 in, in_end, out, out_end;
  slice_of(input_bytes / 16, &in, &in_end);
  slice_of(output_bytes / 16, &out, &out_end);
  uint4 value = {};
  for (in += threadIdx.x, out += threadIdx.x; in < in_end || out < out_end;
       in += blockDim.x, out += blockDim.x) {
    if (in < in_end) value = input[in];
    value.x ^= salt;
    if (out < out_end) output[out] = value;
  }
  if (blockIdx.x + 1 == gridDim.x) {
    const u64 in_tail = input_bytes / 16 * 16 + threadIdx.x;
    const u64 out_tail = output_bytes / 16 * 16 + threadIdx.x;
    char byte = (char)value.y;
    if (in_tail < input_bytes) byte = ((const char*)input)[in_tail];
    if (out_tail < output_bytes) ((char*)output)[out_tail] = byte;
  }
}
