#include "input/onnx/constants.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Inputs = std::span<const Constant* const>;

std::int64_t saturated(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (std::isnan(value)) return 0;
  if (value >= kLimit) return std::numeric_limits<std::int64_t>::max();
  if (value < -kLimit) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

double half_to_double(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = std::ldexp(fraction, -24);
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent > 0) {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
double load(const char* place) {
  T value{};
  std::memcpy(&value, place, sizeof value);
  return static_cast<double>(value);
}

// One element as the format stores it, little-endian as this program's machines are. Empty for
// types that no shape or factor has.
std::optional<double> load_element(std::uint64_t type, const char* place) {
  switch (type) {
    case 1: return load<float>(place);
    case 2:
    case 9: return load<std::uint8_t>(place);
    case 3: return load<std::int8_t>(place);
    case 4: return load<std::uint16_t>(place);
    case 5: return load<std::int16_t>(place);
    case 6: return load<std::int32_t>(place);
    case 7: return load<std::int64_t>(place);
    case 10: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, place, sizeof bits);
      return half_to_double(bits);
    }
    case 11: return load<double>(place);
    case 12: return load<std::uint32_t>(place);
    case 13: return load<std::uint64_t>(place);
    case 16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, place, sizeof bits);
      return std::bit_cast<float>(std::uint32_t{bits} << 16U);
    }
    default: return std::nullopt;
  }
}

// Of the elements as numbers in the message: 16-bit floats are stored as their bits.
double from_bits(std::uint64_t type, std::int64_t bits) {
  if (type == 10) return half_to_double(static_cast<std::uint16_t>(bits));
  if (type == 16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  if (type == 13) return static_cast<double>(static_cast<std::uint64_t>(bits));
  return static_cast<double>(bits);
}

}  // namespace

bool may_fold(const Shape& shape) {
  const std::optional<std::uint64_t> elements = checked_elements(shape);
  return elements && *elements <= kMostFolded;
}

std::vector<std::int64_t> Constant::integers() const {
  std::vector<std::int64_t> result;
  for (const double element : elements) result.push_back(saturated(element));
  return result;
}

std::optional<Constant> constant_of(const OnnxTensor& tensor) {
  const std::optional<DType> dtype = dtype_of_onnx(tensor.type);
  if (!dtype || tensor.external || !may_fold(tensor.dims)) return std::nullopt;
  const std::uint64_t count = *checked_elements(tensor.dims);
  Constant result{{tensor.dims, *dtype}, {}};
  if (!tensor.raw.empty()) {
    const std::uint64_t size = bytes_of(*dtype, 1);
    if (is_packed(*dtype) || tensor.raw.size() != count * size) return std::nullopt;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::optional<double> element = load_element(tensor.type, tensor.raw.data() + i * size);
      if (!element) return std::nullopt;
      result.elements.push_back(*element);
    }
  } else if (!tensor.whole.empty()) {
    for (const std::int64_t bits : tensor.whole) {
      result.elements.push_back(from_bits(tensor.type, bits));
    }
  } else {
    result.elements = tensor.real;
  }
  if (result.elements.size() != count) return std::nullopt;
  return result;
}

}  // namespace fusecalc
