#pragma once

#include <span>

#include "graph/op_table.hpp"

namespace fusecalc {

// What an op computes, in exact arithmetic, as a function of numbers:
//   pointwise ops   of one element of each input, in order
//   reductions      of a whole row (argmax: the index within it)
//   softmaxes       of x, the row's maximum, and the row's sum of exp(x - maximum)
//   norms           of x, the mean, the variance and epsilon, before weight and bias
using ReferenceFunction = double (*)(std::span<const double> inputs, const Attributes& attributes);

// Null where an op moves or sums up elements and has no function of its own (movement, products,
// losses, dropout), and for custom.
ReferenceFunction reference_of(const OpRow& row);

// Whether a reduction adds up its row or averages it, so that some of the row tell about the rest.
enum class Adding : std::uint8_t { kNeither, kSum, kMean };
Adding adding_of(const OpRow& row);

}  // namespace fusecalc
