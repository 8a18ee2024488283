#include "analysis/reasons.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/format.hpp"

namespace fusecalc {
namespace {

// By ObstacleIn.
constexpr std::array<std::string_view, 3> kPrefixes = {
    "", "if they were one kernel: ", "one of the two kernels cannot be launched alone: "};

}  // namespace

Verdict in_document(const Verdict& verdict, const Recomputation& recomputation) {
  const auto named = [&](OpId op) { return op == kNone ? kNone : recomputation.original[op]; };
  return {verdict.obstacle, named(verdict.first), named(verdict.second), named(verdict.third)};
}

void name_in_document(Boundary& boundary, const Recomputation& recomputation) {
  boundary.verdict = in_document(boundary.verdict, recomputation);
  for (OpId* op : {&boundary.here, &boundary.there}) {
    if (*op != kNone) *op = recomputation.original[*op];
  }
}

std::string reason_of(const GraphAnalysis& analysis, const KernelAnalysis& kernel) {
  return explain(analysis.graph, kernel.launch);
}

std::string reason_of(const GraphAnalysis& analysis, const Boundary& boundary) {
  if (!boundary.verdict.legal()) {
    return std::string(kPrefixes[static_cast<std::size_t>(boundary.in)]) +
           explain(analysis.graph, boundary.verdict);
  }
  const std::int64_t saved = boundary.bytes_saved;
  if (saved > 0) {
    return "could be fused, saving " + human_bytes(static_cast<std::uint64_t>(saved));
  }
  if (saved == 0) return "could be fused, saving nothing";
  return "fusing them would move " + human_bytes(static_cast<std::uint64_t>(-saved)) +
         " more: rows that do not fit on chip would be read again";
}

std::string full_reason_of(const GraphAnalysis& analysis, const Boundary& boundary) {
  std::string reason = reason_of(analysis, boundary);
  if (boundary.here == kNone || boundary.there == kNone) return reason;
  const std::string_view here = analysis.graph.ops[boundary.here].row->name;
  const std::string_view there = analysis.graph.ops[boundary.there].row->name;
  if (boundary.feeds && !bystands(boundary.verdict.obstacle)) {
    return fmt::format("{} -> {}: {}", here, there, reason);
  }
  const std::string ops = fmt::format("{} and {}", here, there);
  const bool said =
      reason.starts_with(ops + " ") || reason.starts_with(fmt::format("{} and {} ", there, here));
  return said ? reason : ops + ": " + reason;
}

}  // namespace fusecalc
