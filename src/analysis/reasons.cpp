#include "analysis/reasons.hpp"

#include <fmt/format.h>

#include "core/format.hpp"

namespace fusecalc {

Verdict in_document(const Verdict& verdict, const Recomputation& recomputation) {
  const auto named = [&](OpId op) { return op == kNone ? kNone : recomputation.original[op]; };
  return {verdict.obstacle, named(verdict.first), named(verdict.second)};
}

std::string reason_of(const GraphAnalysis& analysis, const KernelAnalysis& kernel) {
  return explain(analysis.graph, kernel.launch);
}

std::string reason_of(const GraphAnalysis& analysis, const Boundary& boundary) {
  if (!boundary.verdict.legal()) return explain(analysis.graph, boundary.verdict);
  const std::int64_t saved = boundary.bytes_saved;
  if (saved > 0) {
    return "could be fused, saving " + human_bytes(static_cast<std::uint64_t>(saved));
  }
  if (saved == 0) return "could be fused, saving nothing";
  return "fusing them would move " + human_bytes(static_cast<std::uint64_t>(-saved)) +
         " more: rows that do not fit on chip would be read again";
}

std::string full_reason_of(const GraphAnalysis& analysis, const Boundary& boundary) {
  const Verdict& verdict = boundary.verdict;
  if (verdict.first == kNone || verdict.second == kNone) return reason_of(analysis, boundary);
  const std::string ops =
      fmt::format("{} {} {}", analysis.graph.ops[verdict.first].row->name,
                  boundary.feeds ? "->" : "and", analysis.graph.ops[verdict.second].row->name);
  std::string reason = reason_of(analysis, boundary);
  return reason.starts_with(ops) ? reason : ops + ": " + reason;
}

}  // namespace fusecalc
