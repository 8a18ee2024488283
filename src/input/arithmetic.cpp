#include "input/arithmetic.hpp"

#include <cmath>

#include "graph/attributes.hpp"

namespace fusecalc {

double as_type(DType dtype, double value) {
  if (dtype == DType::kBool) return value != 0 ? 1 : 0;
  if (is_float(dtype)) return dtype == DType::kF64 ? value : static_cast<float>(value);
  return std::isfinite(value) ? std::trunc(value) : 0;
}

double computed(const OpRow& row, std::span<const double> inputs, DType dtype) {
  const double result = row.reference(inputs, {});
  // A truth has one bit: ~true is false.
  const bool bits = row.type_rule == TypeRule::kBits && dtype == DType::kBool;
  return as_type(dtype, bits ? std::fmod(result, 2) : result);
}

}  // namespace fusecalc
