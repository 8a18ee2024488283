#include "cuda/nvml.hpp"

#include <dlfcn.h>

#include <array>

// The toolkit's wheels do not include nvml.h; the C signatures of these functions are stable.
namespace fusecalc::cuda {
namespace {

constexpr int kSmClock = 1;  // NVML_CLOCK_SM
// HW slowdown, SW thermal, HW thermal, HW power brake.
constexpr unsigned long long kSlowReasons = 0x8U | 0x20U | 0x40U | 0x80U;

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

Nvml::Nvml(const std::string& device_uuid) : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (library_ == nullptr) return;
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  find(library_, "nvmlInit_v2", init);
  find(library_, "nvmlShutdown", shutdown_);
  find(library_, "nvmlDeviceGetHandleByUUID", by_uuid);
  find(library_, "nvmlSystemGetDriverVersion", driver_version_);
  find(library_, "nvmlDeviceGetClockInfo", clock_);
  find(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", slow_reasons_);
  if (init == nullptr || shutdown_ == nullptr || init() != 0) {
    shutdown_ = nullptr;
    return;
  }
  if (by_uuid == nullptr || by_uuid(device_uuid.c_str(), &device_) != 0) device_ = nullptr;
}

Nvml::~Nvml() {
  if (shutdown_ != nullptr) shutdown_();
  if (library_ != nullptr) ::dlclose(library_);
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (device_ == nullptr || driver_version_ == nullptr) return {};
  return driver_version_(text.data(), text.size()) == 0 ? text.data() : std::string();
}

std::optional<double> Nvml::sm_clock_hz() const {
  unsigned mhz = 0;
  if (device_ == nullptr || clock_ == nullptr || clock_(device_, kSmClock, &mhz) != 0) return {};
  return mhz * 1e6;
}

bool Nvml::slowed() const {
  unsigned long long reasons = 0;
  if (device_ == nullptr || slow_reasons_ == nullptr) return false;
  return slow_reasons_(device_, &reasons) == 0 && (reasons & kSlowReasons) != 0;
}

}  // namespace fusecalc::cuda
