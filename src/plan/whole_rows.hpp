#pragma once

#include "plan/phases.hpp"

namespace fusecalc {

// Whether a kernel must hold whole rows of the product's result: it reduces them, and then computes
// with all of their elements.
bool holds_rows_of(const OpGraph& graph, const Kernel& kernel, const Phases& phases, OpId product);

}  // namespace fusecalc
