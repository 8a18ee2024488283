#pragma once

#include <cstdint>
#include <optional>

#include "graph/op_graph.hpp"
#include "plan/column_sums.hpp"

namespace fusecalc {

// Gradients of a layer_norm or an rms_norm as one op (kernels/norm_backward.cuh).

// Where an operand holds its elements in memory as the kernel copies them: in order, and as floats
// of whole bytes. Other operands are read element by element.
bool copied_as_stored(const OpGraph& graph, const Operand& operand);

// Whether the kernel computes in 64 bits.
bool computes_in_f64(const OpGraph& graph, const Op& op);

// Which gradients the op lists as its outputs: of x, of the weight, of the bias.
bool lists_gradient(const Op& op, std::size_t which);

// None where a block has not enough registers or shared memory for a row. `op` has a first input
// that is not empty.
std::optional<ColumnTiling> norm_backward_tiling(const OpGraph& graph, const Op& op,
                                                 std::uint64_t on_chip_bytes);

}  // namespace fusecalc
