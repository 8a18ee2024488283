// Plans in which ops stand in several kernels: cheap ops are computed again where their results are
// needed, instead of being stored by one kernel and loaded by the others.

#include "planner/recompute.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/ceil_div.hpp"
#include "planner/plans.hpp"
#include "planner/region.hpp"
#include "planner/search.hpp"
#include "planner/sharing.hpp"

namespace fusecalc {
namespace {

// The largest graph of which a plan that recomputes is searched for a better one.
constexpr std::size_t kMostRefinedOps = 25'000;

// A value that a recomputed op would read from memory, and how much of it.
struct Leaf {
  TensorId value = kNone;
  std::uint64_t bytes = 0;
  bool unstored = false;  // its maker would have to write it first
};

// What one kernel stores for others, and the ops that these would compute again instead.
struct Proposal {
  TensorId result = kNone;
  KernelId maker = 0;
  std::vector<KernelId> readers;  // those that would
  std::vector<OpId> ops;
  std::vector<Leaf> leaves;
  std::uint64_t saved = 0;  // bytes

  // Whether the readers can compute it from what is in memory already.
  bool complete() const { return std::ranges::none_of(leaves, &Leaf::unstored); }
};

// What becomes of a kernel, as far as the rules ask.
struct Changed {
  Kernel ops;
  std::vector<std::optional<bool>> needed;  // outside of it, of each result of its ops

  bool operator==(const Changed&) const = default;
};

// What a kernel reads.
struct Read {
  TensorId tensor = kNone;
  std::uint64_t bytes = 0;
};

class Search {
 public:
  Search(TrafficCounter& counter, const FusionPlan& plan, const Rules& rules)
      : counter_(counter),
        rules_(rules),
        graph_(counter.graph()),
        kernels_(canonical(graph_, plan.kernels)),
        owner_(owners_of(graph_, kernels_)) {}

  // Nothing where no op is better recomputed.
  std::optional<FusionPlan> run() {
    propose_all();
    choose();
    while (!chosen_.empty()) {
      // A graph that has the copies takes long to make.
      if (drop(refused_without_copies())) continue;
      FusionPlan plan = shared_plan(graph_, groups_of_chosen());
      TrafficCounter counter(plan.graph_or(graph_), counter_.device());
      const bool legal = !drop(refused_kernels([&](KernelId kernel) {
        return may_become(counter.phases(), kernel, plan.kernels[kernel]);
      }));
      if (legal) return finished(counter, std::move(plan));
    }
    return std::nullopt;
  }

 private:
  void propose_all() {
    std::vector<std::vector<TensorId>> stored;
    for (const Kernel& kernel : kernels_) {
      const KernelTraffic& traffic = counter_.count(kernel);
      bytes_ += traffic.bytes.total();
      std::vector<Read>& reads = reads_.emplace_back();
      for (const KernelTraffic::Entry& entry : traffic.reads) {
        reads.push_back({entry.tensor, entry.bytes});
      }
      std::ranges::sort(reads, {}, &Read::tensor);
      std::vector<TensorId>& written = stored.emplace_back();
      for (const KernelTraffic::Entry& entry : traffic.writes) written.push_back(entry.tensor);
      std::ranges::sort(written);
    }
    for (KernelId maker = 0; maker < kernels_.size(); ++maker) {
      for (const TensorId value : stored[maker]) propose(maker, value, stored[maker]);
    }
    rank_proposals();
  }

  // The most saved first, then in canonical order.
  void rank_proposals() {
    std::ranges::sort(proposals_, {}, [&](const Proposal& proposal) {
      return std::pair(~proposal.saved, graph_.rank[graph_.tensors[proposal.result].producer]);
    });
  }

  void propose(KernelId maker, TensorId value, const std::vector<TensorId>& stored) {
    const Tensor& tensor = graph_.tensors[value];
    if (tensor.producer == kNone || !may_recompute(graph_, tensor.producer)) return;
    Proposal proposal{.result = value, .maker = maker, .readers = {}, .ops = {}, .leaves = {}};
    for (const OpId reader : graph_.readers[value]) {
      if (owner_[reader] != maker) proposal.readers.push_back(owner_[reader]);
    }
    std::ranges::sort(proposal.readers);
    proposal.readers.erase(std::unique(proposal.readers.begin(), proposal.readers.end()),
                           proposal.readers.end());
    if (proposal.readers.empty() || !gather(proposal, tensor.producer, stored)) return;
    // By all of them: nobody has to store it.
    std::uint64_t saved = tensor.output ? 0 : tensor.bytes + reads_spared(proposal);
    std::uint64_t added = 0;
    for (const Leaf& leaf : proposal.leaves) {
      if (leaf.unstored) added += leaf.bytes;
    }
    for (const KernelId reader : proposal.readers) {
      saved += read_by(reader, value);
      added += added_reads(proposal, reader);
    }
    if (saved <= added) {
      limit_to_some(proposal);
    } else {
      proposal.saved = saved - added;
    }
    if (proposal.saved > 0) proposals_.push_back(std::move(proposal));
  }

  // Bytes that the maker reads for what nobody needs from it any more.
  std::uint64_t reads_spared(const Proposal& proposal) const {
    Kernel ops = proposal.ops;
    std::ranges::sort(ops, std::greater<>());  // readers come before what they read
    Kernel idle;
    const auto is_idle = [&](OpId op) { return std::ranges::find(idle, op) != idle.end(); };
    // Whether the maker computes it only for idle ops.
    const auto only_for_idle = [&](TensorId value) {
      constexpr std::size_t kFewReaders = 32;
      const std::span<const OpId> readers = graph_.readers[value];
      return readers.size() <= kFewReaders && std::ranges::all_of(readers, [&](OpId reader) {
               return is_idle(reader) || (owner_[reader] != proposal.maker);
             });
    };
    const auto is_needed = [&](const Outline::Result& result) {
      if (result.always_needed || !only_for_idle(result.tensor)) return true;
      return result.tensor != proposal.result &&
             std::ranges::any_of(graph_.readers[result.tensor],
                                 [&](OpId reader) { return owner_[reader] != proposal.maker; });
    };
    for (const OpId op : ops) {
      if (std::ranges::none_of(graph_.outline.results_of(op), is_needed)) idle.push_back(op);
    }
    std::uint64_t bytes = 0;
    for (const Leaf& leaf : proposal.leaves) {
      if (only_for_idle(leaf.value)) bytes += read_by(proposal.maker, leaf.value);
    }
    return bytes;
  }

  // Computed again by some of its readers, while the others load it: by those for which that saves
  // bytes.
  void limit_to_some(Proposal& proposal) const {
    proposal.saved = 0;
    if (!proposal.complete()) return;
    std::erase_if(proposal.readers, [&](KernelId reader) {
      return read_by(reader, proposal.result) <= added_reads(proposal, reader);
    });
    for (const KernelId reader : proposal.readers) {
      proposal.saved += read_by(reader, proposal.result) - added_reads(proposal, reader);
    }
  }

  // The op and those of its kernel that it needs, back to what is in memory. Returns false where
  // they are too many to be cheap.
  bool gather(Proposal& proposal, OpId op, const std::vector<TensorId>& stored) const {
    constexpr std::size_t kMostRecomputed = 16;
    if (std::ranges::find(proposal.ops, op) != proposal.ops.end()) return true;
    if (proposal.ops.size() == kMostRecomputed) return false;
    proposal.ops.push_back(op);
    for (const Outline::Input& input : graph_.outline.inputs_of(op)) {
      const bool inside = input.producer != kNone && owner_[input.producer] == proposal.maker;
      const bool unstored = inside && !std::ranges::binary_search(stored, input.value);
      if (unstored && may_recompute(graph_, input.producer)) {
        if (!gather(proposal, input.producer, stored)) return false;
        continue;
      }
      const std::uint64_t bytes = std::min(input.bytes, bytes_of(input.dtype, input.touched));
      const auto known = std::ranges::find(proposal.leaves, input.value, &Leaf::value);
      if (known == proposal.leaves.end()) {
        proposal.leaves.push_back({input.value, bytes, unstored});
      } else {
        known->bytes = std::max(known->bytes, bytes);
      }
    }
    return true;
  }

  // Bytes; 0 where the kernel does not read the value.
  std::uint64_t read_by(KernelId kernel, TensorId value) const {
    const std::vector<Read>& reads = reads_[kernel];
    const auto found = std::ranges::lower_bound(reads, value, {}, &Read::tensor);
    return found == reads.end() || found->tensor != value ? 0 : found->bytes;
  }

  bool reads(KernelId kernel, TensorId value) const {
    return std::ranges::binary_search(reads_[kernel], value, {}, &Read::tensor);
  }

  // Bytes of the leaves that the kernel neither makes nor reads yet. Where it reads a part of the
  // result, it reads as many elements of each, or fewer.
  std::uint64_t added_reads(const Proposal& proposal, KernelId reader) const {
    const std::uint64_t pair = bytes_of(graph_.tensors[proposal.result].type.dtype, 2);
    const std::uint64_t elements = ceil_div(read_by(reader, proposal.result), pair) * 2;
    std::uint64_t bytes = 0;
    for (const Leaf& leaf : proposal.leaves) {
      const OpId producer = graph_.tensors[leaf.value].producer;
      const bool makes = producer != kNone && owner_[producer] == reader;
      if (makes || reads(reader, leaf.value)) continue;
      bytes += std::min(leaf.bytes, bytes_of(graph_.tensors[leaf.value].type.dtype, elements));
    }
    return bytes;
  }

  // In order; none that reads what another one leaves out.
  void choose() {
    chosen_.clear();
    std::set<TensorId> kept;
    std::set<TensorId> left_out;
    for (const Proposal& proposal : proposals_) {
      const bool conflicts = kept.contains(proposal.result) ||
                             std::ranges::any_of(proposal.leaves, [&](const Leaf& leaf) {
                               return left_out.contains(leaf.value);
                             });
      if (conflicts) continue;
      for (const Leaf& leaf : proposal.leaves) kept.insert(leaf.value);
      left_out.insert(proposal.result);
      chosen_.push_back(proposal);
    }
  }

  std::vector<Kernel> groups_of_chosen() const {
    std::vector<Kernel> groups = kernels_;
    for (const Proposal& proposal : chosen_) {
      for (const KernelId reader : proposal.readers) {
        Kernel& group = groups[reader];
        group.insert(group.end(), proposal.ops.begin(), proposal.ops.end());
      }
    }
    for (Kernel& group : groups) {
      std::ranges::sort(group);
      group.erase(std::unique(group.begin(), group.end()), group.end());
    }
    return groups;
  }

  // Whether the rules allow what an old kernel becomes.
  bool may_become(PhaseFinder& phases, KernelId kernel, const Kernel& ops) const {
    if (ops.empty()) return true;
    return ops.size() > 1 ? check_kernel(phases, ops, rules_).legal()
                          : !rules_.launchable || kernels_[kernel].size() == 1 ||
                                check_launch(phases, ops, rules_).legal();
  }

  // Those of the old kernels that become what the rules do not allow.
  template <typename IsLegal>
  std::set<KernelId> refused_kernels(const IsLegal& is_legal) const {
    std::set<KernelId> changed;
    for (const Proposal& proposal : chosen_) {
      changed.insert(proposal.maker);
      changed.insert(proposal.readers.begin(), proposal.readers.end());
    }
    std::erase_if(changed, is_legal);
    return changed;
  }

  // The same: a kernel with copies reads and makes what it would with the ops themselves, and only
  // who needs its results differs. Most are as they were when others were refused.
  std::set<KernelId> refused_without_copies() {
    const std::vector<Kernel> groups = groups_of_chosen();
    const Sharing sharing(graph_, groups);
    PhaseFinder& phases = counter_.phases();
    const std::set<KernelId> refused = refused_kernels([&](KernelId kernel) {
      const auto needed = [&sharing, kernel](const Outline::Result& result) {
        return sharing.needed_outside(kernel, result);
      };
      Changed changed{.ops = sharing.computed_in(kernel, groups[kernel]), .needed = {}};
      for (const OpId op : changed.ops) {
        std::ranges::transform(graph_.outline.results_of(op), std::back_inserter(changed.needed),
                               needed);
      }
      Changed& legal = legal_[kernel];
      if (changed == legal) return true;
      phases.set_needed(needed);
      if (!may_become(phases, kernel, changed.ops)) return false;
      legal = std::move(changed);
      return true;
    });
    phases.set_needed(nullptr);
    return refused;
  }

  // Changes what makes of a kernel what the rules do not allow, and chooses again: what conflicted
  // with it may do. Returns whether there is such a kernel.
  bool drop(const std::set<KernelId>& refused) {
    if (refused.empty()) return false;
    std::map<KernelId, std::vector<const Proposal*>> changes;  // of refused kernels, in order
    const auto add = [&](KernelId kernel, const Proposal& proposal) {
      if (refused.contains(kernel)) changes[kernel].push_back(&proposal);
    };
    for (const Proposal& proposal : chosen_) {
      add(proposal.maker, proposal);
      for (const KernelId reader : proposal.readers) add(reader, proposal);
    }
    std::map<TensorId, std::set<KernelId>> dropped;  // of results: the kernels to leave as they are
    for (const auto& [kernel, proposals] : changes) {
      for (const TensorId result : blamed_for(kernel, proposals)) dropped[result].insert(kernel);
    }
    for (Proposal& proposal : proposals_) {
      const auto of_this = dropped.find(proposal.result);
      if (of_this == dropped.end()) continue;
      const std::set<KernelId>& without = of_this->second;
      std::erase_if(proposal.readers, [&](KernelId reader) { return without.contains(reader); });
      if (without.contains(proposal.maker)) proposal.readers.clear();
      limit_to_some(proposal);
    }
    std::erase_if(proposals_, [](const Proposal& proposal) { return proposal.saved == 0; });
    rank_proposals();
    choose();
    return true;
  }

  // The results of what a refused kernel shall not take part in: each that the kernel could not
  // compute by itself either. Where there is none, what saves less than the others do.
  std::vector<TensorId> blamed_for(KernelId kernel, const std::vector<const Proposal*>& changes) {
    std::vector<TensorId> blamed;
    for (const Proposal* change : changes) {
      if (changes.size() > 1 && (change->maker == kernel || may_compute(kernel, *change))) continue;
      blamed.push_back(change->result);
    }
    if (!blamed.empty()) return blamed;
    for (std::size_t i = changes.size() / 2; i < changes.size(); ++i) {
      blamed.push_back(changes[i]->result);
    }
    return blamed;
  }

  // Whether the rules allow a kernel that reads a result to compute it, and nothing else, again.
  bool may_compute(KernelId reader, const Proposal& proposal) {
    Kernel ops = kernels_[reader];
    ops.insert(ops.end(), proposal.ops.begin(), proposal.ops.end());
    std::ranges::sort(ops);
    PhaseFinder& phases = counter_.phases();
    phases.set_needed([&](const Outline::Result& result) -> std::optional<bool> {
      const bool copied = owner_[graph_.tensors[result.tensor].producer] != reader;
      return copied ? std::optional(false) : std::nullopt;
    });
    const bool legal = may_become(phases, reader, ops);
    phases.set_needed(nullptr);
    return legal;
  }

  // Without kernels that have lost all of their ops, and only if it moves fewer bytes.
  std::optional<FusionPlan> finished(TrafficCounter& counter, FusionPlan plan) {
    std::erase_if(plan.kernels, [](const Kernel& kernel) { return kernel.empty(); });
    // A kernel that computes more by itself waits for nothing that it did not wait for before.
    [[maybe_unused]] const bool possible = sort_kernels(counter.graph(), plan.kernels);
    assert(possible);
    return cost_of(counter, plan.kernels).bytes < bytes_ ? std::optional(std::move(plan))
                                                         : std::nullopt;
  }

  TrafficCounter& counter_;
  Rules rules_;
  const OpGraph& graph_;
  std::vector<Kernel> kernels_;  // in canonical order, and with it the copies and their ranks
  std::vector<KernelId> owner_;
  std::uint64_t bytes_ = 0;               // of all kernels
  std::vector<std::vector<Read>> reads_;  // of each kernel, by tensor
  std::vector<Proposal> proposals_;
  std::vector<Proposal> chosen_;
  std::unordered_map<KernelId, Changed> legal_;  // as they were when they were last found legal
};

// The kernel of each op of the document, of kernels that have copies of it, too.
std::vector<KernelId> homes_of(const OpGraph& graph, const std::vector<Kernel>& kernels,
                               const std::vector<OpId>& original) {
  std::vector<OpId> first(graph.ops.size(), kNone);  // an op comes before its copies
  std::vector<KernelId> homes(graph.ops.size(), 0);
  for (KernelId k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) {
      if (op >= first[original[op]]) continue;
      first[original[op]] = op;
      homes[original[op]] = k;
    }
  }
  return homes;
}

// The plan of kernels of a graph with copies, in canonical order, each of which computes an op
// once. Nothing where that costs no less than `limit`, or the rules do not allow it.
std::optional<FusionPlan> at_less_cost(const OpGraph& graph, const Device& device,
                                       const std::vector<Kernel>& kernels,
                                       const std::vector<OpId>& original, const Rules& rules,
                                       const PlanCost& limit) {
  std::vector<Kernel> groups = kernels;
  for (Kernel& group : groups) {
    for (OpId& op : group) op = original[op];
    std::ranges::sort(group);
    group.erase(std::unique(group.begin(), group.end()), group.end());
  }
  FusionPlan plan = shared_plan(graph, groups, homes_of(graph, kernels, original));
  std::erase_if(plan.kernels, [](const Kernel& kernel) { return kernel.empty(); });
  TrafficCounter counter(plan.graph_or(graph), device);
  const auto is_legal = [&](const Kernel& kernel) {
    return kernel.size() == 1 || check_kernel(counter.phases(), kernel, rules).legal();
  };
  const bool better = sort_kernels(counter.graph(), plan.kernels) &&
                      cost_of(counter, plan.kernels) < limit &&
                      std::ranges::all_of(plan.kernels, is_legal);
  return better ? std::optional(std::move(plan)) : std::nullopt;
}

// Merges kernels of a plan that recomputes. Nothing where that costs no less.
std::optional<FusionPlan> merged_once(const OpGraph& graph, const Device& device,
                                      const FusionPlan& plan, const Rules& rules) {
  const OpGraph& planned = plan.recomputation->graph;
  TrafficCounter counter(planned, device);
  const PlanCost cost = cost_of(counter, plan.kernels);
  std::vector<Kernel> kernels = merge_greedily(counter, rules, canonical(planned, plan.kernels));
  if (cost_of(counter, kernels) >= cost) return std::nullopt;
  return at_less_cost(graph, device, canonical(planned, std::move(kernels)),
                      plan.recomputation->original, rules, cost);
}

// Computes more again: what is still stored may be needed by copies alone. Nothing where that moves
// no fewer bytes.
std::optional<FusionPlan> recomputed_once_more(const OpGraph& graph, const Device& device,
                                               const FusionPlan& plan, const Rules& rules) {
  TrafficCounter counter(plan.recomputation->graph, device);
  const PlanCost cost = cost_of(counter, plan.kernels);
  std::optional<FusionPlan> more = Search(counter, plan, rules).run();
  if (!more) return std::nullopt;
  std::vector<OpId> original = plan.recomputation->original;
  if (more->recomputation) {
    original = more->recomputation->original;
    for (OpId& op : original) op = plan.recomputation->original[op];
  }
  const OpGraph& planned = more->graph_or(counter.graph());
  return at_less_cost(graph, device, canonical(planned, std::move(more->kernels)), original, rules,
                      cost);
}

// A graph in which each reader of an op that may be recomputed has one of its own.
Recomputation with_copies_for_readers(const OpGraph& graph) {
  const auto by_rank = [&](OpId op) { return graph.rank[op]; };
  std::vector<Copies> asked;
  for (OpId op = 0; op < graph.ops.size(); ++op) {
    if (!may_recompute(graph, op)) continue;
    bool kept = false;
    std::vector<OpId> readers;
    for (const TensorId output : graph.ops[op].outputs) {
      kept = kept || graph.tensors[output].output;
      std::ranges::copy(graph.readers[output], std::back_inserter(readers));
    }
    std::ranges::sort(readers, {}, by_rank);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    for (const OpId reader : readers) {
      if (kept || reader != readers.back()) asked.push_back({.ops = {op}, .readers = {reader}});
    }
  }
  return with_copies(graph, asked);
}

}  // namespace

FusionPlan merged(const OpGraph& graph, const Device& device, FusionPlan plan, const Rules& rules) {
  // On a larger one it takes as long as all searches before it.
  while (plan.recomputation && graph.ops.size() <= kMostRefinedOps) {
    std::optional<FusionPlan> better = merged_once(graph, device, plan, rules);
    if (!better) break;
    plan = std::move(*better);
  }
  return plan;
}

std::optional<FusionPlan> planned_with_copies(const OpGraph& graph, const Device& device,
                                              const Rules& rules) {
  // Random graphs of 80 to 10,000 ops gained nothing by this.
  if (graph.ops.size() > kMostRegionOps) return std::nullopt;
  const Recomputation copied = with_copies_for_readers(graph);
  if (copied.graph.ops.size() == graph.ops.size()) return std::nullopt;
  TrafficCounter counter(copied.graph, device);
  std::vector<Kernel> kernels = merge_greedily(counter, rules, seed_attention(counter, rules));
  constexpr PlanCost kAny = {.bytes = std::numeric_limits<std::uint64_t>::max()};
  return at_less_cost(graph, device, canonical(copied.graph, std::move(kernels)), copied.original,
                      rules, kAny);
}

std::vector<FusionPlan> recomputed(TrafficCounter& counter, const FusionPlan& plan,
                                   const Rules& rules) {
  const OpGraph& graph = counter.graph();
  std::vector<FusionPlan> plans = {plan};
  std::optional<FusionPlan> next = Search(counter, plan, rules).run();
  while (next) {
    plans.push_back(std::move(*next));
    const bool refined = plans.back().recomputation && graph.ops.size() <= kMostRefinedOps;
    if (!refined) break;
    next = recomputed_once_more(graph, counter.device(), plans.back(), rules);
  }
  return plans;
}

}  // namespace fusecalc
