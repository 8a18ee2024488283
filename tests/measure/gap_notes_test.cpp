#include "measure/gap_notes.hpp"

#include <doctest/doctest.h>

namespace fusecalc {
namespace {

constexpr std::uint64_t kMega = 1'000'000;
const Device kDevice{.l2_bytes = 60 * kMega};

// A plan of two kernels; each moves `each`, and together they were seen to move `together`.
PlanMeasurement plan_of(const Bytes& each, const Bytes& seen_alone, const Bytes& together) {
  const KernelMeasurement kernel{
      .name = "k", .analytic = each, .observed = {.dram = seen_alone, .time = {}}, .resources = {}};
  PlanMeasurement plan{.key = "unfused", .analytic = {2 * each.read, 2 * each.write}};
  plan.kernels = {kernel, kernel};
  plan.isolated.dram = Bytes{2 * seen_alone.read, 2 * seen_alone.write};
  plan.pipeline.dram = together;
  return plan;
}

TEST_CASE("figures within two percent have no note") {
  const Bytes each{100 * kMega, 100 * kMega};
  CHECK(gap_notes(plan_of(each, {101 * kMega, 99 * kMega}, {202 * kMega, 198 * kMega}), 10 * kMega,
                  kDevice)
            .empty());
}

TEST_CASE("an intermediate that fits in the L2 explains missing reads back to back") {
  const Bytes each{10 * kMega, 10 * kMega};
  const auto notes = gap_notes(plan_of(each, each, {10 * kMega, 20 * kMega}), 10 * kMega, kDevice);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] ==
        "unfused, back to back: reads -50.0 %: the L2 of 60.00 MB serves what one kernel left for "
        "the "
        "next (tensors of up to 10.00 MB)");
}

TEST_CASE("too little traffic is lost in the noise of the chip-wide counters") {
  const Bytes each{2000, 2000};
  const auto notes = gap_notes(plan_of(each, {9000, 2000}, {4000, 4000}), 2000, kDevice);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].starts_with("unfused, k alone: reads +350.0 %: too little traffic"));
}

TEST_CASE("a gap without a known cause is marked as unexplained") {
  const Bytes each{100 * kMega, 100 * kMega};
  const auto notes = gap_notes(
      plan_of(each, {130 * kMega, 100 * kMega}, {100 * kMega, 200 * kMega}), 100 * kMega, kDevice);
  REQUIRE(notes.size() == 3);
  CHECK(notes[0] == "unfused, k alone: reads +30.0 %: unexplained");
  CHECK(notes[2] == "unfused, back to back: reads -50.0 %: unexplained");  // larger than the L2
}

}  // namespace
}  // namespace fusecalc
