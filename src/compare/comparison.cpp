#include "compare/comparison.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <tuple>

#include "core/ratio.hpp"

namespace fusecalc {
namespace {

constexpr FigureRow kFigures[] = {
    {"spec", "spec", Unit::kCount, Quantity::kBytes},
    {"bytes", "bytes", Unit::kBytes, Quantity::kBytes},
    {"dram_read", "DRAM read", Unit::kBytes, Quantity::kDram},
    {"dram_write", "DRAM written", Unit::kBytes, Quantity::kDram},
    {"time", "time", Unit::kPicoseconds, Quantity::kTime},
    {"pipeline_dram_read", "DRAM read, back to back", Unit::kBytes, Quantity::kDram},
    {"pipeline_dram_write", "DRAM written, back to back", Unit::kBytes, Quantity::kDram},
    {"pipeline_time", "time, back to back", Unit::kPicoseconds, Quantity::kTime},
    {"wrong", "wrong results", Unit::kCount, Quantity::kBytes},
    {"unlaunchable", "kernels that cannot be launched", Unit::kCount, Quantity::kBytes},
};

constexpr std::string_view kJudgements[] = {"worse",  "removed", "unknown", "noise",
                                            "within", "added",   "better",  "same"};
constexpr std::array<std::string_view, 4> kSortNames = {"worst", "delta", "share", "name"};

// Growth from 0 exceeds any percentage.
double share_or_most(const Finding& finding) {
  if (const std::optional<double> share = finding.share()) return *share;
  const std::optional<std::int64_t> delta = finding.delta();
  return delta && *delta > 0 ? std::numeric_limits<double>::infinity()
                             : -std::numeric_limits<double>::infinity();
}

}  // namespace

const FigureRow& row_of(Figure figure) { return kFigures[static_cast<std::size_t>(figure)]; }

std::span<const std::string_view> judgement_names() { return kJudgements; }

std::string_view name_of(Judgement judgement) {
  return kJudgements[static_cast<std::size_t>(judgement)];
}

std::optional<std::int64_t> Finding::delta() const {
  if (!before || !after) return std::nullopt;
  return static_cast<std::int64_t>(*after) - static_cast<std::int64_t>(*before);
}

std::optional<double> Finding::share() const {
  const std::optional<std::int64_t> difference = delta();
  if (!difference || *before == 0) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(*difference < 0 ? -*difference : *difference);
  const double percent = exact_ratio(size, *before) * 100;
  return *difference < 0 ? -percent : percent;
}

bool Comparison::failed() const { return std::ranges::any_of(findings, &Finding::failed); }

std::size_t Comparison::count(Judgement judgement) const {
  const std::size_t gone = judgement == Judgement::kSame ? same_left_out : 0;
  return gone +
         static_cast<std::size_t>(std::ranges::count(findings, judgement, &Finding::judgement));
}

std::size_t Comparison::count_failed(Judgement judgement) const {
  return static_cast<std::size_t>(std::ranges::count_if(findings, [&](const Finding& finding) {
    return finding.judgement == judgement && finding.failed;
  }));
}

void Comparison::leave_out_same() {
  same_left_out += std::erase_if(findings, [](const Finding& f) { return !f.changed(); });
}

std::span<const std::string_view> sort_names() { return kSortNames; }

SortKey sort_named(std::string_view name) {
  const auto* found = std::ranges::find(kSortNames, name);
  assert(found != kSortNames.end());
  return static_cast<SortKey>(found - kSortNames.begin());
}

void sort_findings(std::vector<Finding>& findings, SortKey key) {
  static constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const auto delta = [](const Finding& f) { return f.delta().value_or(kLeast); };
  const auto before = [&](const Finding& a, const Finding& b) {
    switch (key) {
      case SortKey::kWorst:
        // Failures first, then by verdict; the largest growth first.
        return std::tuple(!a.failed, a.judgement, -share_or_most(a)) <
               std::tuple(!b.failed, b.judgement, -share_or_most(b));
      case SortKey::kDelta: return delta(a) > delta(b);
      case SortKey::kShare: return share_or_most(a) > share_or_most(b);
      case SortKey::kName: return a.spec < b.spec;
    }
    return false;
  };
  std::ranges::stable_sort(findings, before);
}

}  // namespace fusecalc
