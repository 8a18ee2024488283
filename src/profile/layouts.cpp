#include "profile/layouts.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "profile/launch_class.hpp"

namespace fusecalc {
namespace {

class LayoutFinder {
 public:
  LayoutFinder(std::span<const Match> matches, std::span<const ProfiledLaunch> launches)
      : matches_(matches), launches_(launches), taken_(launches.size()) {
    for (const Match& match : matches) taken_[match.launch] = true;
  }

  // What prepares the operands of a convolution. A change back belongs to the one before it.
  void take_before(std::size_t match) {
    bool found = false;
    for (std::size_t at = matches_[match].launch; at-- > 0 && !taken_[at];) {
      const bool fill = launches_[at].kind == LaunchKind::kFill;
      if (!fill && (changes_back(at) || !changes_layout(at, matches_[match]))) break;
      found |= !fill;
      if (found) take(at, match);
    }
  }

  void take_after(std::size_t match) {
    for (std::size_t at = matches_[match].launch + 1; at < launches_.size() && !taken_[at]; ++at) {
      if (launches_[at].kind == LaunchKind::kFill) continue;
      if (!changes_layout(at, matches_[match])) break;
      take(at, match);
    }
  }

  std::vector<LayoutLaunch> finish() {
    std::ranges::sort(found_, {}, &LayoutLaunch::launch);
    return std::move(found_);
  }

 private:
  void take(std::size_t launch, std::size_t match) {
    taken_[launch] = true;
    found_.push_back({.launch = launch, .match = match});
  }

  bool changes_back(std::size_t launch) const {
    const std::string& name = launches_[launch].name;
    return name.find("ToNchw") != std::string::npos || name.find("to_nchw") != std::string::npos;
  }

  bool changes_layout(std::size_t at, const Match& match) const {
    const ProfiledLaunch& launch = launches_[at];
    const LaunchClass launch_class = classify(launch);
    if (launch_class == LaunchClass::kLayout) return true;
    // A copy of an operand or of the result reads and writes it; the L2 may keep half of that.
    // Casts of weights and statistics are smaller.
    return launch_class == LaunchClass::kCopy && launch.dram &&
           launch.dram->total() >= std::min(match.unfused.read, match.unfused.write);
  }

  std::span<const Match> matches_;
  std::span<const ProfiledLaunch> launches_;
  std::vector<bool> taken_;
  std::vector<LayoutLaunch> found_;
};

bool holds_convolution(const OpGraph& graph, const Match& match) {
  return std::ranges::any_of(match.ops, [&](OpId op) {
    const OpFamily family = graph.ops[op].row->family;
    return family == OpFamily::kConvolution || family == OpFamily::kTransposedConvolution;
  });
}

}  // namespace

std::vector<LayoutLaunch> find_layouts(const OpGraph& graph, std::span<const Match> matches,
                                       std::span<const ProfiledLaunch> launches) {
  LayoutFinder finder(matches, launches);
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (holds_convolution(graph, matches[i])) finder.take_before(i);
  }
  for (std::size_t i = 0; i < matches.size(); ++i) {
    if (holds_convolution(graph, matches[i])) finder.take_after(i);
  }
  return finder.finish();
}

}  // namespace fusecalc
