#pragma once

#include <cstdint>

#include "plan/legality.hpp"

namespace fusecalc {

// Whether the other ops of a kernel can run as the epilogue of its only contraction: on each tile
// of the result before it is written. What can be told from who feeds whom.
Verdict check_epilogue(const ResolvedKernel& resolved, const Kernel& kernel, OpId contraction);

// The rest, for a kernel of which that is true: the elements that are written, and the rows that
// are reduced, must lie in tiles.
Verdict check_epilogue_tiles(const ResolvedKernel& resolved, const Kernel& kernel, OpId contraction,
                             std::uint64_t on_chip_bytes);

}  // namespace fusecalc
