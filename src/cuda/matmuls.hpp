#pragma once

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace fusecalc::cuda {

// cuBLASLt on one stream: its handle, one workspace, and the products that were prepared.
class Matmuls {
 public:
  explicit Matmuls(CUstream stream);
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;
  ~Matmuls();

  std::vector<PreparedMatmul> prepare(const LibraryMatmul& product, const MatmulOperands& operands);
  void run(const PreparedMatmul& product);

 private:
  struct Plan;
  struct Algorithm;

  void multiply(const Algorithm& algorithm, CUdeviceptr a, CUdeviceptr b, CUdeviceptr result);
  // The name of the first kernel that a call launches.
  std::string kernel_of(const Algorithm& algorithm);

  CUstream stream_;
  void* handle_ = nullptr;
  CUdeviceptr workspace_ = 0;
  std::vector<Algorithm> algorithms_;  // a prepared product's id is its index here
};

}  // namespace fusecalc::cuda
