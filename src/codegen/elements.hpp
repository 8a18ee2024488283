#pragma once

#include <cstddef>
#include <string>

#include "codegen/scope.hpp"

namespace fusecalc {

// The element of a tensor at an index: held on chip, a result of a row, computed from the elements
// of its op's operands if the kernel makes it, else loaded. At most once per block.
Value element(const Scope& scope, TensorId tensor, const Index& at);

// The element of an op's k-th result, computed here whether or not it is held.
Value computed_element(const Scope& scope, OpId id, std::size_t k, const Index& at);

// From an element to its row and its column in the matrix that a product makes.
struct MatrixPlaces {
  IndexTransform row;
  IndexTransform column;
};

// What a product makes of a sum for the element at an index: scaled, where that can wait until
// then, and its bias added.
std::string finished_sum(const Scope& scope, const Op& product, const Value& sum, const Index& at,
                         const MatrixPlaces& places);

}  // namespace fusecalc
