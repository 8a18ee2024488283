#include "reference/random.hpp"

#include <cassert>
#include <cmath>

#include "core/random_bits.hpp"
#include "reference/element.hpp"

namespace fusecalc {

double random_value(const RandomFill& fill, std::uint64_t element) {
  assert(fill.dtype.has_value());
  const std::uint64_t draw = fill.period == 0 ? element : element % fill.period;
  const std::uint64_t bits = random_bits(fill.seed, draw);
  if (fill.dtype == DType::kBool) return static_cast<double>(bits >> 63U);
  const double unit = static_cast<double>(bits >> 11U) * 0x1p-53;
  const double real = std::fma(fill.high - fill.low, unit, fill.low);
  switch (*fill.dtype) {
    case DType::kF64: return real;
    case DType::kF32: return static_cast<double>(static_cast<float>(real));
    default: break;
  }
  return is_float(*fill.dtype) ? cut_to(*fill.dtype, static_cast<float>(real)) : std::floor(real);
}

double InputData::value(std::uint64_t element) const {
  assert(fill.dtype.has_value());
  return data.empty() ? random_value(fill, element) : decode(*fill.dtype, data, element);
}

}  // namespace fusecalc
