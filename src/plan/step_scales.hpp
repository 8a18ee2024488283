#pragma once

#include "graph/op_graph.hpp"

namespace fusecalc {

// Whether the scales of a product's operands can be applied to sums of 128 products each (a step of
// contract_sm90's tiles): both are 8-bit floats, and blocks along k are whole steps.
bool scales_steps(const OpGraph& graph, const Op& product);

}  // namespace fusecalc
