#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fusecalc {

// What the byte model needs to know of a GPU.
struct Device {
  std::string_view name;
  // Shared memory that one thread block can have: what a row may take to be read only once.
  std::uint64_t on_chip_bytes = 0;
};

// The first is the default.
std::span<const Device> known_devices();
std::span<const std::string_view> device_names();
const Device& device_named(std::string_view name);

}  // namespace fusecalc
