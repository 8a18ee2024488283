#pragma once

#include <cstdint>
#include <vector>

#include "plan/legality.hpp"

namespace fusecalc {

// The phase in which a kernel stores a result of the op at this place that is needed outside: when
// it is there. A kernel of rows that overwrites memory with it waits for the last phase in which
// its ops read it: what it is computed from may be read again until then.
std::uint8_t stored_in(const ResolvedKernel& resolved, const Kernel& kernel, std::size_t place,
                       const Outline::Result& result);

// Whether a kernel overwrites memory in place (in-place results, scatter_update) that it also reads
// or writes at other elements or in a later phase. Blocks run in no order, so an element could be
// overwritten before it is read; and rows that a scatter writes could be lost to the op that fills
// the tensor. What the same thread reads before it writes the same element is fine.
Verdict check_overwrites(const ResolvedKernel& resolved, const Kernel& kernel);

// Whether a part of a kernel (siblings.hpp) overwrites memory that another one uses: the tiles of
// parts are computed in any order, so that not even the same element is safe.
Verdict check_overwrites_between(const OpGraph& graph, const std::vector<Kernel>& parts);

}  // namespace fusecalc
