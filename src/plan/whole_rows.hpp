#pragma once

#include "plan/phases.hpp"

namespace fusecalc {

// Whether a kernel must hold whole rows of the product's result: it reduces them, and then computes
// with all of their elements.
bool holds_rows_of(const OpGraph& graph, const Kernel& kernel, const Phases& phases, OpId product);

// If so, the value of which the kernel keeps every element from the reduction's pass to the next:
// the last one out of which, without the product, all can be computed that is reduced and that
// follows.
TensorId kept_value_of(const OpGraph& graph, const Kernel& kernel, const Phases& phases,
                       OpId product);

}  // namespace fusecalc
