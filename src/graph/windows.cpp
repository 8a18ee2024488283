#include "graph/windows.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fusecalc {
namespace {

// How many of the numbers below `end` are in the `runs` runs of `length` numbers that begin at
// multiples of `step`.
std::int64_t places_in_runs(std::int64_t end, std::int64_t runs, std::int64_t length,
                            std::int64_t step) {
  if (end <= 0) return 0;
  if (length >= step) return std::min(end, (runs - 1) * step + length);
  const std::int64_t whole = std::min(end / step, runs);
  return whole * length + (whole < runs ? std::min(end % step, length) : 0);
}

// Of all places result * stride + tap * dilation - padding, those within the axis, each once.
// Results and taps may change roles: the one with fewer classes modulo the other's step is gone
// through. That is less than the root of the padded extent, whatever a file states.
std::uint64_t steps_touched(const WindowAxis& axis) {
  const std::int64_t shared = std::gcd(axis.stride, axis.dilation);
  std::int64_t step = axis.stride / shared;
  std::int64_t other_step = axis.dilation / shared;
  std::int64_t count = axis.out;
  std::int64_t others = axis.kernel;
  if (std::min(count, other_step) < std::min(others, step)) {
    std::swap(step, other_step);
    std::swap(count, others);
  }
  std::int64_t touched = 0;
  for (std::int64_t other = 0; other < std::min(others, step); ++other) {
    // The taps of one class lie a multiple of the stride apart: runs of as many as there are
    // results.
    const std::int64_t first = other * other_step * shared - axis.padding;
    const std::int64_t runs = (others - 1 - other) / step + 1;
    const std::int64_t apart = step * shared;
    const auto below = [&](std::int64_t place) {
      const std::int64_t end = place <= first ? 0 : (place - first + apart - 1) / apart;
      return places_in_runs(end, runs, count, other_step);
    };
    touched += below(axis.in) - below(0);
  }
  return static_cast<std::uint64_t>(touched);
}

}  // namespace

std::vector<WindowAxis::Tap> WindowAxis::taps(std::uint64_t result) const {
  const auto o = static_cast<std::int64_t>(result);
  std::vector<Tap> found;
  const auto add = [&](std::int64_t place, double weight) {
    if (place >= 0 && place < in) found.push_back({static_cast<std::uint64_t>(place), weight});
  };
  switch (kind) {
    case Kind::kSteps:
      for (std::int64_t k = 0; k < kernel; ++k) add(o * stride + k * dilation - padding, 1);
      break;
    case Kind::kShare:
      for (std::int64_t y = o * in / out; y < ((o + 1) * in + out - 1) / out; ++y) add(y, 1);
      break;
    case Kind::kNearest: add(o * in / out, 1); break;
    case Kind::kLinear: {
      const std::int64_t place = std::max<std::int64_t>(o * per_result + start, 0);
      const double part = static_cast<double>(place % parts) / static_cast<double>(parts);
      add(place / parts, 1 - part);
      add(std::min(place / parts + 1, in - 1), part);
      break;
    }
  }
  return found;
}

std::uint64_t WindowAxis::touched() const {
  switch (kind) {
    case Kind::kShare: return static_cast<std::uint64_t>(in);
    case Kind::kNearest: return static_cast<std::uint64_t>(std::min(in, out));
    case Kind::kLinear: {
      const auto first_of = [&](std::int64_t o) {
        return std::max<std::int64_t>(o * per_result + start, 0) / parts;
      };
      const std::int64_t end = std::min(first_of(out - 1) + 2, in);
      // Pairs that are at most two apart leave no gaps, others do not overlap.
      if (per_result <= 2 * parts) return static_cast<std::uint64_t>(end - first_of(0));
      return static_cast<std::uint64_t>(2 * (out - 1) + end - first_of(out - 1));
    }
    case Kind::kSteps: break;
  }
  return steps_touched(*this);
}

std::int64_t WindowAxis::padded_taps(std::uint64_t result) const {
  const std::int64_t first = static_cast<std::int64_t>(result) * stride - padding;
  return std::min(first + kernel, in + padding) - first;
}

std::size_t spatial_axes(const Attributes& attributes, std::size_t rank) {
  const std::size_t listed = std::max(attributes.kernel.size(), attributes.size.size());
  if (listed > 1) return listed;
  return rank < 2 ? 0 : rank - 2;
}

Windows windows_of(const OpRow& row, const Attributes& attributes, const Shape& in,
                   const Shape& out) {
  const std::size_t count = spatial_axes(attributes, in.size());
  const std::size_t first = in.size() - count;
  Windows windows{.axes = {}, .planes = elements_between(in, 0, first)};
  for (std::size_t i = 0; i < count; ++i) {
    WindowAxis axis{.in = static_cast<std::int64_t>(in[first + i]),
                    .out = static_cast<std::int64_t>(out[first + i])};
    switch (row.family) {
      case OpFamily::kAdaptivePool: axis.kind = WindowAxis::Kind::kShare; break;
      case OpFamily::kUpsample:
        axis.kind = row.accumulator == Accumulator::kNone ? WindowAxis::Kind::kNearest
                                                          : WindowAxis::Kind::kLinear;
        axis.per_result = attributes.align_corners ? axis.in - 1 : 2 * axis.in;
        axis.start = attributes.align_corners ? 0 : axis.in - axis.out;
        axis.parts =
            attributes.align_corners ? std::max<std::int64_t>(axis.out - 1, 1) : 2 * axis.out;
        break;
      default:
        axis.kernel = along(attributes.kernel, i, 1);
        axis.stride = along(attributes.stride, i, axis.kernel);
        axis.padding = along(attributes.padding, i, 0);
        axis.dilation = along(attributes.dilation, i, 1);
    }
    windows.axes.push_back(axis);
  }
  return windows;
}

std::vector<WindowAxis> convolution_axes(const Attributes& attributes, const Shape& x,
                                         const Shape& weight, const Shape& out) {
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    axes.push_back({.in = static_cast<std::int64_t>(x[i + 2]),
                    .out = static_cast<std::int64_t>(out[i + 2]),
                    .kernel = static_cast<std::int64_t>(weight[i + 2]),
                    .stride = along(attributes.stride, i, 1),
                    .padding = along(attributes.padding, i, 0),
                    .dilation = along(attributes.dilation, i, 1)});
  }
  return axes;
}

}  // namespace fusecalc
