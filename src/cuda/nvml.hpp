#pragma once

#include <optional>
#include <string>

namespace fusecalc::cuda {

// Queries NVIDIA's management library about one GPU. Optional: without the library or an answer,
// results are empty, and measuring still works.
class Nvml {
 public:
  explicit Nvml(const std::string& device_uuid);
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml();

  bool available() const { return device_ != nullptr; }
  std::string driver_version() const;
  std::optional<double> sm_clock_hz() const;
  // Whether a thermal limit or a power brake currently limits the clocks.
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
