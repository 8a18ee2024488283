#include "device/device.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string_view>

using namespace fusecalc;

TEST_CASE("devices have distinct names and are found by them") {
  std::set<std::string_view> names;
  for (const Device& device : known_devices()) {
    CHECK(names.insert(device.name).second);
    CHECK(device_named(device.name).on_chip_bytes == device.on_chip_bytes);
    CHECK(device.multiprocessors > 0);
    CHECK(device.capability >= ComputeCapability{7, 0});
  }
  CHECK(names.size() == device_names().size());
}

TEST_CASE("rows are held in what a block can have of shared memory, 227 KiB by default") {
  CHECK(known_devices().front().on_chip_bytes == 232448);
  CHECK(device_named("a100").on_chip_bytes == 163 * 1024);
  CHECK(device_named("t4").on_chip_bytes == 64 * 1024);
}

TEST_CASE("compute capabilities are ordered and written as NVIDIA writes them") {
  CHECK(to_string(device_named("h200").capability) == "9.0");
  CHECK(to_string({12, 1}) == "12.1");
  CHECK(ComputeCapability{8, 9} < kHopper);
  CHECK(kHopper < ComputeCapability{10, 0});
}
