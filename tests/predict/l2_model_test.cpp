// What comes back to an L2, worked out by hand.

#include "predict/l2_model.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

namespace fusecalc {
namespace {

using doctest::Approx;

TEST_CASE("l2: what was touched shortly before is there, later a part of it, then nothing") {
  const L2Model l2{.near = 100, .far = 200};
  CHECK(l2.miss(0) == 0);
  CHECK(l2.miss(100) == 0);
  CHECK(l2.miss(125) == Approx(0.25));
  CHECK(l2.miss(200) == 1);
  CHECK(l2.miss(1e9) == 1);
  // From 100 to 200 all shares are met alike.
  CHECK(l2.mean_miss(100, 200) == Approx(0.5));
  CHECK(l2.mean_miss(0, 50) == 0);
}

// 2 x 2 tiles, one after the other.
constexpr TileWalk kFourTiles{.m = 128,
                              .n = 128,
                              .k = 16,
                              .operand_bytes = 2,
                              .streamed_per_result = 0,
                              .tile_m = 64,
                              .tile_n = 64,
                              .rows_first = true,
                              .group = 1,
                              .at_once = 1};

TEST_CASE("l2: operands that fit are read once") {
  // Four waves of one tile each: rows of A (2 x 64 x 16 x 2 bytes) and columns of B as many.
  TileWalk walk = kFourTiles;
  walk.streamed_per_result = 2;
  const double once = 2 * 128 * 16 * 2;
  CHECK(operand_reads(walk, {.near = 1e6, .far = 2e6}) == Approx(once));
  // Nothing stays: each of the four tiles reads both of its panels of 64 x 16 x 2 bytes.
  CHECK(operand_reads(walk, {.near = 0, .far = 1}) == Approx(4 * 2 * 64 * 16 * 2));
}

TEST_CASE("l2: waves share panels") {
  // 2 x 2 tiles at once are one wave, which reads every panel once.
  TileWalk walk = kFourTiles;
  walk.rows_first = false;
  walk.group = 2;
  walk.at_once = 4;
  CHECK(operand_reads(walk, {.near = 0, .far = 1}) == Approx(2 * 128 * 16 * 2));
}

TEST_CASE("l2: of very many tiles the first tell what all read") {
  TileWalk walk = kFourTiles;
  walk.m = std::uint64_t{64} << 40;
  walk.n = 64 * 64;
  walk.group = 8;
  walk.at_once = 8;
  // Each wave reads 8 panels of A and one of B; A's stay for the group's other 63 waves.
  const double group = (8 + 64) * 64 * 16 * 2;
  const L2Model l2{.near = 20 * 64 * 16 * 2, .far = 21 * 64 * 16 * 2};
  CHECK(operand_reads(walk, l2) == Approx(group * std::pow(2, 37)).epsilon(1e-4));
}

TEST_CASE("l2: the last panels are as long as what is left") {
  const TileWalk walk{.m = 65,
                      .n = 64,
                      .k = 10,
                      .operand_bytes = 4,
                      .streamed_per_result = 0,
                      .tile_m = 64,
                      .tile_n = 64,
                      .rows_first = true,
                      .group = 8,
                      .at_once = 8};
  CHECK(operand_reads(walk, {.near = 1e9, .far = 2e9}) == Approx((65 + 64) * 10 * 4));
}

}  // namespace
}  // namespace fusecalc
