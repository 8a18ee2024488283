// Shapes and types of pooling and upsampling.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/checked.hpp"
#include "graph/inference.hpp"
#include "graph/windows.hpp"

namespace fusecalc {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 30U;

// How many spatial axes the first input has.
std::size_t spatial_of(const Inference& op) {
  op.require_tensors();
  const std::size_t rank = op.shape(0).size();
  const std::size_t spatial = spatial_axes(op.attributes(), rank);
  if (spatial == 0 || spatial >= rank) {
    op.fail_input(
        0, fmt::format("{} needs a channel axis and {} after it", op.describe(0),
                       spatial == 0 ? "a spatial one" : fmt::format("{} spatial ones", spatial)));
  }
  for (std::size_t i = rank - spatial; i < rank; ++i) {
    if (op.shape(0)[i] >= static_cast<std::uint64_t>(kLargest)) {
      op.fail_input(0, op.describe(0) + " has a spatial axis of 2^30 or more");
    }
  }
  return spatial;
}

void require_count(const Inference& op, Attribute attribute,
                   const std::vector<std::int64_t>& values, std::size_t count, std::int64_t least) {
  if (values.size() > 1 && values.size() != count) {
    op.fail_attribute(attribute, fmt::format("has {} entries, expected {}", values.size(), count));
  }
  for (const std::int64_t value : values) {
    if (value < least) op.fail_attribute(attribute, fmt::format("must be {} or more", least));
    if (value >= kLargest) op.fail_attribute(attribute, "must be less than 2^30");
  }
}

// How many results a window has along an axis. With ceil_mode the last window may reach beyond the
// padding, but must not begin there.
std::int64_t results_of(const Inference& op, std::size_t i, std::int64_t in) {
  const Attributes& at = op.attributes();
  const std::int64_t kernel = along(at.kernel, i, 1);
  const std::int64_t stride = along(at.stride, i, kernel);
  const std::int64_t padding = along(at.padding, i, 0);
  std::int64_t reach = along(at.dilation, i, 1);
  // All are below 2^30, and so is every window that fits.
  reach = std::min(reach * (kernel - 1) + 1, 4 * kLargest);
  if (2 * padding > reach) {
    op.fail_attribute(Attribute::kPadding,
                      fmt::format("must be at most half of what the kernel reaches, {}", reach));
  }
  if (padding > 0 && along(at.dilation, i, 1) > std::max<std::int64_t>(in, 1)) {
    op.fail_attribute(Attribute::kDilation, "steps over all elements of an axis with padding");
  }
  const std::int64_t room = in + 2 * padding - reach;
  if (room < 0) {
    op.fail(fmt::format("the kernel {} does not fit into {} with padding {}", kernel,
                        op.describe(0), padding));
  }
  std::int64_t results = room / stride + 1;
  if (at.ceil_mode && room % stride != 0 && results * stride < in + padding) ++results;
  return results;
}

// The result, a second one of indices, and how much is computed.
void finish(Inference& op, const Shape& shape, DType dtype) {
  if (!checked_elements(shape)) op.fail("the result is too large");
  op.outputs.push_back({shape, dtype});
  if (op.output_count() == 2) op.outputs.push_back({shape, DType::kI64});
  const Windows windows = windows_of(op.row(), op.attributes(), op.shape(0), shape);
  op.reads[0] = windows.planes;
  for (const WindowAxis& axis : windows.axes) op.reads[0] *= axis.touched();
  std::uint64_t flops = op.row().flops;
  bool fits = checked_multiply(flops, windows.planes);
  for (const WindowAxis& axis : windows.axes) {
    std::uint64_t taps = 0;
    switch (axis.kind) {
      case WindowAxis::Kind::kSteps:
        taps = static_cast<std::uint64_t>(axis.kernel * axis.out);
        break;
      case WindowAxis::Kind::kLinear: taps = static_cast<std::uint64_t>(2 * axis.out); break;
      case WindowAxis::Kind::kNearest: break;
      case WindowAxis::Kind::kShare:
        // Shares overlap where the extents leave a rest: each border that is no element's is read
        // from both sides.
        taps = static_cast<std::uint64_t>(axis.in + axis.out - std::gcd(axis.in, axis.out));
    }
    fits = fits && checked_multiply(flops, taps);
  }
  if (!fits) op.fail(fmt::format("takes more than {} floating-point operations", kMaxCount));
  op.total_flops = flops;
}

}  // namespace

void infer_pool(Inference& op) {
  const std::size_t spatial = spatial_of(op);
  const Attributes& at = op.attributes();
  if (at.kernel.empty()) op.fail("missing attribute \"kernel\" (the extents of the window)");
  require_count(op, Attribute::kKernel, at.kernel, spatial, 1);
  require_count(op, Attribute::kStride, at.stride, spatial, 1);
  require_count(op, Attribute::kPadding, at.padding, spatial, 0);
  require_count(op, Attribute::kDilation, at.dilation, spatial, 1);
  Shape shape = op.shape(0);
  const std::size_t first = shape.size() - spatial;
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto in = static_cast<std::int64_t>(shape[first + i]);
    shape[first + i] = static_cast<std::uint64_t>(results_of(op, i, in));
  }
  const bool averages = op.row().type_rule == TypeRule::kFloat;
  finish(op, shape, averages ? op.float_of(op.dtype(0)) : op.dtype(0));
}

void infer_adaptive_pool(Inference& op) {
  const std::size_t spatial = spatial_of(op);
  const Attributes& at = op.attributes();
  if (at.size.empty()) op.fail("missing attribute \"size\" (the extents of the result)");
  require_count(op, Attribute::kSize, at.size, spatial, 1);
  Shape shape = op.shape(0);
  const std::size_t first = shape.size() - spatial;
  for (std::size_t i = 0; i < spatial; ++i) {
    if (shape[first + i] == 0) op.fail_input(0, op.describe(0) + " has no elements to pool");
    shape[first + i] = static_cast<std::uint64_t>(along(at.size, i, 1));
  }
  const bool averages = op.row().type_rule == TypeRule::kFloat;
  finish(op, shape, averages ? op.float_of(op.dtype(0)) : op.dtype(0));
}

void infer_upsample(Inference& op) {
  const std::size_t spatial = spatial_of(op);
  const Attributes& at = op.attributes();
  if (at.size.empty() == !at.scale) {
    op.fail("needs either \"size\" (the extents of the result) or \"scale\" (a factor)");
  }
  require_count(op, Attribute::kSize, at.size, spatial, 1);
  Shape shape = op.shape(0);
  const std::size_t first = shape.size() - spatial;
  for (std::size_t i = 0; i < spatial; ++i) {
    std::uint64_t& extent = shape[first + i];
    if (extent == 0) op.fail_input(0, op.describe(0) + " has no elements to take");
    if (!at.scale) {
      extent = static_cast<std::uint64_t>(along(at.size, i, 1));
      continue;
    }
    const double scaled = std::floor(static_cast<double>(extent) * *at.scale);
    if (!(scaled >= 1 && scaled < static_cast<double>(kLargest))) {
      op.fail_attribute(Attribute::kScale,
                        fmt::format("makes an axis of {} out of {}", scaled, extent));
    }
    extent = static_cast<std::uint64_t>(scaled);
  }
  const bool weighs = op.row().type_rule == TypeRule::kFloat;
  finish(op, shape, weighs ? op.float_of(op.dtype(0)) : op.dtype(0));
}

}  // namespace fusecalc
