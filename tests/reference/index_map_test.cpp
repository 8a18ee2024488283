#include "reference/index_map.hpp"

#include <doctest/doctest.h>

#include <array>

#include "reference/row_map.hpp"

namespace fusecalc {
namespace {

// The sources of a run, one by one.
std::vector<std::uint64_t> sources_of(const IndexMap& map, const StridedRange& range) {
  std::vector<Repeated> sources;
  map.append(range, sources);
  std::vector<std::uint64_t> elements;
  for (const Repeated& source : sources) {
    for (std::uint64_t i = 0; i < source.range.count; ++i) {
      elements.insert(elements.end(), source.times, source.range.first + i * source.range.step);
    }
  }
  return elements;
}

using Elements = std::vector<std::uint64_t>;

TEST_CASE("broadcasting repeats elements") {
  const IndexMap column(broadcast_map({2, 1}, {2, 3}));
  CHECK(sources_of(column, {0, 1, 6}) == Elements{0, 0, 0, 1, 1, 1});
  const IndexMap row(broadcast_map({3}, {2, 3}));
  CHECK(sources_of(row, {0, 1, 6}) == Elements{0, 1, 2, 0, 1, 2});
  CHECK(sources_of(row, {1, 3, 2}) == Elements{1, 1});
  CHECK(sources_of(IndexMap(broadcast_map({}, {2, 3})), {2, 1, 4}) == Elements{0, 0, 0, 0});
}

TEST_CASE("a range stays one range if the axes are the same") {
  const IndexMap same(broadcast_map({5, 7, 11}, {5, 7, 11}));
  std::vector<Repeated> sources;
  same.append({3, 13, 20}, sources);
  REQUIRE(sources.size() == 1);
  CHECK(sources[0].range == StridedRange{3, 13, 20});
}

TEST_CASE("a permutation turns rows into columns") {
  // [2, 3] read as [3, 2]: 0 3 1 4 2 5.
  const IndexMap turned({3, 2}, std::array<std::uint64_t, 2>{1, 3});
  CHECK(sources_of(turned, {0, 1, 6}) == Elements{0, 3, 1, 4, 2, 5});
  CHECK(sources_of(turned, {1, 2, 3}) == Elements{3, 4, 5});
  CHECK(sources_of(turned, {0, 3, 2}) == Elements{0, 4});  // across both axes
  std::vector<Repeated> sources;
  turned.append({1, 2, 3}, sources);
  CHECK(sources.size() == 1);
}

TEST_CASE("mapping a range equals mapping its elements one by one") {
  const Shape shape = {3, 4, 5};
  const IndexMap map(shape, std::array<std::uint64_t, 3>{1, 0, 7}, 2);
  for (std::uint64_t first = 0; first < 60; ++first) {
    for (std::uint64_t step = 1; step < 60; ++step) {
      const std::uint64_t count = (59 - first) / step + 1;
      Elements expected;
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t element = first + i * step;
        expected.push_back(2 + element / 20 + element % 5 * 7);
      }
      REQUIRE(sources_of(map, {first, count == 1 ? 0 : step, count}) == expected);
    }
  }
}

TEST_CASE("elements at a constant stride become ranges") {
  const std::vector<StridedRange> ranges = ranges_of(Elements{4, 6, 8, 7, 7, 8});
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0] == StridedRange{4, 2, 3});
  CHECK(ranges[1] == StridedRange{.first = 7});
  CHECK(ranges[2] == StridedRange{7, 1, 2});
}

TEST_CASE("rows are numbered in memory order along any axes") {
  // [2, 3, 4], reducing the outer and the inner axis: row 1 is 4..7 and 16..19.
  const RowMap rows(row_layout({2, 3, 4}, {true, false, true}));
  CHECK(rows.length() == 8);
  CHECK(rows.ranges_of_row(1) == std::vector<StridedRange>{{4, 1, 4}, {16, 1, 4}});
  CHECK(rows.row_of(18) == 1);
  CHECK(rows.row_of(9) == 2);
  const RowMap columns(row_layout({5, 6}, {true, false}));
  CHECK(columns.ranges_of_row(2) == std::vector<StridedRange>{{2, 6, 5}});
  const RowMap single(row_layout({1, 1}, {true, false}));
  CHECK(single.ranges_of_row(0) == std::vector<StridedRange>{{.first = 0}});
}

}  // namespace
}  // namespace fusecalc
