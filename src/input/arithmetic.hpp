#pragma once

#include <span>

#include "core/dtype.hpp"
#include "graph/op_table.hpp"

namespace fusecalc {

// A constant as an element of this type. Integers are 0 where there is no number.
double as_type(DType dtype, double value);

// What a pointwise op without attributes makes of constants, as an element of this type.
double computed(const OpRow& row, std::span<const double> inputs, DType dtype);

}  // namespace fusecalc
