#include "report/sweep_words.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/format.hpp"
#include "report/cells.hpp"

namespace fusecalc {
namespace {

std::string in_words(Ranking ranking) {
  return ranking == Ranking::kBytes ? "moves the fewest bytes"
                                    : fmt::format("has the least {}", name_of(ranking));
}

}  // namespace

std::string crossover_in_words(const SweepDefinition& sweep, const Crossover& crossover) {
  const SweepPoint at = sweep.point(crossover.point);
  const DimOverride& dim = at.dims[crossover.axis];
  std::string fixed;
  const auto fix = [&](const std::string& text) { fixed += (fixed.empty() ? "" : ", ") + text; };
  if (sweep.documents.size() > 1) fix(sweep.documents[at.document].name);
  if (sweep.devices.size() > 1) fix(sweep.devices[at.device]);
  for (std::size_t axis = 0; axis < at.dims.size(); ++axis) {
    const DimOverride& other = at.dims[axis];
    if (axis != crossover.axis) fix(fmt::format("{} = {}", other.name, other.extent));
  }
  return fmt::format("{}from {} = {} on, {} {} (before: {})", fixed.empty() ? "" : fixed + ": ",
                     dim.name, dim.extent, crossover.to, in_words(crossover.ranking),
                     crossover.from);
}

std::string points_in_words(const SweepDefinition& sweep, const SweepSummary& summary) {
  std::string counts =
      fmt::format("{} point{}", grouped_digits(sweep.size()), sweep.size() == 1 ? "" : "s");
  if (summary.failed > 0) counts += fmt::format(", {} failed", grouped_digits(summary.failed));
  if (summary.missing > 0) counts += fmt::format(", {} missing", grouped_digits(summary.missing));
  return counts;
}

std::string bytes_in_words(const PlanOfPoint& plan) {
  return plan.bytes ? human_bytes(static_cast<std::uint64_t>(std::llround(*plan.bytes))) : "";
}

std::string time_in_words(const std::optional<double>& microseconds) {
  return microseconds ? human_seconds(*microseconds * 1e-6) : "";
}

}  // namespace fusecalc
