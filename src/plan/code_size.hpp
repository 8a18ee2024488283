#pragma once

#include "plan/legality.hpp"

namespace fusecalc {

// Whether the code of a kernel stays within what compiles in seconds and runs in registers: how
// many ops it evaluates for an element, counting those that several readers need at different
// indices or in several phases as often as that; how many values a thread holds at once; and how
// many reductions wait for each other.
Verdict check_code(const ResolvedKernel& resolved, const Kernel& kernel);

}  // namespace fusecalc
