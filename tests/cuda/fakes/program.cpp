// program [LAUNCHES [kill]]: launches kernels with whatever driver it finds, and may end badly.
#include <cuda.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

int main(int count, char** words) {
  if (cuInit(0) != CUDA_SUCCESS) return 1;
  const unsigned launches = count > 1 ? static_cast<unsigned>(std::atoi(words[1])) : 3;
  for (unsigned i = 1; i <= launches; ++i) {
    cuLaunchKernel(nullptr, i, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
  }
  std::printf("launched %u\n", launches);
  std::fflush(stdout);
  if (count > 2) std::raise(SIGKILL);
  return 0;
}
