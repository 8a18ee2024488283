#include <doctest/doctest.h>

#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

std::uint64_t parts_of_k(std::uint64_t k, std::uint64_t tiles) {
  return skinny_split({.m = 16, .n = tiles * kSkinnyColumns, .k = k}, 132);
}

TEST_CASE("few rows: k is in parts where blocks are few, and not in short ones") {
  CHECK(parts_of_k(8192, 22) == 8);
  CHECK(parts_of_k(4096, 16) == 4);  // eight would have 512 of k
  CHECK(parts_of_k(8192, 48) == 4);
  CHECK(parts_of_k(8192, 56) == 2);
  CHECK(parts_of_k(1024, 96) == 2);
  CHECK(parts_of_k(256, 16) == 1);
}

TEST_CASE("few rows: a long k is halved where that fills a round of blocks") {
  CHECK(parts_of_k(4096, 132) == 2);  // two to a multiprocessor
  CHECK(parts_of_k(2048, 112) == 1);
  CHECK(parts_of_k(8192, 144) == 1);
  CHECK(parts_of_k(10432, 307) == 2);  // 43 would run alone
  CHECK(parts_of_k(2048, 272) == 1);
  CHECK(parts_of_k(8192, 448) == 1);
}

}  // namespace
}  // namespace fusecalc
