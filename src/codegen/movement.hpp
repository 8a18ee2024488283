#pragma once

#include "codegen/scope.hpp"

namespace fusecalc {

// An element of a movement op's result: that of an operand that it comes from.
Value moved_element(const Scope& scope, OpId id, const Index& at);

// Where a scatter puts the element of its updates at an index.
Index scatter_target(const Scope& scope, OpId id, const Index& at);

// The score that a loss picks in the row at an index, by the number of the row's class.
Value picked_score(const Scope& scope, OpId id, const Index& at);

// The gradient of a loss in the score at an index: only those of the rows' classes have one.
Value loss_gradient(const Scope& scope, OpId id, const Index& at);

}  // namespace fusecalc
