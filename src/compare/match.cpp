#include "compare/match.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "compare/surroundings.hpp"

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

std::string signature_of(const KernelFigures& kernel) {
  if (kernel.lists_tensors) return names_of(kernel.reads) + '\f' + names_of(kernel.writes);
  return kernel.bytes ? std::to_string(*kernel.bytes) : "";
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
  const bool renamed = shared == 0 && structure_of(then) == structure_of(now);
  if (!renamed && (shared != then.ops.size() || shared != now.ops.size())) return Change::kAltered;
  return then.name == now.name ? Change::kSame : Change::kRenamed;
}

}  // namespace

std::string_view name_of(Change change) { return kChangeNames[static_cast<std::size_t>(change)]; }

namespace {

// Pairs the ops of two documents. Every step leaves ops that are already paired alone.
class OpPairs {
 public:
  OpPairs(const std::vector<OpInGraph>& before, const std::vector<OpInGraph>& after)
      : before_(before), after_(after), taken_(before.size()), origin_(after.size()) {
    for (std::size_t b = 0; b < before.size(); ++b) by_name_.emplace(before[b].name, b);
  }

  // Ops with the same key, which is empty for those that are left out: of the same name first, then
  // in their order.
  template <typename Key>
  void pair_equal(const Key& key_of) {
    pair_names([&](const OpInGraph& then, const OpInGraph& now) {
      return !key_of(now).empty() && key_of(then) == key_of(now);
    });
    std::unordered_map<std::string, std::vector<std::size_t>> waiting;  // the first is last
    for (std::size_t b = before_.size(); b-- > 0;) {
      if (!taken_[b]) waiting[key_of(before_[b])].push_back(b);
    }
    waiting.erase("");
    for (std::size_t a = 0; a < after_.size(); ++a) {
      if (origin_[a]) continue;
      const auto found = waiting.find(key_of(after_[a]));
      if (found == waiting.end() || found->second.empty()) continue;
      pair(found->second.back(), a);
      found->second.pop_back();
    }
  }

  template <typename Condition>
  void pair_names(const Condition& condition) {
    for (std::size_t a = 0; a < after_.size(); ++a) {
      const auto same = by_name_.find(after_[a].name);
      if (origin_[a] || same == by_name_.end() || taken_[same->second]) continue;
      if (condition(before_[same->second], after_[a])) pair(same->second, a);
    }
  }

  OpNames names() const {
    OpNames names;
    for (std::size_t a = 0; a < after_.size(); ++a) {
      if (origin_[a]) names.emplace(after_[a].name, before_[*origin_[a]].name);
    }
    return names;
  }

 private:
  void pair(std::size_t b, std::size_t a) {
    taken_[b] = true;
    origin_[a] = b;
  }

  const std::vector<OpInGraph>& before_;
  const std::vector<OpInGraph>& after_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::vector<bool> taken_;
  std::vector<std::optional<std::size_t>> origin_;
};

// The key of an op's surroundings up to a distance; empty where they tell nothing.
std::string key_of(const OpInGraph& op, std::size_t distance, bool from, bool to) {
  if (op.alone == nullptr || !op.alone->bytes) return "";
  if (!(from && op.has_operands) && !(to && op.has_uses)) return "";
  return (from ? std::to_string(op.from[distance]) : "") + ' ' +
         (to ? std::to_string(op.to[distance]) : "");
}

}  // namespace

OpMatcher::OpMatcher(const ResultDocument& before, const ResultDocument& after) {
  const std::vector<OpInGraph> old_ops = ops_of(before, after);
  const std::vector<OpInGraph> new_ops = ops_of(after, before);
  OpPairs pairs(old_ops, new_ops);
  // A change of the graph leaves the ops before it with equal operands, and those after it with
  // equal uses.
  struct Sides {
    bool from = false;
    bool to = false;
  };
  for (const Sides& sides : {Sides{true, true}, Sides{true, false}, Sides{false, true}}) {
    for (std::size_t d = kReach; d > 0; --d) {
      pairs.pair_equal([&](const OpInGraph& op) { return key_of(op, d, sides.from, sides.to); });
    }
  }
  pairs.pair_names([](const OpInGraph&, const OpInGraph& op) { return !is_numbered(op.name); });
  pairs.pair_equal([](const OpInGraph& op) {
    return op.alone == nullptr ? std::string() : signature_of(*op.alone);
  });
  pairs.pair_names([](const OpInGraph&, const OpInGraph&) { return true; });
  origin_ = pairs.names();
}

namespace {

// Pairs the kernels of two plans. Every step leaves kernels that are already paired alone.
class KernelMatcher {
 public:
  KernelMatcher(const PlanFigures& before, const PlanFigures& after, const OpNames& origin)
      : before_(before.kernels),
        after_(after.kernels),
        groups_(before_.size() + after_.size()),
        paired_(before_.size() + after_.size()) {
    for (const KernelFigures& kernel : after_) {
      std::vector<std::string_view>& ops = origins_.emplace_back();
      for (const std::string& op : kernel.ops) {
        const auto found = origin.find(op);
        if (found != origin.end()) ops.emplace_back(found->second);
      }
    }
  }

  // How many of its ops each kernel of `after` has in common with kernels of `before`.
  std::vector<std::size_t> kept() const {
    std::set<std::string_view> known;
    for (const KernelFigures& kernel : before_) known.insert(kernel.ops.begin(), kernel.ops.end());
    std::vector<std::size_t> counts;
    for (const auto& ops : origins_) {
      counts.push_back(static_cast<std::size_t>(
          std::ranges::count_if(ops, [&](std::string_view op) { return known.contains(op); })));
    }
    return counts;
  }

  Groups match() {
    pair_same_ops();
    join_shared_ops();
    pair_same_structure();
    return std::move(groups_);
  }

 private:
  std::size_t index_of_after(std::size_t k) const { return before_.size() + k; }

  void pair(std::size_t b, std::size_t a) {
    groups_.join(b, index_of_after(a));
    paired_[b] = paired_[index_of_after(a)] = true;
  }

  // Unpaired kernels that `key` gives the same value, in their order; none for an empty value.
  template <typename Key>
  void pair_equal(const Key& key_of_before, const Key& key_of_after) {
    std::map<std::string, std::vector<std::size_t>> waiting;  // the first is last
    for (std::size_t b = before_.size(); b-- > 0;) {
      if (!paired_[b]) waiting[key_of_before(b)].push_back(b);
    }
    waiting.erase("");
    for (std::size_t a = 0; a < after_.size(); ++a) {
      if (paired_[index_of_after(a)]) continue;
      const auto found = waiting.find(key_of_after(a));
      if (found == waiting.end() || found->second.empty()) continue;
      pair(found->second.back(), a);
      found->second.pop_back();
    }
  }

  // An op may be in several kernels, which compute it again instead of loading it: two kernels with
  // all the same ops are one, whatever others share with them.
  void pair_same_ops() {
    const auto joined = [](std::vector<std::string_view> ops) {
      std::ranges::sort(ops);
      std::string text;
      for (const std::string_view op : ops) (text += op) += '\n';
      return text;
    };
    using Key = std::function<std::string(std::size_t)>;
    pair_equal<Key>(
        [&](std::size_t b) {
          return joined({before_[b].ops.begin(), before_[b].ops.end()});
        },
        [&](std::size_t a) {
          return origins_[a].size() == after_[a].ops.size() ? joined(origins_[a]) : std::string();
        });
  }

  // Joins the others by the ops that only one kernel of `before` holds, or by any if there are
  // none.
  void join_shared_ops() {
    std::unordered_map<std::string_view, std::vector<std::size_t>> holders;
    for (std::size_t b = 0; b < before_.size(); ++b) {
      if (paired_[b]) continue;
      for (const std::string& op : before_[b].ops) holders[op].push_back(b);
    }
    for (std::size_t a = 0; a < after_.size(); ++a) {
      if (paired_[index_of_after(a)]) continue;
      const bool any_single = std::ranges::any_of(origins_[a], [&](std::string_view op) {
        const auto found = holders.find(op);
        return found != holders.end() && found->second.size() == 1;
      });
      for (const std::string_view op : origins_[a]) {
        const auto found = holders.find(op);
        if (found == holders.end() || (any_single && found->second.size() > 1)) continue;
        for (const std::size_t b : found->second) joined_.emplace_back(b, a);
      }
    }
    for (const auto& [b, a] : joined_) pair(b, a);
  }

  // What is left has new names: kernels that move the same bytes are the same, in their order.
  void pair_same_structure() {
    using Key = std::function<std::string(std::size_t)>;
    pair_equal<Key>([&](std::size_t b) { return structure_of(before_[b]); },
                    [&](std::size_t a) { return structure_of(after_[a]); });
  }

  const std::vector<KernelFigures>& before_;
  const std::vector<KernelFigures>& after_;
  std::vector<std::vector<std::string_view>> origins_;  // of each kernel of `after`
  Groups groups_;
  std::vector<bool> paired_;
  std::vector<std::pair<std::size_t, std::size_t>> joined_;
};

}  // namespace

std::vector<KernelMatch> OpMatcher::match(const PlanFigures& before,
                                          const PlanFigures& after) const {
  const std::size_t first_after = before.kernels.size();
  const std::size_t count = first_after + after.kernels.size();
  KernelMatcher matcher(before, after, origin_);
  const std::vector<std::size_t> kept = matcher.kept();
  Groups groups = matcher.match();
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
