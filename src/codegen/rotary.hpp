#pragma once

#include "codegen/scope.hpp"

namespace fusecalc {

// An element of a rotary op's result: of x and its partner, turned, or x itself.
Value rotated_element(const Scope& scope, const Op& op, const Index& at);

}  // namespace fusecalc
