#include "compare/match.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace fusecalc {
namespace {

constexpr std::string_view kChangeNames[] = {"same",   "renamed",   "altered", "split",
                                             "merged", "regrouped", "added",   "removed"};

// A name that the op list did not give, and that moves with the op's position.
bool is_numbered(std::string_view op) { return op.starts_with("op#"); }

std::string names_of(const TensorBytes& tensors) {
  std::string text;
  for (const auto& [name, bytes] : tensors) text += name + '\n';
  return text;
}

// Every op with the tensors that it reads and writes when it is alone in a kernel; empty if no plan
// has such a kernel.
using Signatures = std::map<std::string, std::string>;

std::string signature_of(const KernelFigures& kernel) {
  if (kernel.lists_tensors) return names_of(kernel.reads) + '\f' + names_of(kernel.writes);
  return kernel.bytes ? std::to_string(*kernel.bytes) : "";
}

Signatures signatures_of(const ResultDocument& document) {
  Signatures signatures;
  for (const PlanFigures& plan : document.plans) {
    for (const KernelFigures& kernel : plan.kernels) {
      for (const std::string& op : kernel.ops) signatures.try_emplace(op);
      if (kernel.ops.size() == 1) signatures[kernel.ops.front()] = signature_of(kernel);
    }
  }
  return signatures;
}

// Sets of kernels that share ops, over both plans: kernels of `before` come first.
class Groups {
 public:
  explicit Groups(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> parent_;
};

// `kept`: how many of its ops each kernel of `after` shares with those before.
Change change_of(const KernelMatch& match, const PlanFigures& before, const PlanFigures& after,
                 const std::vector<std::size_t>& kept) {
  if (match.before.empty()) return Change::kAdded;
  if (match.after.empty()) return Change::kRemoved;
  if (match.before.size() > 1) {
    return match.after.size() > 1 ? Change::kRegrouped : Change::kMerged;
  }
  if (match.after.size() > 1) return Change::kSplit;
  const KernelFigures& then = before.kernels[match.before.front()];
  const KernelFigures& now = after.kernels[match.after.front()];
  const std::size_t shared = kept[match.after.front()];
  if (shared != then.ops.size() || shared != now.ops.size()) return Change::kAltered;
  return then.name == now.name ? Change::kSame : Change::kRenamed;
}

}  // namespace

std::string_view name_of(Change change) { return kChangeNames[static_cast<std::size_t>(change)]; }

OpMatcher::OpMatcher(const ResultDocument& before, const ResultDocument& after) {
  const Signatures old_ops = signatures_of(before);
  const Signatures new_ops = signatures_of(after);
  std::set<std::string> taken;
  const auto pair = [&](const std::string& op, const std::string& origin) {
    if (taken.insert(origin).second) origin_.emplace(op, origin);
  };
  // Ops with an explicit name on both sides are matched by it.
  for (const auto& [op, signature] : new_ops) {
    const auto same = old_ops.find(op);
    if (same == old_ops.end()) continue;
    if (!is_numbered(op) || same->second == signature) pair(op, op);
  }
  std::multimap<std::string, std::string> by_signature;
  for (const auto& [op, signature] : old_ops) {
    if (!signature.empty() && !taken.contains(op)) by_signature.emplace(signature, op);
  }
  for (const auto& [op, signature] : new_ops) {
    if (origin_.contains(op)) continue;
    const auto alike = by_signature.find(signature);
    if (alike == by_signature.end()) continue;
    pair(op, alike->second);
    by_signature.erase(alike);
  }
  // The remaining unnamed ops are matched by number.
  for (const auto& [op, signature] : new_ops) {
    if (!origin_.contains(op) && old_ops.contains(op)) pair(op, op);
  }
}

std::vector<KernelMatch> OpMatcher::match(const PlanFigures& before,
                                          const PlanFigures& after) const {
  const std::size_t first_after = before.kernels.size();
  const std::size_t count = first_after + after.kernels.size();
  std::map<std::string, std::size_t> holder;  // of an op of `before`
  for (std::size_t k = 0; k < first_after; ++k) {
    for (const std::string& op : before.kernels[k].ops) holder.emplace(op, k);
  }
  Groups groups(count);
  std::vector<std::size_t> kept(after.kernels.size());  // ops that were there before
  for (std::size_t k = 0; k < after.kernels.size(); ++k) {
    for (const std::string& op : after.kernels[k].ops) {
      const auto origin = origin_.find(op);
      if (origin == origin_.end()) continue;
      const auto found = holder.find(origin->second);
      if (found == holder.end()) continue;
      ++kept[k];
      groups.join(found->second, first_after + k);
    }
  }
  std::map<std::size_t, std::size_t> place;  // of a group among the matches
  std::vector<KernelMatch> matches;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [entry, fresh] = place.try_emplace(groups.find(i), matches.size());
    if (fresh) matches.emplace_back();
    KernelMatch& match = matches[entry->second];
    if (i < first_after) {
      match.before.push_back(i);
    } else {
      match.after.push_back(i - first_after);
    }
  }
  for (KernelMatch& match : matches) match.change = change_of(match, before, after, kept);
  return matches;
}

}  // namespace fusecalc
