#pragma once

#include "graph/op_graph.hpp"

namespace fusecalc {

// Tensors of convolutions in memory with their channels last: as a matrix whose rows are the pixels
// of all images (or the taps of all filters), and whose columns are channels. An op list says so by
// views and transpositions.

// From an element's number in that matrix to its number in the tensor's own order.
StridedMap channels_last(const Shape& shape);

// Whether an op stores what it makes of a convolution's result in that order.
bool stores_channels_last(const OpGraph& graph, const Op& op, const Op& convolution);

// Whether a tensor's elements, whose second axis is the channels, lie in that order.
bool lies_channels_last(const Tensor& tensor);

}  // namespace fusecalc
