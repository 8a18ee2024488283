#pragma once

#include <optional>
#include <vector>

#include "codegen/generated.hpp"
#include "codegen/kernel_view.hpp"
#include "codegen/matrix_product.hpp"

namespace fusecalc {

// The kernel as one call of the vendor's library: a product that is `product`, a bias for
// its columns, and relu or the gelu of tanh, in that order and each if at all. Nothing where the
// kernel does more, has more results than its last one, or rounds an intermediate to another type.
std::optional<LibraryProduct> library_product(const KernelView& kernel, const Op& contraction,
                                              const MatrixProduct& product);

// All of them as one call, if they are equal products of the same a.
std::optional<LibraryProduct> in_one_call(
    const std::vector<std::optional<LibraryProduct>>& products);

}  // namespace fusecalc
