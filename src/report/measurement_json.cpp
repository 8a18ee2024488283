#include <fmt/format.h>

#include <cmath>
#include <string>

#include "report/json_parts.hpp"
#include "report/measurement_rows.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kGigabyte = 1e9;

// Six decimals are well below what any of these figures can tell.
double tidy(double value) { return std::round(value * 1e6) / 1e6; }

// An error may be far smaller than that.
double in_four_digits(double value) { return std::stod(fmt::format("{:.4g}", value)); }

void member_or_null(JsonWriter& json, std::string_view name, const std::optional<double>& value) {
  if (value) {
    json.member(name, tidy(*value));
  } else {
    json.key(name).null();
  }
}

void write_device(JsonWriter& json, const Measurement& measurement) {
  constexpr double kMegahertz = 1e6;
  const PresentGpu& gpu = measurement.gpu;
  const Device& device = gpu.device;
  json.key("device").begin_object();
  json.member("name", device.name);
  json.member("uuid", gpu.uuid);
  json.member("compute_capability", to_string(device.capability));
  json.member("driver", gpu.driver);
  json.member("driver_cuda", gpu.driver_cuda);
  json.member("toolkit", gpu.toolkit);
  json.member("sm_clock_mhz", gpu.sm_clock_hz / kMegahertz);
  json.member("memory_clock_mhz", gpu.memory_clock_hz / kMegahertz);
  json.member("sm_count", std::uint64_t{device.multiprocessors});
  json.member("shared_bytes_per_block", device.on_chip_bytes);
  json.member("l2_bytes", device.l2_bytes);
  json.member("memory_bytes", device.memory_bytes);
  json.member("ecc", gpu.ecc);
  std::optional<double> copy = measurement.copy_bytes_per_s;
  if (copy) copy = *copy / kGigabyte;
  member_or_null(json, "copy_gbps", copy);
  json.end();
}

void write_time(JsonWriter& json, const TimeSpread& time) {
  json.key("time_us").begin_object(JsonWriter::Layout::kInline);
  json.member("median", tidy(time.median / kMicrosecond));
  json.member("min", tidy(time.min / kMicrosecond));
  json.member("p10", tidy(time.p10 / kMicrosecond));
  json.member("p90", tidy(time.p90 / kMicrosecond));
  json.member("samples", std::uint64_t{time.samples});
  json.member("throttled", std::uint64_t{time.throttled});
  json.end();
}

void write_error(JsonWriter& json, const Bytes& analytic, const Bytes& dram) {
  json.key("error_pct").begin_object(JsonWriter::Layout::kInline);
  member_or_null(json, "read", error_percent(dram.read, analytic.read));
  member_or_null(json, "write", error_percent(dram.write, analytic.write));
  member_or_null(json, "total", error_percent(dram.total(), analytic.total()));
  json.end();
}

void write_observed(JsonWriter& json, std::string_view name, const Bytes& analytic,
                    const Observed& observed) {
  json.key(name).begin_object();
  if (observed.dram) {
    json.member("dram_read", observed.dram->read);
    json.member("dram_write", observed.dram->write);
  } else {
    json.key("dram_read").null().key("dram_write").null();
  }
  if (observed.time) {
    write_time(json, *observed.time);
    json.member("gbps", tidy(bytes_per_second(analytic, *observed.time) / kGigabyte));
  } else {
    json.key("time_us").null().key("gbps").null();
  }
  if (observed.dram) {
    write_error(json, analytic, *observed.dram);
  } else {
    json.key("error_pct").null();
  }
  if (!observed.reason.empty()) json.member("reason", observed.reason);
  json.end();
}

void write_bytes(JsonWriter& json, const Bytes& bytes) {
  json.member("read", bytes.read);
  json.member("write", bytes.write);
  json.member("total", bytes.total());
}

// What was found out about a kernel by running it.
void write_run(JsonWriter& json, const KernelMeasurement& kernel) {
  if (!kernel.schedule.empty()) json.member("schedule", kernel.schedule);
  if (!kernel.choice.empty()) json.member("choice", kernel.choice);
  json.member("registers", std::uint64_t{kernel.resources.registers});
  json.member("shared_bytes", kernel.resources.shared_bytes);
  json.member("spill_bytes", kernel.resources.spill_bytes);
  json.member("occupancy", tidy(kernel.occupancy));
  json.member("compile_ms", tidy(kernel.compile_seconds * 1e3));
  json.member("cached", kernel.cached);
  write_observed(json, "measured", kernel.analytic, kernel.observed);
}

// Whether what was measured lies in the ranges of `predicted`.
void write_in_range(JsonWriter& json, const Prediction& predicted, const Observed& observed) {
  const InRange in = in_range(predicted, observed);
  const auto member = [&](std::string_view name, const std::optional<bool>& value) {
    if (value) {
      json.member(name, *value);
    } else {
      json.key(name).null();
    }
  };
  json.key("in_range").begin_object(JsonWriter::Layout::kInline);
  member("dram_read", in.dram_read);
  member("dram_write", in.dram_write);
  member("time_us", in.time);
  json.end();
}

// What was found out about a plan.
void write_outcome(JsonWriter& json, const PlanMeasurement& plan) {
  write_observed(json, "measured", plan.analytic, plan.isolated);
  write_observed(json, "measured_pipeline", plan.analytic, plan.pipeline);
  json.key("verified");
  if (plan.verified) {
    json.begin_object(JsonWriter::Layout::kInline);
    // JSON has no infinity.
    const double error = plan.verified->max_rel_err;
    if (std::isfinite(error)) {
      json.member("max_rel_err", in_four_digits(error));
    } else {
      json.key("max_rel_err").null();
    }
    json.member("tolerance", plan.verified->tolerance);
    json.member("ok", plan.verified->ok);
    if (!plan.verified->worst.empty()) json.member("worst", plan.verified->worst);
    if (!plan.verified->unchecked.empty()) {
      json.key("unchecked").begin_array();
      for (const std::string& text : plan.verified->unchecked) json.value(text);
      json.end();
    }
    json.end();
  } else {
    json.null();
    json.member("verified_reason", plan.verified_reason);
  }
  json.key("notes").begin_array();
  for (const std::string& note : plan.notes) json.value(note);
  json.end();
}

void write_chain_plan(JsonWriter& json, const PlanMeasurement& plan) {
  json.key(plan.key).begin_object();
  write_bytes(json, plan.analytic);
  json.key("kernels").begin_array();
  for (const KernelMeasurement& kernel : plan.kernels) {
    json.begin_object();
    json.member("name", kernel.name);
    json.member("operations", kernel.operations);
    write_bytes(json, kernel.analytic);
    write_run(json, kernel);
    json.end();
  }
  json.end();
  write_outcome(json, plan);
  json.end();
}

// `measured` is null for a plan that did not run.
void write_graph_plan(JsonWriter& json, const GraphAnalysis& analysis, const PlanAnalysis& plan,
                      const PlanMeasurement* measured) {
  json.key(name_of(plan.kind)).begin_object();
  write_plan_members(json, plan);
  json.key("kernels").begin_array();
  for (KernelId k = 0; k < plan.kernels.size(); ++k) {
    json.begin_object();
    write_kernel_members(json, analysis, plan, plan.kernels[k], plan.boundaries->of(k));
    if (measured != nullptr) {
      write_run(json, measured->kernels[k]);
      write_in_range(json, plan.kernels[k].predicted, measured->kernels[k].observed);
    }
    json.end();
  }
  json.end();
  if (measured != nullptr) {
    write_outcome(json, *measured);
    write_in_range(json, plan.predicted, measured->pipeline);
  }
  json.end();
}

void write_one(JsonWriter& json, const MeasurementReport& report) {
  const Measurement& measurement = report.measurement;
  const Savings savings = measurement.savings();
  json.begin_object();
  json.member("schema", kMeasurementSchema);
  json.member("name", measurement.name);
  json.member("plan", measurement.fused.key);
  json.member("unfused_bytes", savings.unfused_bytes);
  json.member("fused_bytes", savings.fused_bytes);
  json.member("savings_bytes", savings.bytes());
  json.member("savings_pct", savings.percent());
  json.member("speedup_estimate", savings.speedup());
  if (report.analysis) {
    const std::optional<double> speedup = report.analysis->predicted_speedup();
    if (speedup) json.member("speedup_predicted", std::round(*speedup * 100) / 100);
  }
  member_or_null(json, "speedup_measured", measurement.measured_speedup());
  member_or_null(json, "payback_runs", measurement.payback_runs());
  json.member("synthetic", measurement.synthetic);
  if (measurement.interrupted) json.member("interrupted", true);
  json.member("seed", measurement.seed);
  if (report.analysis) {
    write_conditions(json, report.analysis->graph->graph);
  } else {
    json.member("dtype_bytes", measurement.dtype_bytes);
  }
  write_device(json, measurement);
  json.key("plans").begin_object();
  if (report.analysis) {
    const GraphAnalysis& graph = *report.analysis->graph;
    for (const PlanAnalysis& plan : graph.plans) {
      const PlanMeasurement* measured = nullptr;
      if (plan.kind == PlanKind::kUnfused) measured = &measurement.unfused;
      if (plan.kind == report.analysis->plan) measured = &measurement.fused;
      write_graph_plan(json, graph, plan, measured);
    }
  } else {
    write_chain_plan(json, measurement.unfused);
    write_chain_plan(json, measurement.fused);
  }
  json.end();
  json.end();
}

}  // namespace

void write_json(std::span<const MeasurementReport> reports, const Style& /*style*/,
                Output& output) {
  JsonWriter json(output);
  if (reports.size() == 1) return write_one(json, reports[0]);
  json.begin_array();
  for (const MeasurementReport& report : reports) write_one(json, report);
  json.end();
}

}  // namespace fusecalc
