#include "codegen/index_map.hpp"

#include <fmt/format.h>

namespace fusecalc {

LanePattern IndexTransform::pattern(unsigned width) const {
  if (axes.empty()) return LanePattern::kUniform;
  const Axis& inner = axes.back();
  if (axes.size() > 1 && inner.extent % width != 0) return LanePattern::kScattered;
  if (inner.stride > 1) return width == 1 ? LanePattern::kUnit : LanePattern::kScattered;
  return inner.stride == 0 ? LanePattern::kUniform : LanePattern::kUnit;
}

bool IndexTransform::aligned(unsigned width) const {
  if (offset % width != 0) return false;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i].stride % width != 0) return false;
  }
  return true;
}

std::string IndexTransform::text(std::string_view index) const {
  std::string sum;
  std::uint64_t inner = 1;  // elements of the axes that are done
  for (std::size_t i = axes.size(); i-- > 0; inner *= axes[i].extent) {
    if (axes[i].stride == 0) continue;
    std::string term(index);
    if (inner > 1) term += fmt::format(" / {}", inner);
    if (i > 0) term += fmt::format(" % {}", axes[i].extent);
    if (axes[i].stride > 1) term += fmt::format(" * {}", axes[i].stride);
    sum = sum.empty() ? term : fmt::format("{} + {}", term, sum);
  }
  if (offset > 0)
    return sum.empty() ? fmt::format("{}", offset) : fmt::format("{} + {}", sum, offset);
  return sum.empty() ? "0" : sum;
}

std::string IndexTransform::text_of_rows(std::uint64_t period, std::string_view row,
                                         std::string_view place) const {
  IndexTransform across;
  IndexTransform along;
  along.offset = offset;
  std::size_t first = axes.size();
  std::uint64_t inner = 1;
  while (first > 0 && inner < period) inner *= axes[--first].extent;
  if (inner != period) return {};
  const auto begin = axes.begin() + static_cast<std::ptrdiff_t>(first);
  across.axes.assign(axes.begin(), begin);
  along.axes.assign(begin, axes.end());
  const std::string rows = across.text(row);
  const std::string places = along.text(place);
  if (rows == "0") return places;
  return places == "0" ? rows : fmt::format("{} + {}", rows, places);
}

}  // namespace fusecalc
