#include "graph/windows.hpp"

#include <algorithm>

namespace fusecalc {

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
  std::int64_t most = in;
  switch (kind) {
    case Kind::kShare: return static_cast<std::uint64_t>(in);
    case Kind::kNearest: return static_cast<std::uint64_t>(std::min(in, out));
    case Kind::kLinear:
      if (out >= in) return static_cast<std::uint64_t>(in);
      most = std::min(in, 2 * out);
      break;
    case Kind::kSteps: {
      if (dilation > 1) break;
      const std::int64_t end = (out - 1) * stride - padding + kernel;
      // Windows that overlap have all up to the last one's end, others what does not lie in
      // padding.
      const std::int64_t clipped = padding + std::max<std::int64_t>(end - in, 0);
      return static_cast<std::uint64_t>(stride <= kernel ? std::min(in, end)
                                                         : out * kernel - clipped);
    }
  }
  // Files may state any extents; few windows leave gaps, and those of usual sizes are told exactly.
  constexpr std::int64_t kMost = std::int64_t{1} << 18U;
  if (in > kMost || out > kMost / kernel) return static_cast<std::uint64_t>(most);
  std::vector<bool> reached(static_cast<std::size_t>(in), false);
  for (std::int64_t o = 0; o < out; ++o) {
    for (const Tap& tap : taps(static_cast<std::uint64_t>(o))) reached[tap.place] = true;
  }
  return static_cast<std::uint64_t>(std::ranges::count(reached, true));
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

}  // namespace fusecalc
