#pragma once

#include "codegen/scope.hpp"

namespace fusecalc {

// An element of a result that comes from a place that is computed from its own (pad, roll, flip,
// repeat), or tells whether that place is the one named (one_hot).
Value relocated_element(const Scope& scope, const Op& op, const Index& at);

// The element of the first operand that an index of the second names for this place of a
// gather_elements or scatter_elements.
Index named_place(const Scope& scope, const Op& op, const Index& at);

}  // namespace fusecalc
