#include "measure/gap_notes.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "core/format.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr double kReportedPercent = 2;
// Traffic of other activity that the chip-wide counters may include.
constexpr std::uint64_t kCounterNoise = std::uint64_t{256} << 10U;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

struct Gap {
  std::string text;  // empty if there is no gap
  bool reads_low = false;
  bool reads_high = false;
  bool writes_high = false;
  bool noise = false;
};

Gap gap_of(const Bytes& analytic, const Bytes& measured) {
  Gap gap;
  const auto add = [&](std::string_view what, std::uint64_t is, std::uint64_t should_be) {
    const double percent = error_percent(is, should_be).value_or(is == 0 ? 0 : 100);
    if (std::abs(percent) <= kReportedPercent) return;
    if (!gap.text.empty()) gap.text += ", ";
    gap.text += fmt::format("{} {:+.1f} %", what, percent);
    if (what == "reads") {
      (percent > 0 ? gap.reads_high : gap.reads_low) = true;
    } else {
      gap.writes_high = gap.writes_high || percent > 0;
    }
  };
  add("reads", measured.read, analytic.read);
  add("writes", measured.write, analytic.write);
  gap.noise = distance(measured.read, analytic.read) <= kCounterNoise &&
              distance(measured.write, analytic.write) <= kCounterNoise;
  return gap;
}

std::string sentence(const std::string& where, const Gap& gap, std::string_view cause) {
  return fmt::format("{}: {}: {}", where, gap.text, cause);
}

// The cause of a kernel's gap, if its code or the compiler's report explains it.
std::string cause_of(const Gap& gap, const KernelMeasurement& kernel) {
  std::string cause;
  const auto add = [&](bool applies, const std::string& text) {
    if (!applies || text.empty() || cause == text) return;
    cause += cause.empty() ? text : "; " + text;
  };
  add(gap.reads_high, kernel.gaps.more_reads);
  add(gap.reads_low, kernel.gaps.fewer_reads);
  add(gap.writes_high, kernel.gaps.more_writes);
  if (cause.empty() && kernel.resources.spill_bytes > 0) cause = "registers spill to memory";
  return cause.empty() ? "unexplained" : cause;
}

constexpr std::string_view kNoise =
    "too little traffic to separate from other activity: counters are chip-wide";

}  // namespace

std::vector<std::string> gap_notes(const PlanMeasurement& plan, std::uint64_t largest_intermediate,
                                   const Device& device) {
  std::vector<std::string> notes;
  if (plan.isolated.dram) {
    for (const KernelMeasurement& kernel : plan.kernels) {
      const Gap gap = gap_of(kernel.analytic, *kernel.observed.dram);
      if (gap.text.empty()) continue;
      notes.push_back(sentence(fmt::format("{}, {} alone", plan.key, printable(kernel.name, 40)),
                               gap, gap.noise ? std::string(kNoise) : cause_of(gap, kernel)));
    }
  }
  // For a plan of one kernel both are the same.
  if (plan.pipeline.dram && (plan.kernels.size() > 1 || !plan.isolated.dram)) {
    const Gap gap = gap_of(plan.analytic, *plan.pipeline.dram);
    const bool from_cache =
        gap.reads_low && largest_intermediate > 0 && largest_intermediate <= device.l2_bytes;
    std::string of_kernels = "unexplained";
    for (const KernelMeasurement& kernel : plan.kernels) {
      if (of_kernels == "unexplained") of_kernels = cause_of(gap, kernel);
    }
    const std::string cause =
        gap.noise    ? std::string(kNoise)
        : from_cache ? fmt::format(
                           "the L2 of {} serves what one kernel left for the next (tensors "
                           "of up to {})",
                           human_bytes(device.l2_bytes), human_bytes(largest_intermediate))
                     : of_kernels;
    if (!gap.text.empty()) notes.push_back(sentence(plan.key + ", back to back", gap, cause));
  }
  return notes;
}

}  // namespace fusecalc
