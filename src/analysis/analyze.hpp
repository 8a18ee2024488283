#pragma once

#include <optional>
#include <string>

#include "analysis/analysis.hpp"
#include "graph/size_chain.hpp"

namespace fusecalc {

Analysis analyze_chain(const SizeChain& chain, std::string name, const std::string& document);

// `plan` is the headline plan; default: explicit if the graph has "fuse", else auto.
Analysis analyze_graph(OpGraph graph, std::string name, const Device& device,
                       std::optional<PlanKind> plan);

}  // namespace fusecalc
