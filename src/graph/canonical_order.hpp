#pragma once

#include <cstdint>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// Per op its place in an execution order that follows from what the ops compute and read, and not
// from the order in which the document has them. Ops that only names tell apart are ordered by the
// names of what they make. An op comes soon after what it reads, so neighbours tend to share
// tensors.
std::vector<std::uint32_t> canonical_ranks(const OpGraph& graph);

}  // namespace fusecalc
