#pragma once

#include <cstdint>
#include <utility>

#include "cuda/driver.hpp"

namespace fusecalc::cuda {

// Loads of a buffer of several times the L2, in the current context of a program: they clean the L2
// without leaving a dirty line behind. It is as kernels/harness.cuh has it, in PTX, which the
// driver compiles: a program need not have NVRTC.
class L2Sweep {
 public:
  // Throws Error where the memory does not suffice.
  explicit L2Sweep(CUdevice device);
  L2Sweep(const L2Sweep&) = delete;
  L2Sweep& operator=(const L2Sweep&) = delete;
  ~L2Sweep();

  // Runs it and waits for it.
  void run() const;

  // Gives the memory up without a call to the driver: its context is gone.
  void abandon() { buffer_ = 0; }

 private:
  std::uint64_t bytes_ = 0;
  unsigned blocks_ = 0;
  CUdeviceptr buffer_ = 0;
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace fusecalc::cuda
