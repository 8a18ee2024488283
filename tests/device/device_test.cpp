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
  }
  CHECK(names.size() == device_names().size());
}

TEST_CASE("rows are held in what a block can have of shared memory, 227 KiB by default") {
  CHECK(known_devices().front().on_chip_bytes == 232448);
  CHECK(device_named("a100").on_chip_bytes == 163 * 1024);
  CHECK(device_named("t4").on_chip_bytes == 64 * 1024);
}
