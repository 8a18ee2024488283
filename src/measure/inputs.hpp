#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/reference.hpp"

namespace fusecalc {

// Random data for every graph input, each with a seed of its own that follows from `seed` and from
// the input's place in the document; tensors that are views of one another are one.
//
// Floats are uniform in [-1, 1). A weight that a contraction multiplies by is narrower, so that
// results stay about as large as its other operand, however many products they add up. Where that
// yields results that are not finite, or too large for half precision (Adam's v under a square
// root, logarithms, quotients), inputs are uniform in [0.25, 1) instead: as few of them as
// needed, or all if there are many. Integers are small, bools are random.
//
// Indices are uniform over the rows that they choose from, and so is what they are computed from
// (index_bounds.hpp), as far as that is known. Those of scatter_update are given as
// data: distinct where there are fewer than rows, else with rows that are named twice and rows that
// are not named (repeated_rows.hpp). So are those of grouped_matmul: groups of about as many rows
// each.
std::vector<GraphInput> random_inputs(const OpGraph& graph, std::uint64_t seed);

// A part of a graph that is run and checked on its own: from data in `given`, which may be
// intermediate tensors of the graph, to `results`.
struct GraphPart {
  std::vector<TensorId> given{};
  std::vector<TensorId> results{};
};

// From the graph's inputs to its outputs.
GraphPart whole_of(const OpGraph& graph);
// The tensors that some ops read from outside, and their results that are used outside.
GraphPart part_of(const OpGraph& graph, std::span<const OpId> ops);

// The same for a part of a graph.
std::vector<GraphInput> random_inputs(const OpGraph& graph, const GraphPart& part,
                                      std::uint64_t seed);

}  // namespace fusecalc
