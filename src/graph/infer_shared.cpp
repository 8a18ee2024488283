#include "graph/infer_shared.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/checked.hpp"

namespace fusecalc {

DType product_type(DType a, DType b) {
  const DType dtype = promote(a, b);
  if (!is_float(dtype)) return DType::kI32;
  const bool narrow =
      dtype == DType::kFp8E4m3 || dtype == DType::kFp8E5m2 || dtype == DType::kFp4E2m1;
  return narrow ? DType::kBf16 : dtype;
}

DType statistics_type(const Inference& op, std::size_t i) {
  return promote(op.float_of(op.dtype(i)), DType::kF32);
}

void require_shape(const Inference& op, std::size_t i, const Shape& expected,
                   std::string_view what) {
  if (i >= op.input_count() || op.shape(i) == expected) return;
  op.fail_input(
      i, fmt::format("{} must have the shape {} {}", op.describe(i), to_string(expected), what));
}

ConvolutionAxis convolution_axis(const Inference& op, std::size_t i, std::size_t count) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 31U;
  const Attributes& at = op.attributes();
  const auto read = [&](Attribute attribute, const std::vector<std::int64_t>& values,
                        std::int64_t least) {
    if (values.size() > 1 && values.size() != count) {
      op.fail_attribute(attribute, fmt::format("has {} entries, expected {}, one for each spatial "
                                               "axis, or one for all",
                                               values.size(), count));
    }
    const std::int64_t value = along(values, i, least);
    if (value < least) op.fail_attribute(attribute, fmt::format("must be {} or more", least));
    if (value > kLargest) op.fail_attribute(attribute, "must be at most 2^31");
    return value;
  };
  return {.stride = read(Attribute::kStride, at.stride, 1),
          .padding = read(Attribute::kPadding, at.padding, 0),
          .dilation = read(Attribute::kDilation, at.dilation, 1),
          .output_padding = read(Attribute::kOutputPadding, at.output_padding, 0)};
}

std::uint64_t window_places(const Inference& op, const ConvolutionAxis& axis, std::uint64_t extent,
                            std::uint64_t taps, std::size_t x, std::size_t weight) {
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 31U;
  const bool large = extent > kLargest || taps > kLargest;
  const auto window = large ? 0 : axis.dilation * (static_cast<std::int64_t>(taps) - 1) + 1;
  const auto padded = large ? 0 : static_cast<std::int64_t>(extent) + 2 * axis.padding;
  if (large || window < 1 || padded < window) {
    op.fail(fmt::format("the window of {} does not fit into {} with padding {}",
                        op.describe(weight), op.describe(x), axis.padding));
  }
  return static_cast<std::uint64_t>((padded - window) / axis.stride + 1);
}

std::uint64_t counted_flops(const Inference& op, std::initializer_list<std::uint64_t> factors) {
  std::uint64_t flops = 1;
  for (const std::uint64_t factor : factors) {
    if (!checked_multiply(flops, factor)) {
      op.fail(fmt::format("takes more than {} floating-point operations", kMaxCount));
    }
  }
  return flops;
}

std::uint64_t visible_pairs(std::uint64_t queries, std::uint64_t keys,
                            std::optional<std::int64_t> window) {
  const std::uint64_t most = window ? std::min(keys, static_cast<std::uint64_t>(*window)) : keys;
  const std::uint64_t seeing = std::min(queries, keys);  // the last ones
  if (seeing == 0) return 0;
  const std::uint64_t full = std::min(seeing, keys - most + 1);
  const std::uint64_t shorter = seeing - full;
  const std::uint64_t ends = (keys - full) + (keys - seeing + 1);  // keys of the last, of the first
  return full * most + (shorter % 2 == 0 ? shorter / 2 * ends : ends / 2 * shorter);
}

std::vector<std::size_t> gradients_of(const Inference& op, std::size_t most) {
  std::vector<std::size_t> chosen;
  const std::vector<std::int64_t>& listed = op.attributes().gradients;
  if (listed.empty()) {
    for (std::size_t i = 0; i < op.output_count(); ++i) chosen.push_back(i);
    return chosen;
  }
  if (listed.size() != op.output_count()) {
    op.fail_attribute(Attribute::kGradients,
                      fmt::format("lists {} gradients, but the op has {} outputs", listed.size(),
                                  op.output_count()));
  }
  for (const std::int64_t gradient : listed) {
    const bool fits = gradient >= 0 && gradient < static_cast<std::int64_t>(most) &&
                      (chosen.empty() || chosen.back() < static_cast<std::size_t>(gradient));
    if (!fits) {
      op.fail_attribute(Attribute::kGradients,
                        fmt::format("must list numbers from 0 to {}, in order", most - 1));
    }
    chosen.push_back(static_cast<std::size_t>(gradient));
  }
  return chosen;
}

}  // namespace fusecalc
