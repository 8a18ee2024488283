// A plain CUDA program: three kernels over 256 MiB on two streams and two threads, copies and
// fills, a graph captured by one of them, and a kernel that waits for the next one. It prints a
// checksum.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call)                                                        \
  do {                                                                     \
    const cudaError_t result = (call);                                     \
    if (result != cudaSuccess) {                                           \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result)); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (0)

__global__ void add(const float* a, const float* b, float* c, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x) {
    c[i] = a[i] + b[i];
  }
}

__global__ void scale(float* a, float by, size_t n) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
       i += (size_t)gridDim.x * blockDim.x) {
    a[i] *= by;
  }
}

__global__ void wait_for(volatile int* flag) {
  while (*flag == 0) {
  }
}

__global__ void raise_flag(volatile int* flag) { *flag = 1; }

int main(int argc, char** argv) {
  const size_t n = size_t{64} << 20U;  // 256 MiB
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  std::vector<float> host(n, 1.5F);
  float *a, *b, *c;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&b, n * sizeof(float)));
  CHECK(cudaMalloc(&c, n * sizeof(float)));
  CHECK(cudaMemcpy(a, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(b, 0, n * sizeof(float)));
  cudaStream_t one, two;
  CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < rounds; ++i) {
    add<<<1056, 256, 0, one>>>(a, b, c, n);
    scale<<<1056, 256, 0, one>>>(c, 2.0F, n);
    CHECK(cudaMemcpyAsync(b, c, n * sizeof(float), cudaMemcpyDeviceToDevice, one));
    CHECK(cudaStreamSynchronize(one));
  }
  std::thread first([&] {
    for (int i = 0; i < rounds; ++i) scale<<<1056, 256, 0, one>>>(a, 1.0F, n);
  });
  std::thread second([&] {
    for (int i = 0; i < rounds; ++i) scale<<<1056, 256, 0, two>>>(b, 1.0F, n);
  });
  first.join();
  second.join();
  CHECK(cudaDeviceSynchronize());
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
  add<<<1056, 256, 0, one>>>(a, b, c, n);
  scale<<<1056, 256, 0, one>>>(c, 0.5F, n);
  CHECK(cudaStreamEndCapture(one, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, one));
  CHECK(cudaGraphLaunch(executable, one));
  CHECK(cudaStreamSynchronize(one));
  int* flag;
  CHECK(cudaMalloc(&flag, sizeof(int)));
  CHECK(cudaMemset(flag, 0, sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  if (argc > 2) {
    wait_for<<<1, 1, 0, one>>>(flag);
    raise_flag<<<1, 1, 0, two>>>(flag);
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(host.data(), c, n * sizeof(float), cudaMemcpyDeviceToHost));
  double sum = 0;
  for (const float x : host) sum += x;
  std::printf("sum %.17g\n", sum);
  return 0;
}
