#pragma once

#include <optional>
#include <string>

namespace fusecalc::cuda {

// What NVIDIA's management library tells about one GPU. Optional: where the library or an answer is
// missing, nothing is known, and nobody else depends on it.
class Nvml {
 public:
  explicit Nvml(const std::string& device_uuid);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  bool available() const { return device_ != nullptr; }
  std::string driver_version() const;
  std::optional<double> sm_clock_hz() const;
  // Whether heat or a power brake holds the clocks down right now.
  bool slowed() const;

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
  int (*shutdown_)() = nullptr;
  int (*driver_version_)(char*, unsigned) = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*slow_reasons_)(void*, unsigned long long*) = nullptr;
};

}  // namespace fusecalc::cuda
