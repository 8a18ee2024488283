#include "report/boundaries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/format.hpp"

namespace fusecalc {

BoundaryFinder::BoundaryFinder(const GraphAnalysis& analysis, const PlanReport& plan)
    : graph_(analysis.graph),
      plan_(plan),
      counter_(analysis.graph, analysis.device),
      rules_(plan.kind == PlanKind::kCompiler ? compiler_rules(analysis.device)
                                              : runner_rules(analysis.device)) {
  // The limit is no partition: nothing of it lies apart.
  if (plan.kind == PlanKind::kLimit) return;
  for (const KernelReport& kernel : plan.kernels) kernels_.push_back(kernel.ops);
  owner_ = owners_of(graph_, kernels_);
  paths_.emplace(graph_, kernels_, owner_);
}

const std::vector<Boundary>& BoundaryFinder::of(KernelId kernel) {
  found_.clear();
  if (!paths_) return found_;
  const KernelTraffic& traffic = plan_.kernels[kernel].traffic;
  for (const KernelTraffic::Entry& entry : traffic.writes) {
    for (const KernelId reader : readers_of(entry.tensor)) {
      if (reader != kernel) add(kernel, reader, entry.tensor);
    }
  }
  for (const KernelTraffic::Entry& entry : traffic.reads) {
    const KernelId next = next_reader(kernel, entry.tensor);
    if (next != kNone) add(kernel, next, entry.tensor);
  }
  return found_;
}

const std::vector<KernelId>& BoundaryFinder::readers_of(TensorId value) {
  readers_.clear();
  for (const OpId op : graph_.readers[value]) readers_.push_back(owner_[op]);
  std::ranges::sort(readers_);
  readers_.erase(std::unique(readers_.begin(), readers_.end()), readers_.end());
  return readers_;
}

// The first op of a kernel that reads the value.
OpId BoundaryFinder::first_reader(KernelId kernel, TensorId value) const {
  for (const OpId op : kernels_[kernel]) {
    const auto inputs = graph_.outline.inputs_of(op);
    if (std::ranges::find(inputs, value, &Outline::Input::value) != inputs.end()) return op;
  }
  return kNone;
}

// Of the kernels that read the value, in the order of their first ops that do: the one after this.
KernelId BoundaryFinder::next_reader(KernelId kernel, TensorId value) const {
  const std::span<const OpId> readers = graph_.readers[value];
  auto reader = std::upper_bound(readers.begin(), readers.end(), first_reader(kernel, value));
  for (; reader != readers.end(); ++reader) {
    const KernelId next = owner_[*reader];
    if (next != kernel && first_reader(next, value) == *reader) return next;
  }
  return kNone;
}

void BoundaryFinder::add(KernelId a, KernelId b, TensorId tensor) {
  // Two kernels that share several tensors are apart for one reason.
  const auto known = std::ranges::find(found_, b, &Boundary::with);
  Boundary boundary = known == found_.end() ? judge(a, b) : *known;
  boundary.tensor = tensor;
  found_.push_back(boundary);
}

Boundary BoundaryFinder::judge(KernelId a, KernelId b) {
  Boundary boundary{.with = b, .verdict = {}};
  both_.clear();
  std::ranges::merge(kernels_[a], kernels_[b], std::back_inserter(both_));
  boundary.verdict = check_kernel(counter_.phases(), both_, rules_);
  if (!boundary.verdict.legal()) return boundary;
  if (paths_->way_around(a, b)) {
    boundary.verdict = {Obstacle::kCycle, kernels_[a].front(), kernels_[b].front()};
    return boundary;
  }
  const auto apart = static_cast<std::int64_t>(plan_.kernels[a].traffic.bytes.total() +
                                               plan_.kernels[b].traffic.bytes.total());
  boundary.bytes_saved = apart - static_cast<std::int64_t>(counter_.bytes(both_).total());
  return boundary;
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

}  // namespace fusecalc
