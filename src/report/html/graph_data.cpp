#include "report/html/graph_data.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/limit_shares.hpp"
#include "analysis/reasons.hpp"
#include "analysis/repeats.hpp"
#include "core/text.hpp"
#include "json/writer.hpp"
#include "report/html/text_patterns.hpp"

namespace fusecalc {
namespace {

using Layout = JsonWriter::Layout;

// What is left out of a graph that takes more, from nothing to all but its tables.
enum class DrawnPlans : std::uint8_t { kAll, kCompared, kHeadline };  // compared: with unfused

struct Detail {
  BoundaryScope reasons;
  DrawnPlans plans;
  std::string_view left_out;
};
constexpr std::array kDetails = {
    Detail{BoundaryScope::kEveryPlan, DrawnPlans::kAll, ""},
    Detail{BoundaryScope::kHeadline, DrawnPlans::kAll,
           "The graph is large: reasons are shown for the headline plan only."},
    Detail{BoundaryScope::kNoPlan, DrawnPlans::kAll,
           "The graph is large: reasons are left out of the drawing."},
    Detail{BoundaryScope::kNoPlan, DrawnPlans::kCompared,
           "The graph is large: only the headline plan and the unfused one are drawn, without "
           "reasons."},
    Detail{BoundaryScope::kHeadline, DrawnPlans::kHeadline,
           "The graph is large: only the headline plan is drawn."},
    Detail{BoundaryScope::kNoPlan, DrawnPlans::kHeadline,
           "The graph is large: only the headline plan is drawn, without reasons."},
};

// Texts by the order in which they were first asked for.
class Texts {
 public:
  std::uint64_t place_of(const std::string& text) {
    const auto [found, added] = places_.try_emplace(text, all_.size());
    if (added) all_.push_back(text);
    return found->second;
  }

  void count(TextPatterns& patterns) const {
    for (const std::string& text : all_) patterns.count(printable(text, kNoLimit));
  }

  void write(JsonWriter& json, std::string_view key, TextPatterns& patterns) const {
    json.key(key).begin_array();
    for (const std::string& text : all_) patterns.write(json, printable(text, kNoLimit));
    json.end();
  }

 private:
  std::unordered_map<std::string, std::uint64_t> places_;
  std::vector<std::string> all_;
};

class GraphData {
 public:
  GraphData(const Analysis& analysis, const Measurement* measurement, const Detail& detail)
      : analysis_(analysis),
        details_(*analysis.graph),
        graph_(details_.graph),
        measurement_(measurement),
        detail_(detail) {}

  std::string text() {
    Output output = Output::memory();
    JsonWriter json(output);
    json.begin_object(Layout::kCompact);
    json.member("name", printable(analysis_.name));
    json.member("headline", name_of(analysis_.plan));
    json.member("device", printable(details_.device.name));
    if (!detail_.left_out.empty()) json.member("left_out", detail_.left_out);
    if (measurement_ != nullptr && measurement_->copy_bytes_per_s) {
      json.member("copy", std::round(*measurement_->copy_bytes_per_s));
    }
    write_rates(json);
    for (const Tensor& tensor : graph_.tensors) {
      if (!named_like_op(tensor)) patterns_.count(printable(tensor.name));
    }
    for (const Op& op : graph_.ops) patterns_.count(printable(name_in_scope(op)));
    write_tensors(json);
    write_ops(json);
    json.key("plans").begin_array();
    for (const PlanAnalysis& plan : details_.plans) {
      const bool compared =
          plan.kind == PlanKind::kUnfused && detail_.plans == DrawnPlans::kCompared;
      const bool drawn = detail_.plans == DrawnPlans::kAll || compared;
      if (drawn || plan.kind == analysis_.plan) write_plan(json, plan);
    }
    json.end();
    for (const Texts* texts : {&scopes_, &kinds_, &reasons_}) texts->count(patterns_);
    scopes_.write(json, "scopes", patterns_);
    kinds_.write(json, "kinds", patterns_);
    reasons_.write(json, "reasons", patterns_);
    patterns_.write_patterns(json);
    json.end();
    return output.take();
  }

 private:
  void write_rates(JsonWriter& json) const {
    const DeviceConstants& constants = details_.device.constants;
    const double flops = details_.device.multiprocessors * constants.tensor_flops.value *
                         constants.tensor_clock_ghz.value * 1e9;
    json.key("rates").begin_array();
    json.value(std::round(constants.dram_read_gbps.value * 1e9)).value(std::round(flops)).end();
  }

  void write_tensors(JsonWriter& json) {
    json.key("tensors").begin_array();
    for (const Tensor& tensor : graph_.tensors) {
      json.begin_array();
      if (named_like_op(tensor)) {
        json.value(std::uint64_t{tensor.producer});
      } else {
        patterns_.write(json, printable(tensor.name));
      }
      json.value(tensor.bytes);
      const unsigned input = tensor.producer == kNone && tensor.view_of == kNone ? 1U : 0U;
      json.value(std::uint64_t{input + (tensor.output ? 2U : 0U)});
      std::string type = std::string(name_of(tensor.type.dtype)) + " [";
      for (const std::uint64_t extent : tensor.type.shape) {
        if (type.back() != '[') type += ", ";
        type += std::to_string(extent);
      }
      json.value(kinds_.place_of(type + "]"));
      json.end();
    }
    json.end();
  }

  void write_ops(JsonWriter& json) {
    json.key("ops").begin_array();
    for (const Op& op : graph_.ops) {
      json.begin_array();
      patterns_.write(json, printable(name_in_scope(op)));
      json.value(kinds_.place_of(std::string(op.row->name)));
      json.value(scopes_.place_of(scope_of(op)));
      if (starts_with_scope(op)) json.value(std::uint64_t{1});
      json.end();
    }
    json.end();
  }

  bool named_like_op(const Tensor& tensor) const {
    return tensor.producer != kNone && graph_.ops[tensor.producer].name == tensor.name;
  }

  static bool starts_with_scope(const Op& op) {
    const std::string scope = scope_of(op);
    return !scope.empty() && op.name.starts_with(scope + ".");
  }

  static std::string name_in_scope(const Op& op) {
    return starts_with_scope(op) ? op.name.substr(scope_of(op).size()) : op.name;
  }

  // As stated; else, of "layers.3.mlp.up_proj", "layers.3.mlp".
  static std::string scope_of(const Op& op) {
    if (!op.scope.empty()) return op.scope;
    const std::size_t end = op.name.find_last_of('.');
    return end == std::string::npos ? "" : op.name.substr(0, end);
  }

  void write_plan(JsonWriter& json, const PlanAnalysis& plan) {
    json.begin_object();
    json.member("name", name_of(plan.kind));
    json.member("read", plan.bytes.read);
    json.member("write", plan.bytes.write);
    json.member("flops", plan.flops);
    if (plan.predicted.time_us > 0) json.member("time", nanoseconds(plan.predicted.time_us));
    // The kernel of the limit is none that could run.
    if (plan.kind != PlanKind::kLimit) {
      const std::vector<std::uint64_t> limits = limit_shares(details_, plan);
      json.key("kernels").begin_array();
      for (KernelId k = 0; k < plan.kernels.size(); ++k) write_kernel(json, plan, k, limits[k]);
      json.end();
      json.key("predicted").begin_array();
      for (const KernelAnalysis& kernel : plan.kernels) write_prediction(json, kernel.predicted);
      json.end();
      json.key("repeats").begin_array();
      for (const Repeat& repeat : repeats_of(graph_, plan)) {
        if (repeat.count == 1) continue;
        json.begin_array().value(std::uint64_t{repeat.first});
        json.value(std::uint64_t{repeat.period}).value(std::uint64_t{repeat.count}).end();
      }
      json.end();
    }
    if (const PlanMeasurement* measured = measured_as(plan)) write_measured(json, *measured);
    json.end();
  }

  // Microseconds to three decimals.
  static double nanoseconds(double us) { return std::round(us * 1e3) / 1e3; }

  void write_prediction(JsonWriter& json, const Prediction& predicted) {
    json.begin_array().value(static_cast<std::uint64_t>(std::llround(predicted.dram())));
    json.value(nanoseconds(predicted.time_us)).value(nanoseconds(predicted.time_range.low));
    json.value(nanoseconds(predicted.time_range.high));
    json.value(kinds_.place_of(std::string(name_of(predicted.bound)))).end();
  }

  const PlanMeasurement* measured_as(const PlanAnalysis& plan) const {
    if (measurement_ == nullptr) return nullptr;
    if (plan.kind == analysis_.plan) return &measurement_->fused;
    return plan.kind == PlanKind::kUnfused ? &measurement_->unfused : nullptr;
  }

  void write_kernel(JsonWriter& json, const PlanAnalysis& plan, KernelId k, std::uint64_t limit) {
    const KernelAnalysis& kernel = plan.kernels[k];
    json.begin_array().begin_array();
    for (const OpId op : kernel.ops) json.value(std::uint64_t{op});
    json.end();
    write_entries(json, kernel.traffic.reads);
    write_entries(json, kernel.traffic.writes);
    json.value(kernel.traffic.flops);
    json.value(limit);
    const bool reasons =
        detail_.reasons == BoundaryScope::kEveryPlan ||
        (detail_.reasons == BoundaryScope::kHeadline && plan.kind == analysis_.plan);
    const bool known = reasons && plan.boundaries;
    const bool any = known && !plan.boundaries->of(k).empty();
    if (any || !kernel.launch.legal()) {
      json.begin_array();
      if (any) write_boundaries(json, plan.boundaries->of(k));
      json.end();
    }
    if (!kernel.launch.legal()) json.value(reasons_.place_of(reason_of(details_, kernel)));
    json.end();
  }

  void write_entries(JsonWriter& json, const std::vector<KernelTraffic::Entry>& entries) {
    json.begin_array();
    for (const KernelTraffic::Entry& entry : entries) {
      if (entry.bytes == 0) continue;
      if (entry.bytes == graph_.tensors[entry.tensor].bytes && entry.passes == 1) {
        json.value(std::uint64_t{entry.tensor});
      } else {
        json.begin_array().value(std::uint64_t{entry.tensor}).value(entry.bytes);
        json.value(std::uint64_t{entry.passes}).end();
      }
    }
    json.end();
  }

  void write_boundaries(JsonWriter& json, std::span<const Boundary> boundaries) {
    for (const Boundary& boundary : boundaries) {
      json.begin_array().value(std::uint64_t{boundary.with});
      json.value(std::uint64_t{boundary.tensor});
      json.value(reasons_.place_of(full_reason_of(details_, boundary))).end();
    }
  }

  static void write_measured(JsonWriter& json, const PlanMeasurement& plan) {
    json.key("measured").begin_array();
    for (const KernelMeasurement& kernel : plan.kernels) {
      const Observed& observed = kernel.observed;
      json.begin_array();
      if (observed.dram) {
        json.value(observed.dram->read).value(observed.dram->write);
      } else {
        json.null().null();
      }
      if (observed.time) {
        json.value(nanoseconds(observed.time->median * 1e6));
      } else {
        json.null();
      }
      json.value(printable(kernel.schedule)).end();
    }
    json.end();
  }

  const Analysis& analysis_;
  const GraphAnalysis& details_;
  const OpGraph& graph_;
  const Measurement* measurement_;
  Detail detail_;
  Texts scopes_;
  Texts kinds_;
  Texts reasons_;
  TextPatterns patterns_;
};

// In as much detail as fits; empty if nothing does, or there is no graph.
std::string fitting(const Analysis* analysis, const Measurement* measurement, std::size_t most) {
  if (analysis == nullptr || !analysis->graph) return {};
  for (const Detail& detail : kDetails) {
    std::string text = GraphData(*analysis, measurement, detail).text();
    if (text.size() <= most) return text;
  }
  return {};
}

std::string document_of(const std::vector<std::string>& reports) {
  std::string out = "{\"reports\": [";
  for (const std::string& report : reports) {
    if (out.back() != '[') out += ", ";
    out += report.empty() ? "null" : report;
  }
  return out + "]}";
}

}  // namespace

std::string graph_data(std::span<const Analysis> analyses, std::size_t most) {
  std::vector<std::string> texts;
  for (const Analysis& analysis : analyses) {
    texts.push_back(fitting(&analysis, nullptr, most / analyses.size()));
  }
  return document_of(texts);
}

std::string graph_data(std::span<const MeasurementReport> reports) {
  std::vector<std::string> texts;
  for (const MeasurementReport& report : reports) {
    const Analysis* analysis = report.analysis ? &*report.analysis : nullptr;
    texts.push_back(fitting(analysis, &report.measurement, kMostGraphBytes / reports.size()));
  }
  return document_of(texts);
}

}  // namespace fusecalc
