#pragma once

#include <cstdint>
#include <string_view>

namespace fusecalc {

// What takes the time of a kernel.
enum class Bound : std::uint8_t { kMemory, kL2, kCompute, kLaunch, kLatency };
std::string_view name_of(Bound bound);

struct Interval {
  double low = 0;
  double high = 0;

  bool holds(double value) const { return low <= value && value <= high; }
};

// What a device's DRAM will see of a kernel or a plan, and how long that takes. The intervals hold
// what is measured nine times in ten.
struct Prediction {
  double dram_read = 0;  // bytes
  double dram_write = 0;
  double time_us = 0;
  Bound bound = Bound::kMemory;
  Interval read_range{};
  Interval write_range{};
  Interval time_range{};

  double dram() const { return dram_read + dram_write; }
};

}  // namespace fusecalc
