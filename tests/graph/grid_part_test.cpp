// Parts of tensors that lie on grids, against their elements one by one.

#include "graph/grid_part.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "graph/shape.hpp"

using namespace fusecalc;

namespace {

// Numbers below a limit, the same in every run.
class Draws {
 public:
  std::uint64_t below(std::uint64_t limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33U) % limit;
  }

 private:
  std::uint64_t state_ = 1;
};

// A part of a tensor of this shape, as the map of a slice.
StridedMap slice_of(Draws& draws, const Shape& shape) {
  const std::vector<std::uint64_t> strides = strides_of(shape);
  StridedMap map;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::uint64_t first = draws.below(shape[i]);
    const std::uint64_t step = 1 + draws.below(3);
    map.offset += first * strides[i];
    map.append(1 + draws.below((shape[i] - first - 1) / step + 1), step * strides[i]);
  }
  return map;
}

std::set<std::uint64_t> places_of(const StridedMap& map) {
  std::uint64_t elements = 1;
  for (const StridedMap::Axis& axis : map.axes) elements *= axis.extent;
  std::set<std::uint64_t> places;
  for (std::uint64_t i = 0; i < elements; ++i) places.insert(map(i));
  return places;
}

}  // namespace

TEST_CASE("the union of parts has as many elements as are in one of them") {
  Draws draws;
  for (int n = 0; n < 3000; ++n) {
    CAPTURE(n);
    Shape shape;
    for (std::uint64_t i = 0; i <= draws.below(3); ++i) shape.push_back(1 + draws.below(7));
    std::vector<GridPart> parts;
    std::set<std::uint64_t> places;
    for (std::uint64_t i = 0; i <= draws.below(4); ++i) {
      const StridedMap map = slice_of(draws, shape);
      const std::optional<GridPart> part = grid_part(map, shape);
      REQUIRE(part);
      const std::set<std::uint64_t> own = places_of(map);
      REQUIRE(part->elements() == own.size());
      parts.push_back(*part);
      places.insert(own.begin(), own.end());
    }
    std::vector<const GridPart*> all;
    for (const GridPart& part : parts) all.push_back(&part);
    REQUIRE(elements_of_union(all) == places.size());
  }
}

TEST_CASE("parts are grids in the shape that they were cut in, and others none") {
  // Rows 1 and 2 of four of ten, as one run.
  StridedMap rows{.axes = {{20, 1}}, .offset = 10};
  const std::optional<GridPart> part = grid_part(rows, {4, 10});
  REQUIRE(part);
  CHECK(part->axes == std::vector<GridPart::Axis>{{1, 1, 2}, {0, 1, 10}});
  // A run that begins within a row is one in a row of all elements only.
  StridedMap run{.axes = {{20, 1}}, .offset = 5};
  CHECK(!grid_part(run, {4, 10}));
  CHECK(grid_part(run, {40})->axes == std::vector<GridPart::Axis>{{5, 1, 20}});
  // Windows of three of a row, one apart.
  StridedMap windows{.axes = {{8, 1}, {3, 1}}, .offset = 0};
  CHECK(!grid_part(windows, {10}));
}

TEST_CASE("unions of parts as large as a file may state are told at once") {
  constexpr std::uint64_t kMany = std::uint64_t{1} << 60U;
  const GridPart halves{.axes = {{.first = 0, .step = 2, .count = kMany / 2}}};
  const GridPart thirds{.axes = {{.first = 0, .step = 3, .count = kMany / 3}}};
  // Every second third is a half, too, the first and the last among them.
  CHECK(elements_of_union(std::vector{&halves, &thirds}) ==
        kMany / 2 + kMany / 3 - (kMany / 3 + 1) / 2);
  const GridPart large{.axes = {{.first = 0, .step = 5003, .count = 9}}};
  CHECK(!elements_of_union(std::vector{&halves, &large}));
}

TEST_CASE("a part leads back to the elements that it has") {
  const GridPart part{.axes = {{.first = 1, .step = 2, .count = 2}, {.first = 3, .count = 4}}};
  const StridedMap map = map_of(part, {5, 10});
  CHECK(map(0) == 13);
  CHECK(map(3) == 16);
  CHECK(map(4) == 33);
  CHECK(grid_part(map, {5, 10}) == part);
}

TEST_CASE("of a part, what lies in a range of an axis is a part of that range") {
  const GridPart part{.axes = {{.first = 1, .step = 3, .count = 4}}};  // 1, 4, 7, 10
  CHECK(part_within(part, 0, 2, 6) == GridPart{.axes = {{.first = 2, .step = 3, .count = 2}}});
  CHECK(part_within(part, 0, 4, 1) == GridPart{.axes = {{.first = 0}}});
  CHECK(part_within(part, 0, 0, 20) == part);
  CHECK_FALSE(part_within(part, 0, 5, 2));
  CHECK_FALSE(part_within(part, 0, 11, 9));
}
