#include "graph/strided_map.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

namespace fusecalc {
namespace {

using Axis = StridedMap::Axis;

StridedMap map_of(std::initializer_list<Axis> axes, std::uint64_t offset = 0) {
  StridedMap map;
  for (const Axis& axis : axes) map.append(axis.extent, axis.stride);
  map.offset = offset;
  return map;
}

// Columns 4 to 6 of a matrix of 5 rows and 8 columns.
const StridedMap kColumns = map_of({{5, 8}, {3, 1}}, 4);

TEST_CASE("a map leads from an element's number to that in the other tensor") {
  CHECK(kColumns(0) == 4);
  CHECK(kColumns(2) == 6);
  CHECK(kColumns(3) == 12);
  CHECK(kColumns(14) == 38);
  CHECK(map_of({}, 7)(0) == 7);
}

TEST_CASE("axes that are one in both tensors are merged") {
  CHECK(map_of({{3, 20}, {4, 5}, {5, 1}}).axes.size() == 1);
  CHECK(map_of({{3, 20}, {1, 77}, {4, 5}, {5, 1}}).identity());
  CHECK(map_of({{3, 0}, {4, 0}}).axes == std::vector<Axis>{{12, 0}});
  CHECK(kColumns.axes.size() == 2);
}

TEST_CASE("slices and repetitions keep the order, transposes do not") {
  CHECK(!kColumns.permutes());
  CHECK(!map_of({{3, 0}, {4, 1}}).permutes());
  CHECK(!map_of({{4, 1}, {3, 0}}).permutes());
  CHECK(map_of({{4, 1}, {3, 4}}).permutes());
  CHECK(map_of({{4, 1}, {2, 0}, {3, 4}}).permutes());
}

TEST_CASE("what is repeated counts once") {
  CHECK(kColumns.distinct() == 15);
  CHECK(map_of({{3, 0}, {4, 1}}).distinct() == 4);
  CHECK(map_of({}, 3).distinct() == 1);
}

// Joined maps lead where the two lead one after the other.
void check_joined(const StridedMap& first, const StridedMap& second, std::uint64_t elements) {
  const auto both = joined(first, second);
  REQUIRE(both);
  for (std::uint64_t i = 0; i < elements; ++i) CHECK((*both)(i) == second(first(i)));
}

TEST_CASE("a slice of a slice is a slice") {
  // Every other of rows 1 to 4, and of those columns 1 and 2.
  check_joined(map_of({{2, 6}, {2, 1}}, 4), kColumns, 4);
  CHECK(joined(map_of({{2, 6}, {2, 1}}, 4), kColumns) == map_of({{2, 16}, {2, 1}}, 13));
}

TEST_CASE("heads of a slice of a product, transposed, are evenly spaced in the product") {
  // [4, 12] of [4, 36] from column 12, as [4, 3, 4], transposed to [3, 4, 4].
  const StridedMap slice = map_of({{4, 36}, {12, 1}}, 12);
  const StridedMap heads = map_of({{3, 4}, {4, 12}, {4, 1}});
  check_joined(heads, slice, 48);
  CHECK(joined(heads, slice) == map_of({{3, 4}, {4, 36}, {4, 1}}, 12));
}

TEST_CASE("repeated heads stay repeated through a reshape and a slice") {
  const StridedMap repeated = map_of({{2, 8}, {3, 0}, {8, 1}});
  check_joined(map_of({{6, 8}, {4, 1}}, 2), repeated, 24);
}

TEST_CASE("elements that are not evenly spaced have no single map") {
  // 6 neighbours from column 2 of three columns each.
  CHECK(!joined(map_of({{6, 1}}, 2), kColumns));
  // A transposed matrix whose rows are cut in pieces that do not divide them.
  CHECK(!joined(map_of({{10, 1}}), map_of({{3, 1}, {4, 3}})));
  // Both axes fit by themselves, but not together.
  CHECK(!joined(map_of({{2, 2}, {2, 1}}), map_of({{2, 10}, {3, 1}})));
}

TEST_CASE("the inverse of a permutation leads back") {
  // [2, 3, 4] read as [4, 2, 3], and as [3, 2, 4].
  for (const StridedMap& map :
       {map_of({{4, 1}, {2, 12}, {3, 4}}), map_of({{3, 4}, {2, 12}, {4, 1}}), StridedMap::of(24)}) {
    const StridedMap back = inverse(map);
    for (std::uint64_t i = 0; i < 24; ++i) CHECK(back(map(i)) == i);
  }
}

TEST_CASE("an axis goes on along the next one only where it fills its own") {
  const StridedMap heads = map_of({{3, 64}, {8, 192}, {64, 1}});
  CHECK(through({64, 1}, heads) == std::vector<Axis>{{64, 1}});
  CHECK(through({8, 64}, heads) == std::vector<Axis>{{8, 192}});
  CHECK(through({24, 64}, heads) == std::vector<Axis>{{3, 64}, {8, 192}});
  // Rows of 48 in lines of 64: smaller steps are taken to be counted, too.
  CHECK(!through({2, 48}, heads));
}

}  // namespace
}  // namespace fusecalc
