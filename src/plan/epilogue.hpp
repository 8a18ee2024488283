#pragma once

#include <cstdint>

#include "plan/legality.hpp"

namespace fusecalc {

// Whether the weights of a product may be computed as they are read, its prologue: of a linear op
// of so few rows that one block has them all, and makes each weight once.
bool computes_weights(const OpGraph& graph, OpId contraction);

// Whether the rows of a product's first operand may be computed as they are read: where they are
// many, each tile of columns makes its own. Never both operands.
bool computes_rows(const OpGraph& graph, OpId contraction);

// Either of them; or the keys and values of an attention op that takes pages (paged_rows.hpp).
bool takes_prologue(const OpGraph& graph, OpId contraction);

// Whether the other ops of a kernel can run as the prologue of its only contraction, or as its
// epilogue: on each tile of the result before it is written. What can be told from who feeds whom.
// Two contractions whose results are halves (halves.hpp) count as one, named by the first.
Verdict check_epilogue(const ResolvedKernel& resolved, const Kernel& kernel, OpId contraction);

// The rest, for a kernel of which that is true: the elements that are written, and the rows that
// are reduced, must lie in tiles.
Verdict check_epilogue_tiles(const ResolvedKernel& resolved, const Kernel& kernel, OpId contraction,
                             std::uint64_t on_chip_bytes);

}  // namespace fusecalc
