#pragma once

#include "graph/op_graph.hpp"

namespace fusecalc {

// Results of convolutions in memory with their channels last: as a matrix whose rows are the pixels
// of all images, and whose columns are channels. An op list says so by views and transpositions.

// From an element's number in that matrix to its number in the result's own order.
StridedMap channels_last(const Shape& result);

// Whether an op stores what it makes of a convolution's result in that order.
bool stores_channels_last(const OpGraph& graph, const Op& op, const Op& convolution);

// Whether a tensor's elements, numbered as a convolution's result, lie in that order.
bool lies_channels_last(const OpGraph& graph, TensorId tensor, const Op& convolution);

}  // namespace fusecalc
