#include "device/device.hpp"

#include <algorithm>
#include <array>
#include <cassert>

namespace fusecalc {
namespace {

constexpr std::uint64_t kKiB = 1024;

// Shared memory per block after opting in, from the CUDA programming guide's table of compute
// capabilities.
constexpr std::array kDevices = {
    Device{"h200", 227 * kKiB},   Device{"h100", 227 * kKiB},   Device{"b200", 227 * kKiB},
    Device{"a100", 163 * kKiB},   Device{"l40s", 99 * kKiB},    Device{"l4", 99 * kKiB},
    Device{"rtx5090", 99 * kKiB}, Device{"rtx4090", 99 * kKiB}, Device{"rtx3090", 99 * kKiB},
    Device{"a10", 99 * kKiB},     Device{"v100", 96 * kKiB},    Device{"t4", 64 * kKiB},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kDevices.size()> names{};
  for (std::size_t i = 0; i < kDevices.size(); ++i) names[i] = kDevices[i].name;
  return names;
}();

}  // namespace

std::span<const Device> known_devices() { return kDevices; }

std::span<const std::string_view> device_names() { return kNames; }

const Device& device_named(std::string_view name) {
  const auto* found = std::ranges::find(kDevices, name, &Device::name);
  assert(found != kDevices.end());
  return *found;
}

}  // namespace fusecalc
