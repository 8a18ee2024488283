#include "report/measurement_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "core/format.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostKernelRows = 24;

constexpr std::array<std::string_view, 9> kMeasuredColumns = {
    "analytic", "measured", "off by", "time", "GB/s", "of copy", "regs", "spill", "occ"};
constexpr std::array<std::string_view, 6> kPredictedColumns = {"DRAM", "measured", "range",
                                                               "time", "measured", "range"};

MeasurementRow row(const Measurement& measurement, std::string label, const Bytes& analytic,
                   const Observed& observed, bool plan) {
  MeasurementRow out{
      .label = std::move(label), .cells = {"-", "-", "-", "-", "-", "-", "", "", ""}, .plan = plan};
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
  for (std::size_t k = 0; k < shown && kernels > 1; ++k) {
    const KernelMeasurement& kernel = plan.kernels[k];
    rows.push_back(row(measurement, "  " + kernel.name, kernel.analytic, kernel.observed, false));
    add_resources(rows.back(), kernel);
  }
  if (shown < kernels) {
    rows.push_back({.label = fmt::format("  and {} more", kernels - shown),
                    .cells = std::vector<std::string>(kMeasuredColumns.size())});
  }
  rows.push_back(row(measurement,
                     fmt::format("{}, {} kernel{}", plan.key, kernels, kernels == 1 ? "" : "s"),
                     plan.analytic, plan.isolated, true));
  if (kernels == 1) add_resources(rows.back(), plan.kernels[0]);
}

// "in" or "out" of the predicted range; "-" where nothing was measured.
std::string_view range_word(const std::optional<bool>& in) {
  if (!in) return "-";
  return *in ? "in" : "out";
}

MeasurementRow predicted_row(std::string label, const Prediction& predicted,
                             const Observed& observed, bool plan) {
  const InRange in = in_range(predicted, observed);
  std::optional<bool> bytes;
  if (in.dram_read) bytes = *in.dram_read && *in.dram_write;
  const auto rounded = static_cast<std::uint64_t>(std::llround(predicted.dram()));
  return {.label = std::move(label),
          .cells = {human_bytes(rounded), observed.dram ? human_bytes(observed.dram->total()) : "-",
                    std::string(range_word(bytes)), human_seconds(predicted.time_us * 1e-6),
                    observed.time ? human_seconds(observed.time->median) : "-",
                    std::string(range_word(in.time))},
          .plan = plan};
}

// Its kernels, each alone, and all of them back to back.
void add_predictions(std::vector<MeasurementRow>& rows, const PlanAnalysis& plan,
                     const PlanMeasurement& measured) {
  const std::size_t kernels = measured.kernels.size();
  const std::size_t shown = std::min(kernels, kMostKernelRows);
  for (std::size_t k = 0; k < shown && (measured.isolated.dram || measured.isolated.time); ++k) {
    rows.push_back(predicted_row("  " + measured.kernels[k].name, plan.kernels[k].predicted,
                                 measured.kernels[k].observed, false));
  }
  if (shown < kernels && !rows.empty()) {
    rows.push_back({.label = fmt::format("  and {} more", kernels - shown),
                    .cells = std::vector<std::string>(kPredictedColumns.size())});
  }
  if (measured.pipeline.dram || measured.pipeline.time) {
    rows.push_back(
        predicted_row(measured.key + ", back to back", plan.predicted, measured.pipeline, true));
  }
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

// Kernels that took far longer than predicted, by the time that the plan would be faster without
// it.
void add_late_notes(std::vector<std::string>& notes, const PlanAnalysis& plan,
                    const PlanMeasurement& measured) {
  constexpr double kFar = 2;
  constexpr std::size_t kMostTold = 3;
  struct Late {
    std::size_t kernel;
    double us;    // that it took
    double most;  // the end of its range
  };
  std::vector<Late> late;
  for (std::size_t k = 0; k < measured.kernels.size(); ++k) {
    const std::optional<TimeSpread>& time = measured.kernels[k].observed.time;
    const double most = plan.kernels[k].predicted.time_range.high;
    if (time && most > 0 && time->median * 1e6 > kFar * most)
      late.push_back({k, time->median * 1e6, most});
  }
  std::ranges::sort(late, std::greater{}, [](const Late& one) { return one.us - one.most; });
  for (std::size_t i = 0; i < std::min(late.size(), kMostTold); ++i) {
    notes.push_back(fmt::format(
        "{}, {}: took {} where at most {} was predicted: its kernel is slow for this shape, or the "
        "prediction is wrong",
        measured.key, printable(measured.kernels[late[i].kernel].name, 40),
        human_seconds(late[i].us * 1e-6), human_seconds(late[i].most * 1e-6)));
  }
  if (late.size() > kMostTold) {
    notes.push_back(fmt::format("{}: {} more kernels took over twice what was predicted at most",
                                measured.key, late.size() - kMostTold));
  }
}

bool throttled(const Observed& observed) { return observed.time && observed.time->throttled > 0; }

}  // namespace

std::vector<MeasurementTable> measurement_tables(const MeasurementReport& report) {
  const Measurement& measurement = report.measurement;
  std::vector<MeasurementTable> tables = {
      {.title = "each kernel alone", .columns = kMeasuredColumns, .rows = {}},
      {.title = "back to back", .columns = kMeasuredColumns, .rows = {}},
      {.title = "predicted, measured", .columns = kPredictedColumns, .rows = {}}};
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    if (plan->isolated.dram || plan->isolated.time) add_plan(tables[0].rows, measurement, *plan);
    if (plan->pipeline.dram || plan->pipeline.time) {
      tables[1].rows.push_back(row(measurement, plan->key, plan->analytic, plan->pipeline, true));
    }
  }
  if (report.analysis) {
    const GraphAnalysis& graph = *report.analysis->graph;
    add_predictions(tables[2].rows, graph.plan(PlanKind::kUnfused), measurement.unfused);
    add_predictions(tables[2].rows, graph.plan(report.analysis->plan), measurement.fused);
  }
  std::erase_if(tables, [](const MeasurementTable& table) { return table.rows.empty(); });
  return tables;
}

InRange in_range(const Prediction& predicted, const Observed& observed) {
  InRange result;
  if (observed.dram) {
    result.dram_read = predicted.read_range.holds(static_cast<double>(observed.dram->read));
    result.dram_write = predicted.write_range.holds(static_cast<double>(observed.dram->write));
  }
  if (observed.time) result.time = predicted.time_range.holds(observed.time->median * 1e6);
  return result;
}

double predicted_speedup(const MeasurementReport& report) {
  const std::optional<double> by_time =
      report.analysis ? report.analysis->predicted_speedup() : std::nullopt;
  return by_time ? std::round(*by_time * 100) / 100 : report.measurement.savings().speedup();
}

std::string speedup_sentence(const MeasurementReport& report) {
  const Savings savings = report.measurement.savings();
  std::string text =
      fmt::format("fusion saves {} % of the bytes: predicted speedup {}x",
                  shortest_decimal(savings.percent()), shortest_decimal(predicted_speedup(report)));
  if (const std::optional<double> speedup = report.measurement.measured_speedup()) {
    text += fmt::format(", measured {:.2f}x", *speedup);
  }
  if (report.analysis) {
    text += fmt::format(" (by bytes alone {}x)", shortest_decimal(savings.speedup()));
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

std::vector<std::string> measurement_notes(const MeasurementReport& report) {
  const Measurement& measurement = report.measurement;
  std::vector<std::string> notes;
  if (measurement.synthetic) {
    notes.emplace_back(
        "synthetic: the list names sizes only, so these kernels move its bytes and compute "
        "nothing");
  }
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    notes.insert(notes.end(), plan->notes.begin(), plan->notes.end());
    if (!measurement.synthetic) add_speed_notes(notes, measurement, *plan);
    if (report.analysis) {
      const bool unfused = plan == &measurement.unfused;
      const PlanKind kind = unfused ? PlanKind::kUnfused : report.analysis->plan;
      add_late_notes(notes, report.analysis->graph->plan(kind), *plan);
    }
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
