#include "measure/calibration.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/sanitizers.hpp"

namespace fusecalc {
namespace {

using doctest::Approx;

TEST_CASE("calibration: constants are found from the times that they predict, wherever it starts") {
  for (const char* name : {"h200", "a100"}) {
    CAPTURE(name);
    const Device& wanted = device_named(name);
    for (const double off : {0.5, 1.9}) {
      if (testing::kSanitized && off > 1) continue;
      Device start = wanted;
      for (const ConstantRow& row : constant_table()) {
        if (row.name == "lanes" || row.name == "tensor_flops") continue;
        (start.constants.*row.member).value *= off;
      }
      const Calibration found = fit_constants(start, predicted_probes(wanted));
      CHECK(found.notes.empty());
      CHECK(found.device.constants.calibrated());
      for (const ConstantRow& row : constant_table()) {
        CAPTURE(row.name);
        CHECK((found.device.constants.*row.member).value ==
              Approx((wanted.constants.*row.member).value).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("calibration: a time that nothing explains leaves a constant as it was, and says so") {
  const Device& device = device_named("h200");
  std::vector<double> times = predicted_probes(device);
  times[1] *= 1000;  // of the list that tells dram_read_gbps
  const Calibration found = fit_constants(device, times);
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0].find("dram_read_gbps: no value explains") == 0);
  CHECK(found.device.constants.dram_read_gbps.value == device.constants.dram_read_gbps.value);
  CHECK(!found.device.constants.calibrated());
}

}  // namespace
}  // namespace fusecalc
