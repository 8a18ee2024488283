#pragma once

#include <span>
#include <vector>

#include "graph/op_graph.hpp"
#include "profile/alignment.hpp"

namespace fusecalc {

// Finds the launches beside matched convolutions that only change layouts for them: kernels that
// are named so, the fills that such a kernel needs, and elementwise copies as large as an operand
// or the result. `matches` are in the order of launches, as is the result.
std::vector<LayoutLaunch> find_layouts(const OpGraph& graph, std::span<const Match> matches,
                                       std::span<const ProfiledLaunch> launches);

}  // namespace fusecalc
