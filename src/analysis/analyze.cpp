#include "analysis/analyze.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/reasons.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/threads.hpp"
#include "planner/plans.hpp"
#include "predict/limit.hpp"
#include "predict/plan_model.hpp"
#include "traffic/chain.hpp"

namespace fusecalc {
namespace {

void add_checked(std::uint64_t& total, const KernelAnalysis& kernel, const PlanAnalysis& plan,
                 const OpGraph& graph) {
  if (checked_add(total, kernel.traffic.bytes.total())) return;
  throw Error(
      Fault::kBadInput,
      fmt::format("{}: /ops/{}: up to here, the {} plan moves more than {} bytes", graph.document,
                  graph.ops[kernel.ops.front()].position, name_of(plan.kind), kMaxCount));
}

void add_kernel(PlanAnalysis& plan, KernelAnalysis kernel, const OpGraph& graph) {
  // The sum of both parts must fit, too.
  std::uint64_t total = plan.bytes.total();
  add_checked(total, kernel, plan, graph);
  plan.bytes.read += kernel.traffic.bytes.read;
  plan.bytes.write += kernel.traffic.bytes.write;
  if (!checked_add(plan.flops, kernel.traffic.flops)) plan.flops = kMaxCount;
  plan.kernels.push_back(std::move(kernel));
}

// In terms of the document's graph.
void rename_ops(KernelAnalysis& kernel, const Recomputation& recomputation) {
  const auto rename = [&](OpId& op) { op = recomputation.original[op]; };
  std::ranges::for_each(kernel.ops, rename);
  kernel.launch = in_document(kernel.launch, recomputation);
  if (!kernel.split) return;
  for (Kernel& part : kernel.split->kernels) std::ranges::for_each(part, rename);
}

// In canonical order, so that the time does not depend on how the document orders its ops.
Prediction predict_plan(const TrafficCounter& counter, const std::vector<Kernel>& kernels,
                        const std::vector<KernelAnalysis>& analyses,
                        const std::vector<KernelWork>& work) {
  const OpGraph& graph = counter.graph();
  const std::vector<KernelId> owner = owners_of(graph, kernels);
  std::vector<Kernel> ordered = kernels;
  [[maybe_unused]] const bool possible = sort_canonically(graph, ordered);
  assert(possible);
  PlanModel model(graph, counter.device(), kernels.size());
  for (const Kernel& kernel : ordered) {
    const KernelId k = owner[kernel.front()];
    model.add(analyses[k].traffic, work[k]);
  }
  return model.prediction();
}

PlanAnalysis analyze_kernels(TrafficCounter& counter, KernelModel& model, PlanKind kind,
                             const FusionPlan& plan, const OpGraph& document) {
  PlanAnalysis analysis{.kind = kind};
  const PlanRow& row = row_of(kind);
  std::vector<KernelWork> work;
  analysis.kernels.reserve(plan.kernels.size());
  for (const Kernel& ops : plan.kernels) {
    KernelAnalysis kernel;
    const CountedKernel& counted = model.count(ops);
    work.push_back(counted.work);
    kernel.traffic = counted.traffic;
    kernel.predicted = predict(counted.work, counter.device());
    if (row.launched) {
      kernel.launch = check_launch(counter.phases(), ops, runner_rules(counter.device()));
    }
    if (row.given) kernel.split = better_split(counter, ops);
    kernel.ops = ops;
    if (plan.recomputation) rename_ops(kernel, *plan.recomputation);
    add_kernel(analysis, std::move(kernel), document);
  }
  name_kernels(document, analysis.kernels);
  analysis.predicted = predict_plan(counter, plan.kernels, analysis.kernels, work);
  return analysis;
}

// Nothing where the graph has no such plan.
std::optional<PlanAnalysis> analyze_plan(PlanMaker& maker, PlanKind kind) {
  const FusionPlan* const plan = maker.plan(kind);
  if (plan == nullptr) return std::nullopt;
  TrafficCounter counter(plan->graph_or(maker.graph()), maker.device());
  KernelModel model(counter, plan->recomputation ? nullptr : &maker.lone_ops());
  PlanAnalysis analysis = analyze_kernels(counter, model, kind, *plan, maker.graph());
  if (plan->recomputation) analysis.recomputed = *plan;
  return analysis;
}

PlanAnalysis analyze_limit(const OpGraph& graph, const Device& device) {
  PlanAnalysis analysis{.kind = PlanKind::kLimit};
  KernelAnalysis kernel;
  for (OpId op = 0; op < graph.ops.size(); ++op) kernel.ops.push_back(op);
  kernel.traffic = count_limit(graph, device);
  if (graph.ops.empty()) return analysis;
  analysis.predicted = kernel.predicted = predict_limit(graph, kernel.traffic, device);
  add_kernel(analysis, std::move(kernel), graph);
  name_kernels(graph, analysis.kernels);
  return analysis;
}

// The models of kernels round in other ways than that of the limit, and leave out what a kernel
// hides: a bound is no longer than any plan that was found.
void keep_limit_below(std::vector<PlanAnalysis>& plans) {
  const auto limit = std::ranges::find(plans, PlanKind::kLimit, &PlanAnalysis::kind);
  double least = limit->predicted.time_us;
  for (const PlanAnalysis& plan : plans) least = std::min(least, plan.predicted.time_us);
  const auto lower = [&](Prediction& predicted) {
    predicted.time_us = least;
    predicted.time_range.low = std::min(predicted.time_range.low, least);
  };
  lower(limit->predicted);
  for (KernelAnalysis& kernel : limit->kernels) lower(kernel.predicted);
}

}  // namespace

Analysis analyze_chain(const SizeChain& chain, std::string name, const std::string& document) {
  const ChainTraffic traffic = count_bytes(chain, document);
  Analysis analysis;
  analysis.name = std::move(name);
  analysis.operations = chain.operations;
  analysis.dtype_bytes = chain.dtype_bytes;
  analysis.unfused = traffic.unfused;
  analysis.fused = traffic.fused;
  return analysis;
}

PlanKind headline_of(const OpGraph& graph, std::optional<PlanKind> plan) {
  const PlanKind headline = plan.value_or(graph.fuse ? PlanKind::kExplicit : PlanKind::kAuto);
  if (headline == PlanKind::kExplicit && !graph.fuse) {
    throw Error(Fault::kBadInput,
                graph.document + ": has no \"fuse\", so there is no explicit plan");
  }
  return headline;
}

Analysis analyze_graph(OpGraph graph, std::string name, const Device& device,
                       std::optional<PlanKind> plan) {
  const PlanKind headline = headline_of(graph, plan);
  Analysis analysis;
  analysis.name = std::move(name);
  analysis.plan = headline;
  analysis.operations = graph.ops.size();
  GraphAnalysis& details = analysis.graph.emplace();
  details.graph = std::move(graph);
  details.device = device;
  PlanMaker maker(details.graph, device);
  std::vector<std::future<std::optional<PlanAnalysis>>> plans;
  for (const PlanRow& row : plan_table()) {
    plans.push_back(started(details.graph.ops.size(), [&] {
      return row.is_bound() ? analyze_limit(details.graph, device) : analyze_plan(maker, row.kind);
    }));
  }
  for (auto& future : plans) {
    if (auto plan_made = future.get()) details.plans.push_back(std::move(*plan_made));
  }
  keep_limit_below(details.plans);
  analysis.unfused = details.plan(PlanKind::kUnfused).bytes;
  analysis.fused = details.plan(headline).bytes;
  return analysis;
}

}  // namespace fusecalc
