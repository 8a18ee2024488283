#pragma once

#include "backend/backend.hpp"
#include "cuda/driver.hpp"

namespace fusecalc::cuda {

int device_count();

// The device of an index. Throws Error where there is none.
CUdevice device_at(int index);

int attribute(CUdevice device, CUdevice_attribute which);
ComputeCapability capability_of(CUdevice device);

PresentGpu describe(CUdevice device, int index);

// A device's primary context, current on this thread, and one stream in it.
class Context {
 public:
  explicit Context(CUdevice device);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  CUcontext handle() const { return context_; }
  CUstream stream() const { return stream_; }

 private:
  CUdevice device_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
};

}  // namespace fusecalc::cuda
