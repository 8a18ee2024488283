#pragma once

#include <utility>

#include "backend/backend.hpp"

namespace fusecalc {

// Owns device memory and releases it.
class DeviceBuffer {
 public:
  DeviceBuffer(GpuBackend& gpu, std::uint64_t bytes) : gpu_(&gpu), buffer_(gpu.allocate(bytes)) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : gpu_(std::exchange(other.gpu_, nullptr)), buffer_(other.buffer_) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  ~DeviceBuffer() {
    if (gpu_ != nullptr) gpu_->release(buffer_);
  }

  operator const Buffer&() const { return buffer_; }
  BufferAt at(std::uint64_t offset) const { return {buffer_, offset}; }

 private:
  GpuBackend* gpu_;
  Buffer buffer_;
};

}  // namespace fusecalc
