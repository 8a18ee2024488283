#pragma once

#include <optional>
#include <string>

#include "analysis/analysis.hpp"
#include "graph/size_chain.hpp"

namespace fusecalc {

Analysis analyze_chain(const SizeChain& chain, std::string name, const std::string& document);

// The plan that is asked for, or the one that comes first for the graph. Throws Error if it has no
// such plan.
PlanKind headline_of(const OpGraph& graph, std::optional<PlanKind> plan);

// `plan` is the headline plan; default: explicit if the graph has "fuse", else auto.
Analysis analyze_graph(OpGraph graph, std::string name, const Device& device,
                       std::optional<PlanKind> plan);

}  // namespace fusecalc
