#include "planner/legal_kernels.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>

#include "plan/siblings.hpp"

namespace fusecalc {
namespace {

// Whether what prevents a kernel also prevents every larger one that holds its ops: these obstacles
// lie in single ops, or in what one op takes from another.
bool remains(const OpGraph& graph, const Kernel& kernel, const Verdict& verdict) {
  switch (verdict.obstacle) {
    case Obstacle::kCustom:
    case Obstacle::kNoKernel:
    case Obstacle::kIntegerScales:
    case Obstacle::kEmpty:
    case Obstacle::kTooManyOps:
    case Obstacle::kMovesRows:
    case Obstacle::kPermutesRows:
    case Obstacle::kCompilerOrder:
    case Obstacle::kAfterScatter:
    case Obstacle::kAfterCollapse:
    case Obstacle::kMisaligned: return true;
    case Obstacle::kSideContraction: {
      const auto contracts = [&](OpId op) { return graph.ops[op].op_class == OpClass::kContract; };
      return std::ranges::count_if(kernel, contracts) > std::ptrdiff_t{kMostSiblings} ||
             !are_siblings(graph, verdict.first, verdict.second);
    }
    case Obstacle::kRows: {
      // A loss may turn out to work on rows that were reduced before it.
      const auto is_loss = [&](OpId op) { return graph.ops[op].row->family == OpFamily::kLoss; };
      return !is_loss(verdict.first) && !is_loss(verdict.second);
    }
    default: return false;
  }
}

class Finder {
 public:
  Finder(CheckedKernels& checked, const Region& region, std::size_t& work)
      : checked_(checked), region_(region), work_(work) {}

  // Sets of ops grow by neighbours, and by all between, so that each connected set without a way
  // out and back is found once: as a set that has its first op and none of those tried before.
  bool run() {
    OpSet tried = 0;
    for (std::size_t i = 0; i < region_.size(); ++i) {
      if (!grow({set_of(i), region_.before(i), region_.after(i), region_.neighbours(i)}, tried)) {
        return false;
      }
      tried |= set_of(i);
    }
    return true;
  }

  std::vector<LegalKernel> found;

 private:
  struct Grown {
    OpSet ops = 0;
    OpSet before = 0;
    OpSet after = 0;
    OpSet neighbours = 0;
  };

  // Returns false if there is too much work.
  bool grow(const Grown& grown, OpSet tried) {
    if (work_ == 0) return false;
    --work_;
    // Of several obstacles a check reports the first, and how much work is left to do depends on
    // which one that is: it must not follow from the order in which the document has the ops.
    const CheckedKernels::Checked& checked = checked_.of(region_.ranked(grown.ops));
    if (checked.remains) return true;
    if (checked.bytes) {
      found.push_back(
          {.ops = grown.ops, .needs = grown.before & ~grown.ops, .bytes = *checked.bytes});
    }
    for (OpSet open = grown.neighbours & ~grown.ops & ~tried; open != 0; open &= open - 1) {
      const auto place = static_cast<std::size_t>(std::countr_zero(open));
      if (const Grown larger = with(grown, place); (larger.ops & tried) == 0) {
        if (!grow(larger, tried)) return false;
      }
      tried |= set_of(place);
    }
    return true;
  }

  Grown with(Grown grown, std::size_t place) const {
    const OpSet before = grown.before | region_.before(place);
    const OpSet after = grown.after | region_.after(place);
    // What stands between two ops of the kernel belongs to it.
    const OpSet ops = grown.ops | set_of(place) | (before & after);
    for (OpSet added = ops & ~grown.ops; added != 0; added &= added - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(added));
      grown.before |= region_.before(i);
      grown.after |= region_.after(i);
      grown.neighbours |= region_.neighbours(i);
    }
    grown.ops = ops;
    return grown;
  }

  CheckedKernels& checked_;
  const Region& region_;
  std::size_t& work_;
};

}  // namespace

std::size_t CheckedKernels::Hash::operator()(const Kernel& kernel) const {
  const auto* bytes = reinterpret_cast<const char*>(kernel.data());
  return std::hash<std::string_view>()({bytes, kernel.size() * sizeof(OpId)});
}

const CheckedKernels::Checked& CheckedKernels::of(const Kernel& kernel) {
  // So few that they stay in the caches: most that are asked for again were so a moment ago.
  constexpr std::size_t kMostKnown = 16'384;
  if (known_.size() == kMostKnown) known_.clear();
  const auto [known, added] = known_.try_emplace(kernel);
  if (!added) return known->second;
  Checked& checked = known->second;
  const Verdict verdict = check_kernel(counter_.phases(), kernel, rules_);
  if (verdict.legal()) {
    checked.bytes = counter_.bytes(kernel).total();
  } else {
    checked.remains = remains(counter_.graph(), kernel, verdict);
  }
  return checked;
}

std::optional<std::vector<LegalKernel>> legal_kernels(CheckedKernels& checked, const Region& region,
                                                      std::size_t& work) {
  Finder finder(checked, region, work);
  if (!finder.run()) return std::nullopt;
  return std::move(finder.found);
}

}  // namespace fusecalc
