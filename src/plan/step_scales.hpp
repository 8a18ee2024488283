#pragma once

#include "graph/op_graph.hpp"

namespace fusecalc {

// What wgmma adds up of 8-bit floats is right to 16 bits: whether a product's result has no more.
bool fits_fp8_sums(const OpGraph& graph, const Op& product);

// Whether the scales of a product's operands can be applied to sums of 128 products each (a step of
// contract_sm90's tiles): both are 8-bit floats, blocks along k are whole steps, and the sums fit.
bool scales_steps(const OpGraph& graph, const Op& product);

}  // namespace fusecalc
