#include "analysis/boundaries.hpp"

#include <algorithm>
#include <future>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/reasons.hpp"
#include "core/threads.hpp"
#include "plan/paths.hpp"
#include "planner/plans.hpp"

namespace fusecalc {
namespace {

// The tensors that each kernel reads or writes; those in the same memory count once.
IdLists tensors_of(const OpGraph& graph, const PlanAnalysis& plan) {
  std::vector<IdLists::Pair> pairs;
  for (KernelId k = 0; k < plan.kernels.size(); ++k) {
    const KernelTraffic& traffic = plan.kernels[k].traffic;
    for (const auto* entries : {&traffic.reads, &traffic.writes}) {
      for (const KernelTraffic::Entry& entry : *entries) {
        pairs.emplace_back(k, graph.tensors[entry.tensor].storage);
      }
    }
  }
  return {plan.kernels.size(), pairs};
}

// The kernels that read each value, in the order in which they run.
IdLists readers_of_values(const OpGraph& graph, const std::vector<KernelId>& owner) {
  std::vector<IdLists::Pair> pairs;
  for (TensorId value = 0; value < graph.tensors.size(); ++value) {
    for (const OpId op : graph.readers[value]) pairs.emplace_back(value, owner[op]);
  }
  return {graph.tensors.size(), pairs};
}

std::vector<bool> plain_kernels(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::vector<bool> plain;
  for (const Kernel& kernel : kernels) {
    plain.push_back(std::ranges::all_of(kernel, [&](OpId op) {
      const Outline::OpFacts& facts = graph.outline[op];
      const bool fusible = facts.moves() || facts.op_class == OpClass::kReduce ||
                           facts.op_class == OpClass::kNormalise;
      return fusible && facts.has_kernel && graph.ops[op].row->family != OpFamily::kCustom;
    }));
  }
  return plain;
}

// A plan as all threads read it that find its boundaries.
struct PlannedKernels {
  PlannedKernels(const PlanAnalysis& of, const OpGraph& document, const Device& on)
      : plan(of),
        graph(of.graph_or(document)),
        device(on),
        rules(row_of(of.kind).rules(on)),
        kernels(of.planned_kernels()),
        owner(owners_of(graph, kernels)),
        tensors(tensors_of(graph, of)),
        readers(readers_of_values(graph, owner)),
        plain(plain_kernels(graph, kernels)) {}

  const PlanAnalysis& plan;
  const OpGraph& graph;
  const Device& device;
  Rules rules;
  std::vector<Kernel> kernels;
  std::vector<KernelId> owner;
  IdLists tensors;          // of each kernel: the memory that it reads or writes
  IdLists readers;          // of each value: the kernels that read it, as they run
  std::vector<bool> plain;  // of each kernel: no single op of it limits what it may be fused with
};

// Finds the boundaries of one plan, kernel by kernel: to the readers of each tensor that a kernel
// writes, and to later readers of each tensor that it reads: all of them where the tensor has few
// readers, else the next.
class BoundaryFinder {
 public:
  explicit BoundaryFinder(const PlannedKernels& planned)
      : planned_(planned),
        graph_(planned.graph),
        kernels_(planned.kernels),
        owner_(planned.owner),
        counter_(graph_, planned.device),
        paths_(graph_, kernels_, owner_),
        own_(kernels_.size()) {}

  // Of the kernels from `first` up to `end`.
  Boundaries find(KernelId first, KernelId end);

 private:
  // Two kernels that share a tensor.
  struct Pair {
    KernelId kernel = 0;
    KernelId with = 0;
    TensorId tensor = kNone;
    bool feeds = false;
  };

  void add_pairs_of(KernelId kernel);
  void fetch_pairs() const;
  OpId first_reader(KernelId kernel, TensorId value) const;
  void add(const Pair& pair);
  Boundary judge(KernelId a, KernelId b, TensorId tensor);
  void explain_obstacle(Boundary& boundary, KernelId a, KernelId b);
  bool name_pair(Boundary& boundary, KernelId a, KernelId b) const;
  void name_contractions(Boundary& boundary, KernelId a, KernelId b) const;
  void explain_circle(Boundary& boundary, KernelId a, KernelId b, TensorId tensor) const;
  Verdict obstacle_of_pair(KernelId a, KernelId b);
  std::vector<Kernel> pairs_of(KernelId a, KernelId b) const;
  const Verdict& own_obstacle(KernelId kernel);
  bool too_many_tensors(KernelId a, KernelId b) const;
  const KernelTraffic& traffic_of(KernelId kernel) const {
    return planned_.plan.kernels[kernel].traffic;
  }

  const PlannedKernels& planned_;
  const OpGraph& graph_;
  const std::vector<Kernel>& kernels_;
  const std::vector<KernelId>& owner_;
  TrafficCounter counter_;
  PathFinder paths_;
  Boundaries found_;
  std::vector<Pair> pairs_;  // of a few kernels
  // Of the kernel at hand: the first boundary with each other kernel.
  std::unordered_map<KernelId, std::size_t> judged_;
  Kernel both_;
  std::vector<std::optional<Verdict>> own_;  // of each kernel: its own obstacle, once asked for
};

Boundaries BoundaryFinder::find(KernelId first, KernelId end) {
  constexpr KernelId kTogether = 16;
  for (KernelId kernel = first; kernel < end;) {
    pairs_.clear();
    const KernelId next = std::min(end, kernel + kTogether);
    for (KernelId each = kernel; each < next; ++each) add_pairs_of(each);
    fetch_pairs();
    auto pair = pairs_.begin();
    for (; kernel < next; ++kernel) {
      found_.first.push_back(found_.all.size());
      judged_.clear();
      for (; pair != pairs_.end() && pair->kernel == kernel; ++pair) add(*pair);
    }
  }
  found_.first.push_back(found_.all.size());
  return std::move(found_);
}

void BoundaryFinder::add_pairs_of(KernelId kernel) {
  const KernelTraffic& traffic = traffic_of(kernel);
  for (const KernelTraffic::Entry& entry : traffic.writes) {
    for (const KernelId reader : planned_.readers[entry.tensor]) {
      if (reader != kernel) pairs_.push_back({kernel, reader, entry.tensor, true});
    }
  }
  for (const KernelTraffic::Entry& entry : traffic.reads) {
    // Pairs of many readers would be too many for anyone to read.
    constexpr std::size_t kFewReaders = 8;
    const std::span<const KernelId> readers = planned_.readers[entry.tensor];
    auto later = std::ranges::upper_bound(readers, kernel);
    const auto end =
        readers.size() <= kFewReaders || later == readers.end() ? readers.end() : later + 1;
    for (; later != end; ++later) pairs_.push_back({kernel, *later, entry.tensor, false});
  }
}

// The kernels of a large graph come from memory: for some pairs at a time, rather than one by one.
void BoundaryFinder::fetch_pairs() const {
  for (const Pair& pair : pairs_) __builtin_prefetch(kernels_.data() + pair.with);
  for (const Pair& pair : pairs_) __builtin_prefetch(kernels_[pair.with].data());
  const auto for_first_ops = [&](const auto& fetch) {
    constexpr std::size_t kFirst = 4;
    for (const Pair& pair : pairs_) {
      const Kernel& kernel = kernels_[pair.with];
      for (std::size_t i = 0; i < std::min(kFirst, kernel.size()); ++i) fetch(kernel[i]);
    }
  };
  for_first_ops([&](OpId op) { __builtin_prefetch(&graph_.outline[op]); });
  for_first_ops([&](OpId op) {
    __builtin_prefetch(graph_.outline.inputs_of(op).data());
    __builtin_prefetch(graph_.outline.results_of(op).data());
    __builtin_prefetch(graph_.before[op].data());
    __builtin_prefetch(graph_.after[op].data());
  });
}

// The first op of a kernel that reads the value: found among the kernel's ops or the value's
// readers, whichever are fewer.
OpId BoundaryFinder::first_reader(KernelId kernel, TensorId value) const {
  const std::span<const OpId> readers = graph_.readers[value];
  if (readers.size() <= kernels_[kernel].size()) {
    const auto first = std::ranges::find(readers, kernel, [&](OpId op) { return owner_[op]; });
    return first == readers.end() ? kNone : *first;
  }
  for (const OpId op : kernels_[kernel]) {
    const auto inputs = graph_.outline.inputs_of(op);
    if (std::ranges::find(inputs, value, &Outline::Input::value) != inputs.end()) return op;
  }
  return kNone;
}

void BoundaryFinder::add(const Pair& pair) {
  // The reason is the same for all tensors that two kernels share.
  const auto [known, added] = judged_.emplace(pair.with, found_.all.size());
  Boundary boundary =
      added ? judge(pair.kernel, pair.with, pair.tensor) : found_.all[known->second];
  boundary.tensor = pair.tensor;
  boundary.feeds = pair.feeds;
  found_.all.push_back(boundary);
}

// Whether check_kernel() would find too many tensors, where that follows from those of the two
// kernels: one that only one of them reads or writes is one of both together, too.
bool BoundaryFinder::too_many_tensors(KernelId a, KernelId b) const {
  const std::span<const TensorId> of_a = planned_.tensors[a];
  const std::span<const TensorId> of_b = planned_.tensors[b];
  if (of_a.size() + of_b.size() <= kMostTensors) return false;
  if (!planned_.plain[a] || !planned_.plain[b]) return false;
  if (kernels_[a].size() + kernels_[b].size() > kMostOps) return false;
  std::size_t alone = 0;
  std::size_t i = 0;
  for (const TensorId tensor : of_b) {
    for (; i < of_a.size() && of_a[i] < tensor; ++i) ++alone;
    if (i < of_a.size() && of_a[i] == tensor) {
      ++i;
    } else {
      ++alone;
    }
  }
  return alone + (of_a.size() - i) > kMostTensors;
}

Boundary BoundaryFinder::judge(KernelId a, KernelId b, TensorId tensor) {
  Boundary boundary{.with = b, .verdict = {}};
  // Kernels of a random graph have many boundaries with other large ones: checking all of their ops
  // for each takes longer than planning.
  if (too_many_tensors(a, b)) {
    boundary.verdict = {Obstacle::kTooManyTensors};
    return boundary;
  }
  both_.clear();
  std::ranges::merge(kernels_[a], kernels_[b], std::back_inserter(both_));
  boundary.verdict = check_kernel(counter_.phases(), both_, planned_.rules);
  const bool legal = boundary.verdict.legal();
  // What keeps bystanders out of a contraction's kernel says less than a third kernel in between,
  // and so does what lies in one of the kernels alone.
  const bool first = legal || bystands(boundary.verdict.obstacle) || !own_obstacle(a).legal() ||
                     !own_obstacle(b).legal();
  if (first && paths_.has_indirect_path(a, b)) {
    explain_circle(boundary, a, b, tensor);
    return boundary;
  }
  if (!legal) {
    explain_obstacle(boundary, a, b);
    return boundary;
  }
  const auto apart =
      static_cast<std::int64_t>(traffic_of(a).bytes.total() + traffic_of(b).bytes.total());
  boundary.bytes_saved = apart - static_cast<std::int64_t>(counter_.bytes(both_).total());
  return boundary;
}

void BoundaryFinder::explain_circle(Boundary& boundary, KernelId a, KernelId b,
                                    TensorId tensor) const {
  const auto user = [&](KernelId kernel) {
    const OpId maker = graph_.value_of(tensor).producer;
    if (maker != kNone && owner_[maker] == kernel) return maker;
    const OpId reader = first_reader(kernel, graph_.tensors[tensor].value);
    return reader == kNone ? kernels_[kernel].front() : reader;
  };
  boundary.here = user(a);
  boundary.there = user(b);
  boundary.verdict = {Obstacle::kCycle, boundary.here, boundary.there};
}

// The verdict on all ops of both may name ops of one kernel only: then two others tell more, or it
// is about all of them.
void BoundaryFinder::explain_obstacle(Boundary& boundary, KernelId a, KernelId b) {
  const Verdict& own = own_obstacle(a).legal() ? own_obstacle(b) : own_obstacle(a);
  if (own.legal()) {
    if (boundary.verdict.second == kNone || name_pair(boundary, a, b)) return;
    if (boundary.verdict.obstacle == Obstacle::kSideContraction) {
      name_contractions(boundary, a, b);
      if (boundary.here != kNone) return;
    }
  }
  const Verdict pair = obstacle_of_pair(a, b);
  if (!pair.legal()) {
    boundary.verdict = pair;
    name_pair(boundary, a, b);
  } else if (own.legal()) {
    boundary.in = ObstacleIn::kUnion;
  } else {
    boundary.in = ObstacleIn::kEither;
    boundary.verdict = own;
  }
}

bool BoundaryFinder::name_pair(Boundary& boundary, KernelId a, KernelId b) const {
  const Verdict& of = boundary.verdict;
  for (const auto& [one, other] : {std::pair{of.first, of.second}, std::pair{of.second, of.third},
                                   std::pair{of.first, of.third}}) {
    if (one == kNone || other == kNone) continue;
    const bool in_order = owner_[one] == a && owner_[other] == b;
    if (!in_order && !(owner_[one] == b && owner_[other] == a)) continue;
    boundary.here = in_order ? one : other;
    boundary.there = in_order ? other : one;
    return true;
  }
  return false;
}

// Of more than two side by side, any two are.
void BoundaryFinder::name_contractions(Boundary& boundary, KernelId a, KernelId b) const {
  const auto contraction = [&](KernelId kernel) {
    const auto found = std::ranges::find_if(
        kernels_[kernel], [&](OpId op) { return graph_.outline[op].contracts(); });
    return found == kernels_[kernel].end() ? kNone : *found;
  };
  const OpId here = contraction(a);
  const OpId there = contraction(b);
  if (here == kNone || there == kNone) return;
  boundary.verdict = {Obstacle::kSideContraction, here, there};
  name_pair(boundary, a, b);
}

// What keeps an op of one kernel and an op of the other apart that share a tensor.
Verdict BoundaryFinder::obstacle_of_pair(KernelId a, KernelId b) {
  for (const Kernel& pair : pairs_of(a, b)) {
    const Verdict verdict = check_kernel(counter_.phases(), pair, planned_.rules);
    if (verdict.second != kNone) return verdict;
  }
  return {};
}

// First those of which one makes what the other one reads.
std::vector<Kernel> BoundaryFinder::pairs_of(KernelId a, KernelId b) const {
  constexpr std::size_t kMostPairs = 64;
  std::vector<Kernel> pairs;
  std::vector<Kernel> readers;
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    for (const OpId reader : kernels_[to]) {
      for (const Outline::Input& input : graph_.outline.inputs_of(reader)) {
        const bool made = input.producer != kNone && owner_[input.producer] == from;
        const OpId other = made ? input.producer : first_reader(from, input.value);
        if (other == kNone || pairs.size() + readers.size() == kMostPairs) continue;
        (made ? pairs : readers).push_back({std::min(other, reader), std::max(other, reader)});
      }
    }
  }
  pairs.insert(pairs.end(), readers.begin(), readers.end());
  return pairs;
}

// Only groups of an explicit plan have one.
const Verdict& BoundaryFinder::own_obstacle(KernelId kernel) {
  std::optional<Verdict>& own = own_[kernel];
  if (own) return *own;
  own.emplace();
  if (planned_.plan.kind == PlanKind::kExplicit) {
    own = check_kernel(counter_.phases(), kernels_[kernel], planned_.rules);
  }
  return *own;
}

// Each thread takes a part of the kernels.
Boundaries boundaries_of(const PlanAnalysis& plan, const OpGraph& document, const Device& device) {
  const PlannedKernels planned(plan, document, device);
  const std::size_t kernels = planned.kernels.size();
  const std::size_t threads = threads_for(planned.graph.ops.size());
  std::vector<std::future<Boundaries>> parts;
  for (std::size_t i = 0; i < threads; ++i) {
    const auto first = static_cast<KernelId>(kernels * i / threads);
    const auto end = static_cast<KernelId>(kernels * (i + 1) / threads);
    parts.push_back(started(planned.graph.ops.size(), [&planned, first, end] {
      return BoundaryFinder(planned).find(first, end);
    }));
  }
  Boundaries found = parts.front().get();
  for (std::size_t i = 1; i < threads; ++i) {
    const Boundaries part = parts[i].get();
    found.first.pop_back();
    for (const std::size_t first : part.first) found.first.push_back(found.all.size() + first);
    found.all.insert(found.all.end(), part.all.begin(), part.all.end());
  }
  if (!plan.recomputed) return found;
  for (Boundary& boundary : found.all) {
    name_in_document(boundary, *plan.recomputed->recomputation);
  }
  return found;
}

}  // namespace

void find_boundaries(Analysis& analysis, BoundaryScope scope) {
  if (!analysis.graph || scope == BoundaryScope::kNoPlan) return;
  GraphAnalysis& details = *analysis.graph;
  std::vector<std::future<void>> plans;
  for (PlanAnalysis& plan : details.plans) {
    if (plan.boundaries) continue;
    if (scope == BoundaryScope::kHeadline && plan.kind != analysis.plan) continue;
    if (row_of(plan.kind).is_bound()) {
      // Not a partition: no two kernels of it are apart.
      plan.boundaries = Boundaries{.all = {}, .first = {0, 0}};
      continue;
    }
    plans.push_back(started(details.graph.ops.size(), [&details, &plan] {
      plan.boundaries = boundaries_of(plan, details.graph, details.device);
    }));
  }
  for (std::future<void>& plan : plans) plan.get();
}

}  // namespace fusecalc
