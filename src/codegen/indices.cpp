#include "codegen/indices.hpp"

#include <fmt/format.h>

#include "codegen/matrix_access.hpp"

namespace fusecalc {
namespace {

Index map_index(const Scope& scope, const Index& from, const IndexTransform& map) {
  LanePattern pattern = from.pattern;
  bool aligned = from.aligned;
  if (from.pattern == LanePattern::kUnit) {
    if (from.aligned) {
      pattern = map.pattern(scope.block.width);
      aligned = map.aligned(scope.block.width);
    } else if (map.axes.size() > 1 || (!map.axes.empty() && map.axes[0].stride > 1)) {
      pattern = LanePattern::kScattered;
    } else if (map.axes.empty() || map.axes[0].stride == 0) {
      pattern = LanePattern::kUniform;
    }
  }
  const bool per_lane = from.pattern == LanePattern::kUnit && pattern == LanePattern::kScattered;
  std::string text;
  // Nothing is divided by the length of a row where a loop knows both numbers.
  if (scope.loop.row_period > 0 && from.name == scope.loop.element.name) {
    text = map.text_of_rows(scope.loop.row_period, "q", per_lane ? "(r + j)" : "r");
  }
  if (text.empty()) text = map.text(per_lane ? from.lane() : from.name);
  Index result = scope.define_index(text, pattern, aligned);
  if (from.path) {
    result.path = *from.path;
    result.path->push_back(map);
  }
  return result;
}

std::string key_of(const Index& from, const IndexTransform& map) {
  return fmt::format("{} {}", from.name, map.text("x"));
}

}  // namespace

Index mapped(const Scope& scope, const Index& from, const IndexTransform& map) {
  if (map.identity()) return from;
  const std::string key = key_of(from, map);
  const auto found = scope.block.indices.find(key);
  if (found != scope.block.indices.end()) return found->second;
  const bool in_matrix =
      scope.loop.matrix && (from.name == scope.loop.element.name ||
                            (scope.loop.matrix->order && from.name == place_in_matrix(scope).name));
  // Of a place in a matrix that the loop's own leads to, too.
  const bool behind = scope.loop.matrix && !in_matrix && !scope.loop.matrix->order && from.path &&
                      from.path->size() == 1;
  const std::optional<StridedMap> both = behind ? joined(from.path->front(), map) : std::nullopt;
  const Index result = in_matrix ? map_in_matrix(scope, from, map)
                       : both    ? map_in_matrix(scope, scope.loop.element, *both)
                                 : map_index(scope, from, map);
  return scope.block.indices.emplace(key, result).first->second;
}

Index mapped_back(const Scope& scope, const Index& to, const IndexTransform& permutation) {
  Index result = mapped(scope, to, inverse(permutation));
  scope.block.indices.emplace(key_of(result, permutation), to);
  return result;
}

Index looked_up(const Scope& scope, const Index& rows, const Value& id, std::uint64_t stride,
                const Index& rest) {
  const bool uniform = id.uniform && rows.pattern == LanePattern::kUniform;
  const LanePattern pattern = uniform ? rest.pattern : LanePattern::kScattered;
  const bool per_lane = pattern == LanePattern::kScattered;
  Index result =
      scope.define_index(fmt::format("{} + (idx){} * {} + {}", per_lane ? rows.lane() : rows.name,
                                     id.text, stride, per_lane ? rest.lane() : rest.name),
                         pattern, rest.aligned && stride % scope.block.width == 0);
  // The other rows lie at multiples of the stride, too.
  while (result.align < rest.align && stride % (std::uint64_t{2} * result.align) == 0)
    result.align *= 2;
  return result;
}

}  // namespace fusecalc
