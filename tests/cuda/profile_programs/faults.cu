// faults none|crash|exit|kill|bad-launch|reset|illegal|fork|forever: how a program can end,
// children that it forks while it launches, and launches without an end.
#include <cuda_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void scale(float* a, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x) {
    a[i] *= 2;
  }
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "none";
  if (std::strcmp(how, "none") == 0) return 0;
  const size_t n = size_t{64} << 20U;
  float* a = nullptr;
  cudaMalloc(&a, n * sizeof(float));
  for (int i = 0; i < 20; ++i) scale<<<1056, 256>>>(a, n);
  while (std::strcmp(how, "forever") == 0) scale<<<1056, 256>>>(a, n);
  cudaDeviceSynchronize();
  if (std::strcmp(how, "crash") == 0) std::raise(11);
  if (std::strcmp(how, "exit") == 0) ::_exit(7);
  if (std::strcmp(how, "kill") == 0) ::kill(::getpid(), 9);
  if (std::strcmp(how, "bad-launch") == 0) scale<<<1, 4096>>>(a, n);
  if (std::strcmp(how, "reset") == 0) {
    cudaDeviceReset();
    cudaMalloc(&a, n * sizeof(float));
    scale<<<1056, 256>>>(a, n);
  }
  for (int i = 0; i < 50 && std::strcmp(how, "fork") == 0; ++i) {
    scale<<<1056, 256>>>(a, n);
    ::usleep(19000 + 100 * i);
    const pid_t child = ::fork();
    if (child == 0) std::exit(0);
    ::waitpid(child, nullptr, 0);
  }
  if (std::strcmp(how, "illegal") == 0) {
    scale<<<1056, 256>>>(reinterpret_cast<float*>(16), n);
    std::printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  }
  std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  return 0;
}
