#include "device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

namespace fusecalc {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;
constexpr std::uint64_t kGB = 1'000'000'000;

}  // namespace

std::string to_string(ComputeCapability capability) {
  return fmt::format("{}.{}", capability.major, capability.minor);
}

std::span<const Device> known_devices() {
  // Compute capability, shared memory of a block after opting in (the CUDA programming guide's
  // table of compute capabilities), multiprocessors, L2, memory of the largest version. The
  // are those that its driver reports; the others' are from the document named at the end of the
  // row.
  static const std::array devices = {
      Device{"h200", {9, 0}, 227 * kKiB, 132, 60 * kMiB, 141 * kGB},    // driver
      Device{"h100", {9, 0}, 227 * kKiB, 132, 50 * kMiB, 80 * kGB},     // H100 white paper, SXM5
      Device{"b200", {10, 0}, 227 * kKiB, 148, 126 * kMiB, 180 * kGB},  // HGX B200 datasheet
      Device{"a100", {8, 0}, 163 * kKiB, 108, 40 * kMiB, 80 * kGB},     // A100 white paper
      Device{"l40s", {8, 9}, 99 * kKiB, 142, 96 * kMiB, 48 * kGB},      // L40S datasheet, AD102
      Device{"l4", {8, 9}, 99 * kKiB, 58, 48 * kMiB, 24 * kGB},         // L4 datasheet, AD104
      Device{"rtx5090", {12, 0}, 99 * kKiB, 170, 96 * kMiB, 32 * kGB},  // RTX Blackwell white paper
      Device{"rtx4090", {8, 9}, 99 * kKiB, 128, 72 * kMiB, 24 * kGB},   // Ada white paper
      Device{"rtx3090", {8, 6}, 99 * kKiB, 82, 6 * kMiB, 24 * kGB},     // GA102 white paper
      Device{"a10", {8, 6}, 99 * kKiB, 72, 6 * kMiB, 24 * kGB},         // A10 datasheet, GA102
      Device{"v100", {7, 0}, 96 * kKiB, 80, 6 * kMiB, 32 * kGB},        // V100 white paper
      Device{"t4", {7, 5}, 64 * kKiB, 40, 4 * kMiB, 16 * kGB},          // Turing white paper, T4
  };
  return devices;
}

std::span<const std::string_view> device_names() {
  static const auto names = [] {
    std::vector<std::string_view> all;
    for (const Device& device : known_devices()) all.push_back(device.name);
    return all;
  }();
  return names;
}

const Device& device_named(std::string_view name) {
  const std::span<const Device> devices = known_devices();
  const auto found = std::ranges::find(devices, name, &Device::name);
  assert(found != devices.end());
  return *found;
}

}  // namespace fusecalc
