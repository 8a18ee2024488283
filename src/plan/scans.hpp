#pragma once

#include "plan/phases.hpp"
#include "plan/verdict.hpp"

namespace fusecalc {

// Whether one kernel can hold a scan and the other ops. Its threads take the elements of rows in
// order, once, and have one element each: all other ops are pointwise, on as many elements as the
// scan, and read what the kernel makes at the element that they compute.
Verdict check_scan(const ResolvedKernel& resolved, const Kernel& kernel, OpId scan);

}  // namespace fusecalc
