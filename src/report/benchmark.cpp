// Results as the entries of github-action-benchmark (customSmallerIsBetter), which draws one chart
// per name: what a name means must not change from commit to commit.

#include <fmt/format.h>

#include <cmath>

#include "core/text.hpp"
#include "json/writer.hpp"
#include "report/comparison_cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr double kMicrosecond = 1e6;  // in seconds and in picoseconds

// An array of entries, one per figure.
class Entries {
 public:
  explicit Entries(Output& output) : json_(output) { json_.begin_array(); }

  void bytes(const std::string& name, std::uint64_t value, const std::string& extra = {}) {
    begin(name, "bytes");
    json_.member("value", value);
    end(extra);
  }

  // In microseconds; nanoseconds are kept.
  void time(const std::string& name, double value, const std::string& range,
            const std::string& extra = {}) {
    begin(name, "us");
    json_.member("value", std::round(value * 1e3) / 1e3);
    if (!range.empty()) json_.member("range", range);
    end(extra);
  }

  void finish() { json_.end(); }

 private:
  void begin(const std::string& name, std::string_view unit) {
    json_.begin_object(JsonWriter::Layout::kInline).member("name", name).member("unit", unit);
  }

  void end(const std::string& extra) {
    if (!extra.empty()) json_.member("extra", extra);
    json_.end();
  }

  JsonWriter json_;
};

std::string name_of_entry(std::string_view spec, std::string_view plan, std::string_view figure) {
  return fmt::format("{}: {}: {}", printable(spec), printable(plan), figure);
}

std::string range_of(double low, double high) { return fmt::format("{:.3f} to {:.3f}", low, high); }

void add_observed(Entries& entries, const Measurement& measurement, const PlanMeasurement& plan,
                  const Observed& observed, std::string_view how) {
  const auto name = [&](std::string_view figure) {
    return name_of_entry(measurement.name, plan.key, fmt::format("{}{}", figure, how));
  };
  if (observed.dram) {
    entries.bytes(name("DRAM read"), observed.dram->read);
    entries.bytes(name("DRAM written"), observed.dram->write);
  }
  if (observed.time) {
    const TimeSpread& time = *observed.time;
    entries.time(name("time"), time.median * kMicrosecond,
                 range_of(time.p10 * kMicrosecond, time.p90 * kMicrosecond),
                 fmt::format("median of {}; range: p10 to p90", time.samples));
  }
}

}  // namespace

void write_benchmark(const Analysis& analysis, const Style& /*style*/, Output& output) {
  Entries entries(output);
  const auto name = [&](PlanKind plan, std::string_view figure) {
    return name_of_entry(analysis.name, name_of(plan), figure);
  };
  if (analysis.graph) {
    for (const PlanAnalysis& plan : analysis.graph->plans) {
      entries.bytes(name(plan.kind, "bytes"), plan.bytes.total());
    }
    for (const PlanAnalysis& plan : analysis.graph->plans) {
      const Prediction& predicted = plan.predicted;
      entries.time(name(plan.kind, "predicted time"), predicted.time_us,
                   range_of(predicted.time_range.low, predicted.time_range.high),
                   "on " + printable(analysis.graph->device.name));
    }
  } else {
    entries.bytes(name(PlanKind::kUnfused, "bytes"), analysis.unfused.total());
    entries.bytes(name(analysis.plan, "bytes"), analysis.fused.total());
  }
  entries.finish();
}

void write_benchmark(std::span<const MeasurementReport> reports, const Style& /*style*/,
                     Output& output) {
  Entries entries(output);
  for (const MeasurementReport& report : reports) {
    const Measurement& measurement = report.measurement;
    for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
      entries.bytes(name_of_entry(measurement.name, plan->key, "bytes"), plan->analytic.total());
      add_observed(entries, measurement, *plan, plan->isolated, "");
      add_observed(entries, measurement, *plan, plan->pipeline, ", back to back");
    }
  }
  entries.finish();
}

// The new figures of whole plans: those of kernels are there only where they changed.
void write_benchmark(const Comparison& comparison, const Style& /*style*/, Output& output) {
  Entries entries(output);
  for (const Finding& finding : comparison.findings) {
    const FigureRow& figure = row_of(finding.figure);
    if (!finding.after || !finding.kernel.empty() || figure.unit == Unit::kCount) continue;
    const std::string name = name_of_entry(finding.spec, finding.plan, figure.words);
    std::string extra = verdict_in_words(finding);
    if (finding.before) {
      extra += fmt::format("; before: {} ({})", value_in_words(finding, finding.before),
                           share_in_words(finding));
    }
    if (figure.unit == Unit::kBytes) {
      entries.bytes(name, *finding.after, extra);
    } else {
      entries.time(name, static_cast<double>(*finding.after) / kMicrosecond, "", extra);
    }
  }
  entries.finish();
}

}  // namespace fusecalc
