#include <algorithm>
#include <cmath>
#include <cstdint>
#include <future>
#include <queue>
#include <string>
#include <utility>

#include "analysis/reasons.hpp"
#include "core/github_actions.hpp"
#include "core/threads.hpp"
#include "report/json_parts.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

using Layout = JsonWriter::Layout;

void write_entries(JsonWriter& json, std::string_view key, const OpGraph& graph,
                   const std::vector<KernelTraffic::Entry>& entries) {
  json.key(key).begin_object(Layout::kInline);
  for (const KernelTraffic::Entry& entry : entries) {
    if (entry.bytes == 0) continue;  // nothing of it moves
    json.member(graph.tensors[entry.tensor].name, entry.bytes);
  }
  json.end();
}

void write_names(JsonWriter& json, const OpGraph& graph, const Kernel& ops) {
  json.begin_array(Layout::kInline);
  for (const OpId op : ops) json.value(graph.ops[op].name);
  json.end();
}

void write_boundaries(JsonWriter& json, const GraphAnalysis& analysis, const PlanAnalysis& plan,
                      std::span<const Boundary> boundaries) {
  json.key("boundary").begin_array();
  for (const Boundary& boundary : boundaries) {
    json.begin_object(Layout::kInline);
    json.member("with", plan.kernels[boundary.with].name);
    json.member("tensor", analysis.graph.tensors[boundary.tensor].name);
    json.member("reason", reason_of(analysis, boundary));
    json.end();
  }
  json.end();
}

}  // namespace

void write_kernel_members(JsonWriter& json, const GraphAnalysis& analysis, const PlanAnalysis& plan,
                          const KernelAnalysis& kernel, std::span<const Boundary> boundaries) {
  const OpGraph& graph = analysis.graph;
  json.member("name", kernel.name);
  json.key("ops");
  write_names(json, graph, kernel.ops);
  json.member("read", kernel.traffic.bytes.read);
  json.member("write", kernel.traffic.bytes.write);
  json.member("flops", kernel.traffic.flops);
  write_entries(json, "reads", graph, kernel.traffic.reads);
  write_entries(json, "writes", graph, kernel.traffic.writes);
  write_prediction(json, kernel.predicted);
  write_boundaries(json, analysis, plan, boundaries);
  if (!kernel.launch.legal()) json.member("cannot_launch", reason_of(analysis, kernel));
  if (kernel.split) {
    json.key("split").begin_object();
    json.member("total", kernel.split->bytes);
    json.key("kernels").begin_array(Layout::kInline);
    for (const Kernel& part : kernel.split->kernels) write_names(json, graph, part);
    json.end().end();
  }
}

void write_conditions(JsonWriter& json, const OpGraph& graph) {
  // Only where a job of GitHub Actions will annotate the file: results do not depend on paths.
  // Standard input and the op lists of the library are no files.
  const bool is_file = graph.document != "<stdin>" && !graph.document.starts_with('@');
  if (is_file && in_github_actions()) json.member("source", graph.document);
  json.key("dims").begin_object(Layout::kInline);
  for (const auto& [name, extent] : graph.dims) json.member(name, extent);
  json.end();
  json.key("inputs").begin_object();
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.producer != kNone || tensor.view_of != kNone) continue;
    json.key(tensor.name).begin_object(Layout::kInline);
    json.member("dtype", name_of(tensor.type.dtype));
    json.key("shape").begin_array();
    for (const std::uint64_t extent : tensor.type.shape) json.value(extent);
    json.end().end();
  }
  json.end();
}

void write_prediction(JsonWriter& json, const Prediction& predicted) {
  const auto bytes = [](double value) { return static_cast<std::uint64_t>(std::llround(value)); };
  // Nanoseconds.
  const auto tidy = [](double us) { return std::round(us * 1e3) / 1e3; };
  json.key("predicted").begin_object(Layout::kInline);
  json.member("dram_read", bytes(predicted.dram_read));
  json.member("dram_write", bytes(predicted.dram_write));
  json.member("time_us", tidy(predicted.time_us));
  json.member("bound", name_of(predicted.bound));
  json.key("range").begin_object();
  const auto range = [&](std::string_view name, const Interval& interval, const auto& number) {
    json.key(name).begin_array();
    json.value(number(interval.low)).value(number(interval.high));
    json.end();
  };
  range("dram_read", predicted.read_range, bytes);
  range("dram_write", predicted.write_range, bytes);
  range("time_us", predicted.time_range, tidy);
  json.end().end();
}

void write_plan_members(JsonWriter& json, const PlanAnalysis& plan) {
  json.member("read", plan.bytes.read);
  json.member("write", plan.bytes.write);
  json.member("total", plan.bytes.total());
  json.member("flops", plan.flops);
  write_prediction(json, plan.predicted);
}

namespace {

// Threads write some kernels each. No more of them than there are threads are ahead of the output,
// so that little of a long document is in memory.
void write_kernels(JsonWriter& json, const GraphAnalysis& analysis, const PlanAnalysis& plan) {
  constexpr std::size_t kTogether = 512;
  const std::size_t ops = analysis.graph.ops.size();
  const JsonWriter start = json;  // threads read it while the other one goes on
  std::queue<std::future<std::string>> parts;
  const auto take = [&] {
    json.append(parts.front().get());
    parts.pop();
  };
  for (std::size_t first = 0; first < plan.kernels.size(); first += kTogether) {
    const std::size_t end = std::min(plan.kernels.size(), first + kTogether);
    parts.push(started(ops, [&start, &analysis, &plan, first, end] {
      Output text = Output::memory();
      JsonWriter part = start.part(text, first == 0);
      for (auto k = static_cast<KernelId>(first); k < end; ++k) {
        part.begin_object();
        write_kernel_members(part, analysis, plan, plan.kernels[k], plan.boundaries->of(k));
        part.end();
      }
      return text.take();
    }));
    if (parts.size() > threads_for(ops)) take();
  }
  while (!parts.empty()) take();
}

void write_plan(JsonWriter& json, const GraphAnalysis& analysis, const PlanAnalysis& plan) {
  json.key(name_of(plan.kind)).begin_object();
  write_plan_members(json, plan);
  json.key("kernels").begin_array();
  write_kernels(json, analysis, plan);
  json.end().end();
}

void write_device(JsonWriter& json, const Device& device) {
  json.key("device").begin_object(Layout::kInline);
  json.member("name", device.name);
  json.member("shared_bytes_per_block", device.on_chip_bytes);
  json.end();
}

void write_one(JsonWriter& json, const Analysis& analysis) {
  const Savings savings = analysis.savings();
  json.begin_object();
  json.member("schema", kAnalysisSchema);
  json.member("name", analysis.name);
  json.member("plan", name_of(analysis.plan));
  json.member("unfused_bytes", savings.unfused_bytes);
  json.member("fused_bytes", savings.fused_bytes);
  json.member("savings_bytes", savings.bytes());
  json.member("savings_pct", savings.percent());
  if (!analysis.lists_nothing()) json.member("speedup_estimate", savings.speedup());
  if (const auto speedup = analysis.predicted_speedup()) {
    json.member("speedup_predicted", std::round(*speedup * 100) / 100);
  }
  if (!analysis.graph) json.member("dtype_bytes", analysis.dtype_bytes);
  if (analysis.graph) {
    write_device(json, analysis.graph->device);
    write_conditions(json, analysis.graph->graph);
    json.key("plans").begin_object();
    for (const PlanAnalysis& plan : analysis.graph->plans) write_plan(json, *analysis.graph, plan);
    json.end();
  }
  json.end();
}

}  // namespace

void write_json(const Analysis& analysis, const Style& /*style*/, Output& output) {
  JsonWriter json(output);
  write_one(json, analysis);
}

void write_json(std::span<const Analysis> analyses, const Style& /*style*/, Output& output) {
  JsonWriter json(output);
  json.begin_array();
  for (const Analysis& analysis : analyses) write_one(json, analysis);
  json.end();
}

}  // namespace fusecalc
