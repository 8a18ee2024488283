#include "profile/alignment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "core/error.hpp"
#include "profile/launch_class.hpp"
#include "profile/layouts.hpp"
#include "profile/op_order.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostOps = 24;  // that one launch runs, but for graphs
constexpr double kMebibyte = 1 << 20U;
constexpr double kUnmatchedLaunch = -1.5;  // inside a run
constexpr double kUnmatchedCopy = -0.5;    // programs copy more than their models say
constexpr double kBetweenRuns = -0.02;     // a launch that belongs to no run of the list
constexpr double kMissingOp = -1.5;
constexpr double kNever = -1e18;

// What a group of ops holds.
struct Holds {
  bool product = false;
  bool attention = false;
  bool rows = false;
  bool movement = false;
  bool indexed = false;   // which a copy cannot do
  bool prologue = false;  // pointwise ops ahead of a product
  bool pointwise = false;
  bool cast = false;
};

// Ops that follow each other, and what they move together.
struct Group {
  Holds holds;
  Bytes fused;
};

Holds holds_of(const OpGraph& graph, const Kernel& ops) {
  Holds holds;
  std::size_t products = 0;
  for (const OpId id : ops) {
    const Op& op = graph.ops[id];
    holds.prologue |= is_heavy(op) && holds.pointwise;
    holds.attention |= op.row->family == OpFamily::kAttention;
    products += op.op_class == OpClass::kContract && op.row->family != OpFamily::kAttention ? 1 : 0;
    holds.rows |= op.op_class == OpClass::kReduce || op.op_class == OpClass::kNormalise;
    holds.movement |= op.op_class == OpClass::kMovement;
    holds.indexed |= op.row->access == Access::kGather || op.row->access == Access::kScatter;
    holds.pointwise |= op.op_class == OpClass::kPointwise;
    holds.cast |= op.row->family == OpFamily::kCast;
  }
  // Attention that is written out.
  if (products == 2 && holds.rows) holds.attention = true;
  holds.product = products > 0;
  return holds;
}

// How well a kind fits a group: positive where it does.
double kind_score(LaunchClass launch, const Holds& holds) {
  const bool heavy = holds.product || holds.attention;
  switch (launch) {
    case LaunchClass::kUnknown: return heavy ? 0.2 : 0.5;
    case LaunchClass::kProduct:
      // Libraries fuse pointwise ops that follow a product, not reductions.
      return !holds.product ? -8 : holds.attention || holds.rows ? -4 : holds.prologue ? 2 : 3;
    case LaunchClass::kAttention: return holds.attention ? 4 : -8;
    case LaunchClass::kRows: return heavy ? -8 : holds.rows ? 3 : -4;
    case LaunchClass::kScaleShift: return heavy ? -8 : holds.rows || holds.pointwise ? 2.5 : -4;
    case LaunchClass::kReduce: return heavy ? -8 : holds.rows ? 2.5 : -6;
    case LaunchClass::kPointwise: return heavy ? -8 : holds.rows ? -4 : 2;
    case LaunchClass::kCopy:
      return heavy || holds.rows ? -8 : holds.movement ? 2.5 : holds.cast ? 2 : 0;
    case LaunchClass::kMovement: return heavy || holds.rows ? -8 : holds.movement ? 2.5 : 0;
    case LaunchClass::kLayout:
    case LaunchClass::kTransfer:
      return heavy || holds.rows || holds.pointwise || holds.indexed ? -8 : holds.movement ? 1 : -8;
    case LaunchClass::kGraph: return 1;
  }
  return 0;
}

// How well bytes fit: 2 where they are equal. Fewer than computed is common, as the L2 keeps what
// the launch before left; more is rare but for products, which fetch operands again.
double bytes_score(const std::optional<Bytes>& dram, const Group& group) {
  if (!dram) return 0;
  const double measured = static_cast<double>(dram->total()) + kMebibyte;
  const double computed = static_cast<double>(group.fused.total()) + kMebibyte;
  const double octaves = std::log2(measured / computed);
  const double weight = octaves < 0 ? 0.6 : group.holds.product ? 0.7 : 1.5;
  return std::max(-3.0, 2 - weight * std::abs(octaves));
}

double confidence_of(double kind, double bytes) {
  const double by_kind = kind >= 2 ? 1 : kind > 0 ? 0.6 : 0.2;
  return 0.5 * by_kind + 0.5 * std::clamp(bytes / 2, 0.0, 1.0);
}

// What is small decides little.
double weight_of(std::uint64_t bytes) { return static_cast<double>(bytes) < kMebibyte ? 0.2 : 1; }

// The launches of one run of the list.
struct ListRun {
  std::vector<Match> matches;  // in the order of launches
  double bytes = 0;            // of matched ops
  double score = 0;
};

// Aligns launches with ops in one order. Places are those of the order.
class Aligner {
 public:
  Aligner(const GraphAnalysis& analysis, std::span<const ProfiledLaunch> launches, OpOrder order)
      : graph_(analysis.graph),
        launches_(launches),
        order_(std::move(order)),
        ops_(order_.size()),
        counter_(graph_, analysis.device) {
    constexpr std::size_t kMostCells = 20'000'000;
    if (ops_ == 0 || launches_.empty() || launches_.size() > kMostCells / (ops_ + 1)) {
      throw Error(
          Fault::kBadInput,
          fmt::format("{}: {} ops and {} launches cannot be aligned: the product is limited "
                      "to {}; choose launches with --range or --count",
                      graph_.document, ops_, launches_.size(), kMostCells));
    }
    for (const ProfiledLaunch& launch : launches_) classes_.push_back(classify(launch));
    for (std::size_t first = 0; first < ops_; ++first) {
      std::vector<Group>& groups = groups_.emplace_back();
      for (std::size_t count = 1; count <= std::min(kMostOps, ops_ - first); ++count) {
        groups.push_back(group_of(first, count));
      }
    }
    whole_ = group_of(0, ops_);
  }

  // The last one first.
  std::vector<ListRun> find() {
    fill();
    return trace();
  }

 private:
  // How a cell is reached: 0 from the left, skipping a launch; kSkipOp from above; kWrap from the
  // end of the list; else by a match of so many ops.
  static constexpr std::uint16_t kSkipLaunch = 0;
  static constexpr std::uint16_t kSkipOp = 0xffff;
  static constexpr std::uint16_t kWrap = 0xfffe;
  static constexpr std::uint16_t kWhole = 0xfffd;

  Kernel ops_of(std::size_t first, std::size_t count) const {
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(first);
    Kernel ops(begin, begin + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(ops);
    return ops;
  }

  Group group_of(std::size_t first, std::size_t count) {
    const Kernel ops = ops_of(first, count);
    return {.holds = holds_of(graph_, ops), .fused = counter_.bytes(ops)};
  }

  Bytes unfused(std::size_t place) const { return groups_[place][0].fused; }

  std::uint64_t moved_by(std::size_t launch) const {
    return launches_[launch].dram.value_or(Bytes{}).total();
  }

  double missing(std::size_t place) const { return kMissingOp * weight_of(unfused(place).total()); }

  double unmatched(std::size_t launch) const {
    const LaunchClass launch_class = classes_[launch];
    const bool copies = launch_class == LaunchClass::kCopy ||
                        launch_class == LaunchClass::kLayout ||
                        launch_class == LaunchClass::kTransfer;
    return (copies ? kUnmatchedCopy : kUnmatchedLaunch) * weight_of(moved_by(launch));
  }

  // Of matching a launch with `count` ops from `first`.
  double score(std::size_t launch, const Group& group, std::size_t count) const {
    return weight_of(std::max(moved_by(launch), group.fused.total())) *
           (kind_score(classes_[launch], group.holds) + bytes_score(launches_[launch].dram, group) -
            0.15 * static_cast<double>(count - 1));
  }

  std::uint16_t& step(std::size_t op, std::size_t launch) {
    return steps_[launch * (ops_ + 1) + op];
  }

  void reach(std::vector<double>& layer, std::size_t op, std::size_t launch, double value,
             std::uint16_t how) {
    if (value <= layer[op]) return;
    layer[op] = value;
    step(op, launch) = how;
  }

  // Ops without a launch, and the step from the end of the list to its start.
  void relax(std::vector<double>& layer, std::size_t launch) {
    for (int round = 0; round < 2; ++round) {
      for (std::size_t op = 0; op < ops_; ++op) {
        reach(layer, op + 1, launch, layer[op] + missing(op), kSkipOp);
      }
      if (round == 0) reach(layer, 0, launch, layer[ops_], kWrap);
    }
  }

  void fill() {
    steps_.assign((ops_ + 1) * (launches_.size() + 1), kSkipLaunch);
    std::vector<double> layer(ops_ + 1, kNever);
    layer[0] = 0;
    relax(layer, 0);
    for (std::size_t launch = 0; launch < launches_.size(); ++launch) {
      std::vector<double> next(ops_ + 1, kNever);
      const double inside = unmatched(launch);
      for (std::size_t op = 0; op <= ops_; ++op) {
        const double skip = op == 0 || op == ops_ ? kBetweenRuns : inside;
        reach(next, op, launch + 1, layer[op] + skip, kSkipLaunch);
      }
      if (classes_[launch] == LaunchClass::kGraph) {
        reach(next, ops_, launch + 1, layer[0] + score(launch, whole_, 1), kWhole);
      } else {
        match_launch(layer, next, launch);
      }
      relax(next, launch + 1);
      layer = std::move(next);
    }
  }

  void match_launch(const std::vector<double>& layer, std::vector<double>& next,
                    std::size_t launch) {
    for (std::size_t op = 0; op < ops_; ++op) {
      for (std::size_t count = 1; count <= groups_[op].size(); ++count) {
        reach(next, op + count, launch + 1,
              layer[op] + score(launch, groups_[op][count - 1], count),
              static_cast<std::uint16_t>(count));
      }
    }
  }

  std::vector<ListRun> trace() {
    std::vector<ListRun> runs(1);
    std::size_t op = 0;
    for (std::size_t launch = launches_.size();;) {
      const std::uint16_t how = step(op, launch);
      if (how == kWrap) {
        op = ops_;
        runs.emplace_back();
      } else if (how == kSkipOp) {
        runs.back().score += missing(--op);
      } else if (launch == 0) {
        break;
      } else if (how == kSkipLaunch) {
        --launch;
        if (op > 0 && op < ops_) runs.back().score += unmatched(launch);
      } else {
        --launch;
        const bool whole = how == kWhole;
        const std::size_t count = whole ? ops_ : how;
        op -= count;
        add(runs.back(), matched(launch, op, count, whole),
            whole ? score(launch, whole_, 1) : score(launch, groups_[op][count - 1], count));
      }
    }
    std::erase_if(runs, [](const ListRun& run) { return run.matches.empty(); });
    for (ListRun& run : runs) std::ranges::reverse(run.matches);
    return runs;
  }

  static void add(ListRun& run, Match match, double score) {
    run.score += score;
    run.bytes += static_cast<double>(match.unfused.total());
    run.matches.push_back(std::move(match));
  }

  Match matched(std::size_t launch, std::size_t first, std::size_t count, bool whole) const {
    const Group& group = whole ? whole_ : groups_[first][count - 1];
    Match match{.launch = launch,
                .ops = ops_of(first, count),
                .confidence = confidence_of(kind_score(classes_[launch], group.holds),
                                            bytes_score(launches_[launch].dram, group)),
                .unfused = {},
                .fused = group.fused};
    for (std::size_t place = first; place < first + count; ++place) {
      match.unfused.read += unfused(place).read;
      match.unfused.write += unfused(place).write;
    }
    return match;
  }

  const OpGraph& graph_;
  std::span<const ProfiledLaunch> launches_;
  OpOrder order_;
  std::size_t ops_;
  TrafficCounter counter_;
  std::vector<LaunchClass> classes_;
  std::vector<std::vector<Group>> groups_;  // by first op and number of ops
  Group whole_;
  std::vector<std::uint16_t> steps_;
};

// The last run that leaves out little more than any other one does. Small ops do not decide: what
// a program does before its first run may look like them.
const ListRun& best_run(const std::vector<ListRun>& runs) {
  constexpr double kLittle = 0.01;
  const double most = std::ranges::max_element(runs, {}, &ListRun::bytes)->bytes;
  return *std::ranges::find_if(
      runs, [&](const ListRun& run) { return run.bytes >= (1 - kLittle) * most; });
}

// In the order of ops that fits the launches best.
std::vector<ListRun> find_runs(const GraphAnalysis& analysis,
                               std::span<const ProfiledLaunch> launches) {
  const OpOrder written = written_order(analysis.graph);
  const OpOrder used = order_of_use(analysis.graph);
  std::vector<ListRun> runs = Aligner(analysis, launches, written).find();
  if (used == written) return runs;
  std::vector<ListRun> others = Aligner(analysis, launches, used).find();
  if (others.empty()) return runs;
  return runs.empty() || best_run(others).score > best_run(runs).score ? others : runs;
}

// Ops that a kernel of `auto` holds, and that the program runs in several launches.
std::vector<MissedFusion> missed_fusions(const PlanAnalysis& plan,
                                         const std::vector<Match>& matches,
                                         std::span<const ProfiledLaunch> launches) {
  std::vector<MissedFusion> missed;
  std::set<std::size_t> counted;  // launches; an op may be in several kernels
  for (const KernelAnalysis& kernel : plan.kernels) {
    MissedFusion fusion{.ops = kernel.ops};
    std::vector<std::size_t> own;
    std::uint64_t moved = 0;
    std::size_t covered = 0;
    double seconds = 0;
    bool timed = true;
    for (const Match& match : matches) {
      const bool inside = std::ranges::includes(kernel.ops, match.ops);
      if (!inside || !launches[match.launch].dram) continue;
      ++fusion.launches;
      covered += match.ops.size();
      if (counted.contains(match.launch)) continue;
      own.push_back(match.launch);
      moved += launches[match.launch].dram->total();
      timed = timed && launches[match.launch].seconds.has_value();
      if (timed) seconds += *launches[match.launch].seconds;
    }
    const std::uint64_t least = kernel.traffic.bytes.total();
    if (fusion.launches < 2 || covered != kernel.ops.size() || moved <= least) continue;
    fusion.bytes = moved - least;
    if (timed) {
      fusion.seconds = seconds * static_cast<double>(fusion.bytes) / static_cast<double>(moved);
    }
    counted.insert(own.begin(), own.end());
    missed.push_back(std::move(fusion));
  }
  std::ranges::stable_sort(missed, std::greater{}, &MissedFusion::bytes);
  return missed;
}

}  // namespace

Alignment align(const Analysis& analysis, std::span<const ProfiledLaunch> launches) {
  const GraphAnalysis& graph = *analysis.graph;
  Alignment result{.document = analysis.name};
  for (const Op& op : graph.graph.ops) result.ops.push_back(op.name);
  for (const PlanAnalysis& plan : graph.plans) {
    result.plans.emplace_back(plan.kind, plan.bytes.total());
  }
  const std::vector<ListRun> runs = find_runs(graph, launches);
  result.runs = runs.size();
  if (!runs.empty()) result.matches = best_run(runs).matches;
  std::set<std::size_t> matched;
  std::vector<bool> covered(graph.graph.ops.size());
  for (const Match& match : result.matches) {
    matched.insert(match.launch);
    for (const OpId op : match.ops) covered[op] = true;
  }
  for (OpId op = 0; op < covered.size(); ++op) {
    if (!covered[op]) result.missing.push_back(op);
  }
  if (matched.empty()) return result;
  result.layouts = find_layouts(graph.graph, result.matches, launches);
  for (const LayoutLaunch& layout : result.layouts) {
    matched.insert(layout.launch);
    result.layout_bytes += launches[layout.launch].dram.value_or(Bytes{}).total();
  }
  for (std::size_t launch = *matched.begin(); launch <= *matched.rbegin(); ++launch) {
    const Bytes dram = launches[launch].dram.value_or(Bytes{});
    result.moved.read += dram.read;
    result.moved.write += dram.write;
    if (matched.contains(launch)) {
      result.attributed += dram.total();
    } else {
      result.unmatched.push_back(launch);
    }
  }
  result.fusions = missed_fusions(graph.plan(PlanKind::kAuto), result.matches, launches);
  return result;
}

}  // namespace fusecalc
