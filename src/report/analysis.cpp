#include "report/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "core/text.hpp"
#include "plan/paths.hpp"
#include "traffic/chain.hpp"

namespace fusecalc {
namespace {

void add_checked(std::uint64_t& total, std::uint64_t value, const PlanReport& plan,
                 const OpGraph& graph) {
  if (checked_add(total, value)) return;
  throw Error(Fault::kBadInput, fmt::format("{}: the {} plan moves more than {} bytes",
                                            graph.document, name_of(plan.kind), kMaxCount));
}

void add_kernel(PlanReport& plan, KernelReport kernel, const OpGraph& graph) {
  // The sum of both parts must fit, too.
  std::uint64_t total = plan.bytes.total();
  add_checked(total, kernel.traffic.bytes.total(), plan, graph);
  plan.bytes.read += kernel.traffic.bytes.read;
  plan.bytes.write += kernel.traffic.bytes.write;
  if (!checked_add(plan.flops, kernel.traffic.flops)) plan.flops = kMaxCount;
  plan.kernels.push_back(std::move(kernel));
}

// Finds the kernels of a plan that share tensors, and why each two are not one.
class BoundaryFinder {
 public:
  BoundaryFinder(TrafficCounter& counter, PlanReport& plan)
      : counter_(counter),
        graph_(counter.graph()),
        plan_(plan),
        rules_(plan.kind == PlanKind::kCompiler ? compiler_rules(counter.device())
                                                : runner_rules(counter.device())) {
    for (const KernelReport& kernel : plan.kernels) kernels_.push_back(kernel.ops);
    owner_ = owners_of(graph_, kernels_);
  }

  void run() {
    for (KernelId k = 0; k < kernels_.size(); ++k) {
      for (const KernelTraffic::Entry& entry : plan_.kernels[k].traffic.writes) {
        for (const KernelId reader : readers_of(entry.tensor)) {
          if (reader != k) add(k, reader, entry.tensor);
        }
      }
      for (const KernelTraffic::Entry& entry : plan_.kernels[k].traffic.reads) {
        if (graph_.tensors[entry.tensor].producer != kNone) continue;
        const KernelId next = next_reader(entry.tensor, k);
        if (next != kNone) add(k, next, entry.tensor);
      }
    }
  }

 private:
  std::vector<KernelId> readers_of(TensorId value) const {
    std::vector<KernelId> readers;
    for (const OpId op : graph_.tensors[value].readers) readers.push_back(owner_[op]);
    std::ranges::sort(readers);
    const auto [first, last] = std::ranges::unique(readers);
    readers.erase(first, last);
    return readers;
  }

  // Readers of a graph input are compared each with the next one only.
  KernelId next_reader(TensorId value, KernelId k) const {
    const std::vector<OpId>& readers = graph_.tensors[value].readers;
    auto place = std::ranges::upper_bound(readers, kernels_[k].back());
    return place == readers.end() ? kNone : owner_[*place];
  }

  void add(KernelId a, KernelId b, TensorId tensor) {
    Boundary boundary{.with = b, .tensor = tensor, .verdict = {}};
    Kernel both;
    std::ranges::merge(kernels_[a], kernels_[b], std::back_inserter(both));
    boundary.verdict = check_kernel(counter_.phases(), both, rules_);
    if (boundary.verdict.legal() && paths_.way_around(a, b)) {
      boundary.verdict = {Obstacle::kCycle, kernels_[a].front(), kernels_[b].front()};
    }
    if (boundary.verdict.legal()) {
      const std::uint64_t apart =
          plan_.kernels[a].traffic.bytes.total() + plan_.kernels[b].traffic.bytes.total();
      boundary.bytes_saved = static_cast<std::int64_t>(apart) -
                             static_cast<std::int64_t>(counter_.bytes(both).total());
    }
    plan_.kernels[a].boundaries.push_back(std::move(boundary));
  }

  TrafficCounter& counter_;
  const OpGraph& graph_;
  PlanReport& plan_;
  Rules rules_;
  std::vector<Kernel> kernels_;
  std::vector<KernelId> owner_;
  PathFinder paths_{graph_, kernels_, owner_};
};

PlanReport report_partition(TrafficCounter& counter, PlanKind kind) {
  PlanReport report{.kind = kind};
  const Rules rules = runner_rules(counter.device());
  const bool doubtful = kind == PlanKind::kExplicit;
  for (Kernel& ops : make_plan(counter, kind).kernels) {
    KernelReport kernel;
    kernel.traffic = counter.count(ops);
    if (doubtful) {
      kernel.launch = check_kernel(counter.phases(), ops, rules);
      kernel.split = better_split(counter, ops);
    }
    kernel.ops = std::move(ops);
    add_kernel(report, std::move(kernel), counter.graph());
  }
  BoundaryFinder(counter, report).run();
  return report;
}

PlanReport report_limit(const OpGraph& graph, const Device& device) {
  PlanReport report{.kind = PlanKind::kLimit};
  KernelReport kernel;
  for (OpId op = 0; op < graph.ops.size(); ++op) kernel.ops.push_back(op);
  kernel.traffic = count_limit(graph, device);
  if (!graph.ops.empty()) add_kernel(report, std::move(kernel), graph);
  return report;
}

}  // namespace

const PlanReport& GraphAnalysis::plan(PlanKind kind) const {
  const auto found = std::ranges::find(plans, kind, &PlanReport::kind);
  assert(found != plans.end());
  return *found;
}

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

Analysis analyze_graph(OpGraph graph, std::string name, const Device& device,
                       std::optional<PlanKind> plan) {
  const PlanKind headline = plan.value_or(graph.fuse ? PlanKind::kExplicit : PlanKind::kAuto);
  if (headline == PlanKind::kExplicit && !graph.fuse) {
    throw Error(Fault::kBadInput,
                graph.document + ": has no \"fuse\", so there is no explicit plan");
  }
  Analysis analysis;
  analysis.name = std::move(name);
  analysis.plan = headline;
  analysis.operations = graph.ops.size();
  GraphAnalysis& details = analysis.graph.emplace();
  details.graph = std::move(graph);
  TrafficCounter counter(details.graph, device);
  for (const PlanKind kind : {PlanKind::kUnfused, PlanKind::kCompiler, PlanKind::kAuto}) {
    details.plans.push_back(report_partition(counter, kind));
  }
  if (details.graph.fuse) details.plans.push_back(report_partition(counter, PlanKind::kExplicit));
  details.plans.push_back(report_limit(details.graph, device));
  analysis.unfused = details.plan(PlanKind::kUnfused).bytes;
  analysis.fused = details.plan(headline).bytes;
  return analysis;
}

std::string reason_of(const GraphAnalysis& analysis, const Boundary& boundary) {
  if (!boundary.verdict.legal()) return explain(analysis.graph, boundary.verdict);
  const std::int64_t saved = boundary.bytes_saved;
  if (saved > 0) {
    return "could be fused, saving " + human_bytes(static_cast<std::uint64_t>(saved));
  }
  if (saved == 0) return "could be fused, saving nothing";
  return "fusing them would move " + human_bytes(static_cast<std::uint64_t>(-saved)) +
         " more: rows that do not fit on chip would be read again";
}

std::string boundary_in_words(const GraphAnalysis& analysis, const Boundary& boundary) {
  const Verdict& verdict = boundary.verdict;
  if (verdict.first == kNone || verdict.second == kNone) return reason_of(analysis, boundary);
  return fmt::format("{} -> {}: {}", analysis.graph.ops[verdict.first].row->name,
                     analysis.graph.ops[verdict.second].row->name, reason_of(analysis, boundary));
}

std::string kernel_name(const OpGraph& graph, const Kernel& kernel) {
  constexpr std::size_t kShown = 3;
  std::string name;
  for (std::size_t i = 0; i < kernel.size() && i < kShown; ++i) {
    if (i > 0) name += '+';
    name += graph.ops[kernel[i]].name;
  }
  if (kernel.size() > kShown) name += fmt::format("+{} more", kernel.size() - kShown);
  return name;
}

}  // namespace fusecalc
