#pragma once

#include "codegen/scope.hpp"

namespace fusecalc {

// An element of the k-th result of pooling or upsampling: a loop over the elements of its window.
Value windowed_element(const Scope& scope, OpId id, std::size_t k, const Index& at);

}  // namespace fusecalc
