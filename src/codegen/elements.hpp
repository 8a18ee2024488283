#pragma once

#include <cstddef>

#include "codegen/scope.hpp"

namespace fusecalc {

// The element of a tensor at an index: held on chip, a result of a row, computed from the elements
// of its op's operands if the kernel makes it, else loaded. At most once per block.
Value element(const Scope& scope, TensorId tensor, const Index& at);

// The element of an op's k-th result, computed here whether or not it is held.
Value computed_element(const Scope& scope, OpId id, std::size_t k, const Index& at);

}  // namespace fusecalc
