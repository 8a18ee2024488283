#pragma once

#include <cstdint>
#include <map>

#include "measure/inputs.hpp"

namespace fusecalc {

// The period, in elements, with which the generated data of a tensor repeats, for a scatter_update
// with at least as many indices as rows. Indices that repeat name some rows twice and leave others
// alone, as a program may; updates that repeat with them write the same values into the same row,
// so that the result does not depend on which of two writes comes last.
using Periods = std::map<TensorId, std::uint64_t>;

// The periods of given index tensors and of given tensors that updates are computed from, element
// by element. Empty where the scatters of a graph need different ones.
Periods find_periods(const OpGraph& graph, const GraphPart& part);

}  // namespace fusecalc
