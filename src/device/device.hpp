#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fusecalc {

struct ComputeCapability {
  unsigned major = 0;
  unsigned minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

std::string to_string(ComputeCapability capability);  // "9.0"

// The only generation that runs kernels with wgmma.
inline constexpr ComputeCapability kHopper{9, 0};

// What planning, counting, code generation and measuring need to know of a GPU, be it a row of the
// table below or one that is present.
struct Device {
  std::string name{};
  ComputeCapability capability{};
  // Shared memory that one thread block can have: what a row may take to be read only once.
  std::uint64_t on_chip_bytes = 0;
  unsigned multiprocessors = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t memory_bytes = 0;
};

// The first is the default.
std::span<const Device> known_devices();
std::span<const std::string_view> device_names();
const Device& device_named(std::string_view name);

}  // namespace fusecalc
