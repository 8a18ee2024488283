#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/reference.hpp"

namespace fusecalc {

// Elements to check: the first and the last, the ends of some rows, and others at random; without
// duplicates, in order.
std::vector<std::uint64_t> samples_of(const Tensor& tensor, std::uint64_t seed,
                                      std::uint64_t count);

// Whether samples of a result include elements that its op computes: for a scatter, only if its
// indices are inputs, so that the rows written are known.
bool samples_cover_op(const OpGraph& graph, TensorId result, std::span<const GraphInput> inputs);

// The same for a result of a graph: for a scatter, half of the samples are in rows that it writes,
// because the others are mostly unchanged.
std::vector<std::uint64_t> samples_of(const OpGraph& graph, TensorId result,
                                      std::span<const GraphInput> inputs, std::uint64_t seed,
                                      std::uint64_t count);

}  // namespace fusecalc
