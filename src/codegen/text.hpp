#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/dtype.hpp"

namespace fusecalc {

// The types that device code computes in, the narrower first.
enum class ComputeType : std::uint8_t { kBool, kI32, kI64, kF32, kF64 };

ComputeType compute_type(DType dtype);
std::string_view name_of(ComputeType type);
bool is_float(ComputeType type);

// The type that a tensor is stored in, as kernels/elements.cuh calls it.
std::string_view stored_type(DType dtype);

// A number as device code writes it, converted to the type as C++ converts, but defined for every
// number: integers saturate, and are 0 for NaN.
std::string literal(double number, ComputeType type);

// Replaces the words of an expression of the op table that are a single letter or
// begin with $; a word for which `replace` returns nothing stays.
std::string substitute(std::string_view expression,
                       const std::function<std::string(std::string_view)>& replace);

}  // namespace fusecalc
