#include "plan/shallow.hpp"

#include <doctest/doctest.h>

namespace fusecalc {
namespace {

ShallowTiling tiling_of(const ProductShape& product, bool reading = false) {
  const auto tiling = shallow_tiling(product, 8, reading, device_named("h100"));
  REQUIRE(tiling);
  return *tiling;
}

TEST_CASE("rows of a short k: a block's warps have neighbouring columns") {
  // Eight groups of 32 columns; two blocks of eight warps for each of 132 multiprocessors.
  const ShallowTiling wide = tiling_of({.m = 200704, .n = 256, .k = 64});
  CHECK(wide.rows() == 32);
  CHECK(wide.columns() == 256);
  CHECK(wide.threads() == 256);
  CHECK(wide.blocks == 264);
  // Beside an operand that is loaded ahead, registers hold half as many rows.
  CHECK(tiling_of({.m = 200704, .n = 256, .k = 64}, true).rows() == 16);
  CHECK(tiling_of({.m = 200704, .n = 256, .k = 32}, true).rows() == 32);
  CHECK(tiling_of({.m = 200704, .n = 256, .k = 72}).rows() == 16);
  // Six warps at most, which have 170 registers a thread: three times four are as many.
  const ShallowTiling tight = tiling_of({.m = 200704, .n = 128, .k = 72}, true);
  CHECK(tight.threads() == 128);
  CHECK(tight.resident == 3);
  CHECK(tiling_of({.m = 200704, .n = 384, .k = 96}, true).threads() == 192);
  // 18 groups in three parts; 264 blocks are 88 for each.
  const ShallowTiling parts = tiling_of({.m = 12544, .n = 576, .k = 96});
  CHECK(parts.columns() == 192);
  CHECK(parts.parts == 3);
  CHECK(parts.threads() == 192);
  CHECK(parts.blocks == 264);
  // A single group: eight warps have rows of their own.
  const ShallowTiling narrow = tiling_of({.m = 802816, .n = 16, .k = 32});
  CHECK(narrow.columns() == 32);
  CHECK(narrow.down == 8);
  // No more blocks than rows need.
  CHECK(tiling_of({.m = 2048, .n = 1024, .k = 32}).blocks == 4 * 64);
}

TEST_CASE("columns of a short k: lanes with eight neighbours, or four") {
  const ShallowTiling eights =
      tiling_of({.m = 24, .n = 3136, .k = 96, .batches = 64, .b_across = true});
  CHECK(eights.across);
  CHECK(eights.columns() == 64);
  CHECK(eights.rows() == 32);
  CHECK(eights.shared_bytes() == 2 * 6 * 512);
  // So much of k is held that registers leave room for four; and lines of no whole eights.
  CHECK(tiling_of({.m = 24, .n = 3136, .k = 144, .batches = 64, .b_across = true}).columns() == 32);
  CHECK(tiling_of({.m = 96, .n = 196, .k = 64, .batches = 64, .b_across = true}).columns() == 32);
  // 832 pieces of 64 pixels for 2112 warps: rows are parted, too.
  const ShallowTiling few =
      tiling_of({.m = 240, .n = 784, .k = 40, .batches = 64, .b_across = true});
  CHECK(few.rows() == 48);
  CHECK(few.parts == 5);
}

TEST_CASE("a product is not short of k") {
  const auto none = [](const ProductShape& product, std::uint64_t align = 8) {
    return !shallow_tiling(product, align, false, device_named("h100"));
  };
  CHECK(none({.m = 200704, .n = 256, .k = 104}));  // too long
  CHECK(none({.m = 200704, .n = 256, .k = 60}));   // no whole 16 bytes
  CHECK(none({.m = 200704, .n = 256, .k = 64}, 4));
  CHECK(none({.m = 200704, .n = 256, .k = 64, .batches = 2}));
  CHECK(none({.m = 1024, .n = 16384, .k = 64}));  // columns are loaded for few rows
  CHECK(none({.m = 4096, .n = 128, .k = 64}));    // small
  CHECK(none({.m = 200704, .n = 4, .k = 64}));
  CHECK(none({.m = 16384, .n = 4096, .k = 64}));  // wide tiles are as good
  CHECK(tiling_of({.m = 16384, .n = 4096, .k = 64}, true).parts == 16);
  CHECK(tiling_of({.m = 16384, .n = 4096, .k = 32}).parts == 16);
  CHECK(none({.m = 200704, .n = 256, .k = 64, .a_across = true}));
  CHECK(none({.m = 64, .n = 3136, .k = 160, .batches = 64, .b_across = true}));
  CHECK(none({.m = 64, .n = 3138, .k = 64, .batches = 64, .b_across = true}));
  CHECK(none({.m = 672, .n = 196, .k = 128, .batches = 64, .b_across = true}));
  Device old = device_named("h100");
  old.capability = {7, 5};
  CHECK(!shallow_tiling({.m = 200704, .n = 256, .k = 64}, 8, false, old));
}

TEST_CASE("ways for a short k: the likely best one first") {
  const auto ways = [](const ProductShape& product) {
    return shallow_tilings(product, 8, false, device_named("h100"));
  };
  const auto fours = ways({.m = 12544, .n = 480, .k = 80});
  REQUIRE(fours.size() == 6);
  CHECK(fours[0].threads() == 256);
  CHECK(fours[1].rows() == 16);
  CHECK(fours[1].columns() == 64);
  CHECK(fours[1].threads() == 128);
  CHECK(fours[1].resident == 4);  // 128 registers a thread
  CHECK(fours[1].blocks == 8 * 66);
  CHECK(fours[2].resident == 2);
  CHECK(fours[5].columns() == 128);
  // Two columns of 32 are no four.
  CHECK(ways({.m = 200704, .n = 64, .k = 64}).size() == 5);
  // Where tiles are likely to be faster, few.
  const auto few = ways({.m = 12544, .n = 672, .k = 112});
  REQUIRE(few.size() == 3);
  CHECK(few[0].resident == 3);
  CHECK(ways({.m = 50176, .n = 32, .k = 192}).size() == 1);
  CHECK(ways({.m = 50176, .n = 32, .k = 200}).empty());
  // Fewer rows of the small operand for a block, where that differs.
  const auto across = ways({.m = 512, .n = 784, .k = 128, .batches = 64, .b_across = true});
  REQUIRE(across.size() == 2);
  CHECK(across[0].rows() == 128);
  CHECK(across[1].rows() == 64);
  CHECK(ways({.m = 64, .n = 3136, .k = 64, .batches = 64, .b_across = true}).size() == 1);
}

}  // namespace
}  // namespace fusecalc
