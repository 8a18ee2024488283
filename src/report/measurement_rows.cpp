#include "report/measurement_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/format.hpp"
#include "core/short_names.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostKernelRows = 24;
constexpr std::size_t kLongestName = 27;

MeasurementRow row(const Measurement& measurement, std::string label, const Bytes& analytic,
                   const Observed& observed, bool plan) {
  MeasurementRow out{.label = std::move(label), .cells = {}, .plan = plan};
  out.cells.fill("-");
  for (std::size_t i = 6; i < out.cells.size(); ++i) out.cells[i].clear();
  out.cells[0] = human_bytes(analytic.total());
  if (observed.dram) {
    const std::uint64_t total = observed.dram->total();
    out.cells[1] = human_bytes(total);
    out.cells[2] = signed_percent(error_percent(total, analytic.total()));
  }
  if (observed.time) {
    const double rate = bytes_per_second(analytic, *observed.time);
    out.cells[3] = human_seconds(observed.time->median);
    out.cells[4] = fmt::format("{:.0f}", rate / 1e9);
    if (measurement.copy_bytes_per_s) {
      out.cells[5] = fmt::format("{:.2f}", rate / *measurement.copy_bytes_per_s);
    }
  }
  return out;
}

void add_resources(MeasurementRow& row, const KernelMeasurement& kernel) {
  // The library tells nothing of its kernels.
  if (kernel.schedule.empty() || kernel.resources.registers == 0) return;
  row.cells[6] = fmt::format("{}", kernel.resources.registers);
  row.cells[7] = fmt::format("{}", kernel.resources.spill_bytes);
  row.cells[8] = fmt::format("{:.0f}%", kernel.occupancy * 100);
}

void add_plan(std::vector<MeasurementRow>& rows, const Measurement& measurement,
              const PlanMeasurement& plan) {
  const std::size_t kernels = plan.kernels.size();
  const std::size_t shown = kernels > kMostKernelRows ? kMostKernelRows : kernels;
  ShortNames names(kLongestName);
  for (std::size_t k = 0; k < shown && kernels > 1; ++k) {
    const KernelMeasurement& kernel = plan.kernels[k];
    rows.push_back(
        row(measurement, "  " + names.of(kernel.name), kernel.analytic, kernel.observed, false));
    add_resources(rows.back(), kernel);
  }
  if (shown < kernels) {
    MeasurementRow more{.label = fmt::format("  and {} more", kernels - shown), .cells = {}};
    rows.push_back(std::move(more));
  }
  rows.push_back(row(measurement,
                     fmt::format("{}, {} kernel{}", plan.key, kernels, kernels == 1 ? "" : "s"),
                     plan.analytic, plan.isolated, true));
  if (kernels == 1) add_resources(rows.back(), plan.kernels[0]);
}

std::string verdict_sentence(const PlanMeasurement& plan) {
  if (!plan.verified)
    return fmt::format("{}: results not checked: {}", plan.key, plan.verified_reason);
  return fmt::format("{}: results {}: off by {:.2g} at most, {:.2g} allowed{}", plan.key,
                     plan.verified->ok ? "checked" : "WRONG", plan.verified->max_rel_err,
                     plan.verified->tolerance,
                     plan.verified->ok ? "" : fmt::format(" ({})", plan.verified->worst));
}

void add_kernel_notes(std::vector<std::string>& notes, const PlanMeasurement& plan) {
  for (const KernelMeasurement& kernel : plan.kernels) {
    const std::string name = fmt::format("{}, {}", plan.key, printable(kernel.name, 40));
    if (kernel.schedule.empty()) notes.push_back(name + ": " + kernel.observed.reason);
    if (kernel.resources.spill_bytes > 0) {
      notes.push_back(fmt::format("{}: registers run out, {} bytes a thread spill to memory", name,
                                  kernel.resources.spill_bytes));
    }
  }
}

// Why kernels run as they do, where there was another way.
void add_choices(std::vector<std::string>& notes, const PlanMeasurement& plan) {
  std::vector<std::pair<std::string, std::string>> told;  // what and why, and the kernels
  for (const KernelMeasurement& kernel : plan.kernels) {
    if (kernel.choice.empty()) continue;
    std::string what = fmt::format("{}: {}", kernel.schedule, kernel.choice);
    const auto same = std::ranges::find(told, what, &std::pair<std::string, std::string>::first);
    if (same == told.end()) {
      told.emplace_back(std::move(what), printable(kernel.name, 40));
    } else {
      same->second += ", " + printable(kernel.name, 40);
    }
  }
  for (const auto& [what, kernels] : told) {
    notes.push_back(fmt::format("{}, {}: {}", plan.key, kernels, what));
  }
}

// Kernels that something other than the memory holds up.
void add_speed_notes(std::vector<std::string>& notes, const Measurement& measurement,
                     const PlanMeasurement& plan) {
  constexpr double kSlow = 0.75;
  constexpr std::uint64_t kTelling = std::uint64_t{64} << 20U;
  if (!measurement.copy_bytes_per_s) return;
  for (const KernelMeasurement& kernel : plan.kernels) {
    if (!kernel.observed.time || kernel.analytic.total() < kTelling) continue;
    const double rate = bytes_per_second(kernel.analytic, *kernel.observed.time);
    if (rate > kSlow * *measurement.copy_bytes_per_s) continue;
    notes.push_back(fmt::format(
        "{}, {}: at {:.0f} % of the copy's speed it is arithmetic or latency that bounds it, so "
        "bytes saved are not all time saved",
        plan.key, printable(kernel.name, 40), 100 * rate / *measurement.copy_bytes_per_s));
  }
}

bool throttled(const Observed& observed) { return observed.time && observed.time->throttled > 0; }

}  // namespace

std::vector<MeasurementRow> isolated_rows(const Measurement& measurement) {
  std::vector<MeasurementRow> rows;
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    if (plan->isolated.dram || plan->isolated.time) add_plan(rows, measurement, *plan);
  }
  return rows;
}

std::vector<MeasurementRow> pipeline_rows(const Measurement& measurement) {
  std::vector<MeasurementRow> rows;
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    if (!plan->pipeline.dram && !plan->pipeline.time) continue;
    rows.push_back(row(measurement, plan->key, plan->analytic, plan->pipeline, true));
  }
  return rows;
}

std::string speedup_sentence(const Measurement& measurement) {
  const Savings savings = measurement.savings();
  std::string text =
      fmt::format("fusion saves {} % of the bytes: predicted speedup {}x",
                  shortest_decimal(savings.percent()), shortest_decimal(savings.speedup()));
  if (const std::optional<double> speedup = measurement.measured_speedup()) {
    text += fmt::format(", measured {:.2f}x", *speedup);
  }
  return text;
}

std::string_view verdict_word(const Measurement& measurement) {
  bool all = true;
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    if (plan->verified && !plan->verified->ok) return "WRONG";
    all = all && plan->verified;
  }
  return all ? "ok" : "-";
}

std::vector<std::string> measurement_notes(const Measurement& measurement) {
  std::vector<std::string> notes;
  if (measurement.synthetic) {
    notes.emplace_back(
        "synthetic: the list names sizes only, so these kernels move its bytes and compute "
        "nothing");
  }
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    notes.insert(notes.end(), plan->notes.begin(), plan->notes.end());
    if (!measurement.synthetic) add_speed_notes(notes, measurement, *plan);
    add_kernel_notes(notes, *plan);
    add_choices(notes, *plan);
    if (!measurement.synthetic) notes.push_back(verdict_sentence(*plan));
    if (plan->verified && !plan->verified->unchecked.empty()) {
      notes.push_back(fmt::format("{}: not all results were checked in full: {}", plan->key,
                                  fmt::join(plan->verified->unchecked, "; ")));
    }
    if (throttled(plan->isolated) || throttled(plan->pipeline)) {
      notes.push_back(plan->key + ": the GPU held its clocks down during some timed runs");
    }
  }
  const std::optional<double> speedup = measurement.measured_speedup();
  if (const std::optional<double> runs = measurement.payback_runs();
      runs && *runs > 0 && !measurement.synthetic) {
    const bool cached = std::ranges::any_of(measurement.fused.kernels, &KernelMeasurement::cached);
    notes.push_back(fmt::format("compiling {} has paid for itself after {:.0f} runs{}",
                                measurement.fused.key, std::ceil(*runs),
                                cached ? ", at the time that it took when it was compiled" : ""));
  }
  if (speedup && *speedup < 0.98 && measurement.savings().bytes() > 0) {
    notes.emplace_back("fusion saves bytes here and loses time");
  }
  const std::string& reason = measurement.unfused.isolated.reason;
  if (!reason.empty() && !measurement.unfused.isolated.dram && !measurement.unfused.pipeline.dram) {
    notes.push_back("bytes were " + reason);
  }
  return notes;
}

}  // namespace fusecalc
