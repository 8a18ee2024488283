#include "cuda/inject/sweep.hpp"

#include <algorithm>

namespace fusecalc::cuda {
namespace {

constexpr unsigned kThreads = 256;

// sweep(buffer, vectors of 16 bytes, sink), all of 64 bits. What is loaded is used, or ptxas would
// drop the loads; the store happens for one value in four thousand million.
constexpr char kPtx[] = R"(
.version 6.4
.target sm_70
.address_size 64
.visible .entry sweep(.param .u64 p_buffer, .param .u64 p_vectors, .param .u64 p_sink)
{
  .reg .pred %done, %hit;
  .reg .b32 %all, %a, %b, %c, %d, %t, %n, %i;
  .reg .b64 %buffer, %vectors, %sink, %at, %step, %address;
  ld.param.u64 %buffer, [p_buffer];
  ld.param.u64 %vectors, [p_vectors];
  ld.param.u64 %sink, [p_sink];
  cvta.to.global.u64 %buffer, %buffer;
  cvta.to.global.u64 %sink, %sink;
  mov.u32 %t, %tid.x;
  mov.u32 %n, %ntid.x;
  mov.u32 %i, %ctaid.x;
  mad.lo.u32 %i, %i, %n, %t;
  cvt.u64.u32 %at, %i;
  mov.u32 %t, %nctaid.x;
  mul.wide.u32 %step, %t, %n;
  mov.u32 %all, 0;
loop:
  setp.ge.u64 %done, %at, %vectors;
  @%done bra end;
  shl.b64 %address, %at, 4;
  add.u64 %address, %address, %buffer;
  ld.global.v4.u32 {%a, %b, %c, %d}, [%address];
  xor.b32 %all, %all, %a;
  xor.b32 %all, %all, %b;
  xor.b32 %all, %all, %c;
  xor.b32 %all, %all, %d;
  add.u64 %at, %at, %step;
  bra loop;
end:
  setp.eq.u32 %hit, %all, 0x5eed5eed;
  @%hit st.global.u32 [%sink], %all;
  ret;
}
)";

int attribute_of(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

}  // namespace

L2Sweep::L2Sweep(CUdevice device)
    : blocks_(8U * static_cast<unsigned>(
                       attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT))) {
  constexpr std::uint64_t kLeast = std::uint64_t{64} << 20U;
  constexpr std::uint64_t kTimesL2 = 8;
  const auto l2 =
      static_cast<std::uint64_t>(attribute_of(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  bytes_ = std::max(kLeast, kTimesL2 * l2) / 16 * 16;
  const Driver& cu = driver();
  check(cu.cuMemAlloc(&buffer_, bytes_ + sizeof(unsigned)), "cuMemAlloc");
  CUresult result = cu.cuModuleLoadData(&module_, kPtx);
  if (result == CUDA_SUCCESS) result = cu.cuModuleGetFunction(&kernel_, module_, "sweep");
  if (result == CUDA_SUCCESS) result = cu.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING);
  if (result == CUDA_SUCCESS) {
    // Its lines, too, must not be dirty when it is first swept.
    result = cu.cuMemsetD8Async(buffer_, 1, bytes_ + sizeof(unsigned), stream_);
  }
  if (result == CUDA_SUCCESS) result = cu.cuStreamSynchronize(stream_);
  if (result == CUDA_SUCCESS) return;
  cu.cuMemFree(buffer_);
  check(result, "preparing to clean the L2");
}

L2Sweep::~L2Sweep() {
  if (buffer_ == 0) return;
  driver().cuStreamDestroy(stream_);
  driver().cuModuleUnload(module_);
  driver().cuMemFree(buffer_);
}

void L2Sweep::run() const {
  CUdeviceptr buffer = buffer_;
  std::uint64_t vectors = bytes_ / 16;
  CUdeviceptr sink = buffer_ + bytes_;
  void* arguments[] = {&buffer, &vectors, &sink};
  check(driver().cuLaunchKernel(kernel_, blocks_, 1, 1, kThreads, 1, 1, 0, stream_, arguments,
                                nullptr),
        "cuLaunchKernel");
  check(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
}

}  // namespace fusecalc::cuda
