#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/reference.hpp"

namespace fusecalc {

// Elements to look at: the first and the last, the ends of some rows, and others at random; each
// once, in order.
std::vector<std::uint64_t> samples_of(const Tensor& tensor, std::uint64_t seed,
                                      std::uint64_t count);

// Whether samples of a result see what its op does: of a tensor that a scatter patches they do
// where the inputs name the rows.
bool samples_tell(const OpGraph& graph, TensorId result, std::span<const GraphInput> inputs);

// The same for a result of a graph: half of those of a tensor that a scatter patches lie in rows
// that it writes, as the others mostly hold what was there before.
std::vector<std::uint64_t> samples_of(const OpGraph& graph, TensorId result,
                                      std::span<const GraphInput> inputs, std::uint64_t seed,
                                      std::uint64_t count);

}  // namespace fusecalc
