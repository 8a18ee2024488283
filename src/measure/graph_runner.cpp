#include "measure/graph_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "codegen/generate.hpp"
#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/output.hpp"
#include "measure/graph_check.hpp"
#include "measure/graph_memory.hpp"
#include "measure/preparation.hpp"
#include "measure/variant.hpp"

namespace fusecalc {
namespace {

// A kernel of a plan and its generated code.
struct Draft {
  const Kernel* ops = nullptr;
  std::optional<GeneratedKernel> code;
  std::string reason;  // why there is none
};

struct DraftedPlan {
  const NamedPlan& plan;
  TrafficCounter& counter;  // of the graph that the kernels are of
  std::vector<Draft> drafts;
};

DraftedPlan drafted(TrafficCounter& counter, const NamedPlan& plan, bool all_ways) {
  DraftedPlan result{.plan = plan, .counter = counter, .drafts = {}};
  for (const Kernel& ops : plan.kernels) {
    Draft& draft = result.drafts.emplace_back();
    draft.ops = &ops;
    try {
      draft.code = generate(counter, ops, counter.device());
      if (!all_ways) draft.code->others.clear();
    } catch (const Error& error) {
      if (error.fault() != Fault::kUnavailable) throw;
      draft.reason = error.what();
    }
  }
  return result;
}

void keep_source(const std::string& folder, const std::string& plan, std::size_t kernel,
                 const std::string& text) {
  Output file = Output::file(fmt::format("{}/{}.{}.cu", folder, plan, kernel));
  file.write(text);
  file.finish();
}

// Those of the first ways: of no other, if one does not compile.
void keep_sources(const DraftedPlan& plan, const std::string& folder) {
  for (std::size_t k = 0; k < plan.drafts.size(); ++k) {
    const std::optional<GeneratedKernel>& code = plan.drafts[k].code;
    if (code) keep_source(folder, plan.plan.key, k, code->source.text);
  }
}

// Those of the ways that were chosen.
void keep_sources(const PreparedPlan& plan, const std::string& folder) {
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const std::string* const text = plan.kernels[k].source;
    if (text != nullptr) keep_source(folder, plan.key, k, *text);
  }
}

// The memory for all drafts.
void allocate(GraphMemory& memory, const OpGraph& graph, std::span<const DraftedPlan> plans) {
  std::set<TensorId> needed;
  // One plan's results are kept while the other plan runs.
  std::uint64_t besides = 0;
  for (const TensorId id : results_of(graph)) besides += graph.tensors[id].bytes;
  for (const DraftedPlan& plan : plans) {
    for (const Draft& draft : plan.drafts) {
      if (!draft.code) continue;
      needed.insert(draft.code->storages.begin(), draft.code->storages.end());
      besides += draft.code->workspace_bytes;
    }
  }
  memory.allocate(needed, besides);
}

// The largest tensor that one kernel writes and another reads.
std::uint64_t largest_intermediate(const OpGraph& graph, const DraftedPlan& plan) {
  std::map<TensorId, const Draft*> writer;
  std::uint64_t largest = 0;
  for (const Draft& draft : plan.drafts) {
    for (const OpId id : *draft.ops) {
      for (const Operand& operand : graph.ops[id].operands) {
        if (operand.tensor == kNone) continue;
        const auto found = writer.find(graph.tensors[operand.tensor].value);
        if (found == writer.end() || found->second == &draft) continue;
        largest = std::max(largest, graph.tensors[found->first].bytes);
      }
      for (const TensorId output : graph.ops[id].outputs) writer[output] = &draft;
    }
  }
  return largest;
}

// The prepared plan without its launches.
PreparedPlan outline_of(const DraftedPlan& drafted) {
  PreparedPlan plan{.key = drafted.plan.key, .analytic = {}};
  plan.largest_intermediate = largest_intermediate(drafted.counter.graph(), drafted);
  for (std::size_t k = 0; k < drafted.drafts.size(); ++k) {
    const Draft& draft = drafted.drafts[k];
    PreparedKernel kernel{.name = drafted.plan.names[k],
                          .operations = draft.ops->size(),
                          .analytic = drafted.counter.bytes(*draft.ops),
                          .reason = draft.reason};
    plan.analytic.read += kernel.analytic.read;
    plan.analytic.write += kernel.analytic.write;
    plan.kernels.push_back(std::move(kernel));
  }
  return plan;
}

std::vector<PreparedPlan> prepared(Preparation& preparation, std::span<const DraftedPlan> drafts,
                                   const Progress& progress) {
  std::vector<PreparedPlan> plans;
  for (const DraftedPlan& plan : drafts) plans.push_back(outline_of(plan));
  for (std::size_t p = 0; p < drafts.size(); ++p) {
    for (std::size_t k = 0; k < drafts[p].drafts.size(); ++k) {
      const std::optional<GeneratedKernel>& code = drafts[p].drafts[k].code;
      if (code) preparation.add(*code, plans[p].kernels[k]);
    }
  }
  preparation.finish(progress);
  return plans;
}

// Chooses the fastest variant of each kernel.
void choose_variants(GpuBackend& gpu, GraphMemory& memory, std::span<PreparedPlan> plans,
                     const Progress& progress) {
  bool filled = false;
  for (PreparedPlan& plan : plans) {
    for (PreparedKernel& kernel : plan.kernels) {
      if (kernel.variants.empty()) continue;
      progress(fmt::format("{}, {}: finding the fastest of {} variants", plan.key, kernel.name,
                           kernel.variants.size()));
      if (!std::exchange(filled, true)) memory.fill_all();
      choose_variant(gpu, kernel);
    }
  }
}

}  // namespace

NamedPlan named_plan(const PlanAnalysis& plan) {
  NamedPlan named{.key = std::string(name_of(plan.kind)),
                  .graph = plan.recomputed ? &plan.recomputed->recomputation->graph : nullptr,
                  .kernels = plan.planned_kernels(),
                  .names = {}};
  for (const KernelAnalysis& kernel : plan.kernels) named.names.push_back(kernel.name);
  return named;
}

Measurement measure_graph(GpuBackend& gpu, TrafficCounter& counter, const NamedPlan& unfused,
                          const NamedPlan& fused, const MeasureOptions& options,
                          const std::optional<std::string>& sources, const Progress& progress) {
  const OpGraph& graph = counter.graph();
  Measurement result{.operations = graph.ops.size(),
                     .seed = options.seed,
                     .synthetic = false,
                     .gpu = gpu.description()};
  {
    progress("generating kernels");
    std::optional<TrafficCounter> own;
    if (fused.graph != nullptr) own.emplace(*fused.graph, counter.device());
    const std::vector<DraftedPlan> drafts = {
        drafted(counter, unfused, options.all_ways),
        drafted(own ? *own : counter, fused, options.all_ways)};
    if (sources) {
      for (const DraftedPlan& plan : drafts) keep_sources(plan, *sources);
    }
    GraphMemory memory(gpu, graph, options.seed);
    allocate(memory, graph, drafts);
    Preparation preparation(gpu, memory);
    std::vector<PreparedPlan> plans = prepared(preparation, drafts, progress);
    choose_variants(gpu, memory, plans, progress);
    if (sources) {
      for (const PreparedPlan& plan : plans) keep_sources(plan, *sources);
    }
    std::vector<PlanMeasurement> checked(2);
    check_plans(gpu, graph, memory, {plans[0], graph, unfused.kernels},
                {plans[1], own ? own->graph() : graph, fused.kernels}, checked, progress);
    std::vector<PlanMeasurement> measured = run_plans(gpu, plans, options, progress);
    for (std::size_t plan = 0; plan < 2; ++plan) {
      measured[plan].verified = std::move(checked[plan].verified);
      measured[plan].verified_reason = std::move(checked[plan].verified_reason);
    }
    result.unfused = std::move(measured[0]);
    result.fused = std::move(measured[1]);
  }
  result.interrupted = interrupted();
  if (result.interrupted) return result;
  progress("timing a device-to-device copy");
  result.copy_bytes_per_s = copy_ceiling(gpu);
  return result;
}

}  // namespace fusecalc
