#include "plan/mma_tiling.hpp"

#include <doctest/doctest.h>

namespace fusecalc {
namespace {

using doctest::Approx;

const Device& h100() { return device_named("h100"); }

TEST_CASE("many tiles of a product by mma are wide, few are small") {
  // 16 x 32 of 128 x 256, in four rounds of 132: 128 steps of 1085 cycles, and 800 to start.
  const MmaTiling large = mma_tiling({.m = 4096, .n = 4096, .k = 4096}, {}, h100());
  CHECK(large.tile.rows == 128);
  CHECK(large.tile.columns == 256);
  CHECK(large.tile.threads() == 256);
  CHECK(large.tile.split == 1);
  CHECK(large.cycles == Approx(4 * (128 * 1085 + 800)));
  // 8 x 16 of 64 x 64: one for each multiprocessor.
  const MmaTiling few = mma_tiling({.m = 512, .n = 1024, .k = 1024}, {}, h100());
  CHECK(few.tile.rows == 64);
  CHECK(few.tile.columns == 64);
  CHECK(few.tile.threads() == 128);
  CHECK(few.cycles == Approx(32 * 285 + 800));
}

TEST_CASE("blocks share the k of few tiles of a product by mma") {
  // 2 x 8 tiles: eight blocks each, of 16 steps, are one for each multiprocessor.
  const MmaTiling shared = mma_tiling({.m = 128, .n = 512, .k = 4096}, {}, h100());
  CHECK(shared.tile.split == 8);
  CHECK(shared.cycles == Approx(16 * 285 + 800 + 2600 + 8 * 500));
  CHECK(shared.tile.workspace_bytes() == 8 * 64 * 64 * 4 + 4);
  // Not of so few bytes of k.
  CHECK(mma_tiling({.m = 128, .n = 512, .k = 256}, {}, h100()).tile.split == 1);
}

TEST_CASE("tiles of products by mma have as many stages as the device has room for") {
  // Two blocks of 64 x 64 with four stages of 128 bytes, which are 64 KiB.
  const ProductShape few{.m = 512, .n = 1024, .k = 1024};
  const Device& rtx = device_named("rtx5090");
  const MmaTile tile = mma_tiling(few, {}, rtx).tile;
  CHECK(tile.stages == 4);
  CHECK(tile.shared_bytes(false, false) == 65536);
  // A chunk more for each line of a stage, and two tiles: 106 KiB with four stages, 86 with three.
  const MmaTile shifted = mma_tiling(few, {.piece = 2}, rtx).tile;
  CHECK(shifted.stages == 3);
  CHECK(shifted.shared_bytes(true, true) == 128 * (3 * (128 + 16) + 2 * 128));
  CHECK(shifted.shared_bytes(true, true) <= rtx.on_chip_bytes);
  CHECK(mma_tiling(few, {.piece = 2}, h100()).tile.stages == 4);
}

TEST_CASE("products by mma take longer where the tensor cores are slower") {
  // 512 FLOPs a cycle, of which 0.9: 128 x 256 x 64 of a step take 4551 cycles, not 1085.
  const ProductShape one{.m = 128, .n = 256, .k = 320};
  Device slow = h100();
  slow.constants.tensor_flops.value = 512;
  slow.multiprocessors = 1;
  const MmaTiling tiling = mma_tiling(one, {}, slow);
  CHECK(tiling.tile.columns == 256);
  CHECK(tiling.cycles == Approx(10 * 128 * 256 * 64 / (512 * 0.9) + 800));
}

TEST_CASE("operands of products by mma have tiles of their own") {
  const ProductShape large{.m = 4096, .n = 4096, .k = 4096};
  // Exact products need registers for both parts of an operand; so do rows that are made.
  CHECK(mma_tiling(large, {.kind = MmaKind::kExact, .bytes = 4}, h100()).tile.warp_rows == 32);
  CHECK(mma_tiling(large, {.made = true}, h100()).tile.warp_rows == 32);
  CHECK(mma_tiling(large, {.kind = MmaKind::kTf32, .bytes = 4}, h100()).tile.warp_rows == 64);
  // The narrower the pieces, the more of them.
  const auto cycles = [&](std::uint64_t piece) {
    return mma_tiling(large, {.piece = piece}, h100()).cycles;
  };
  CHECK(cycles(16) < cycles(8));
  CHECK(cycles(8) < cycles(4));
  CHECK(cycles(4) < cycles(2));
}

TEST_CASE("blocks that share k beat tiles of wgmma where these are few") {
  // 2 x 16 tiles of 128 x 64, 128 steps of 297 cycles, against 64 of 64 x 64 with four blocks each.
  CHECK(beats_wgmma({.m = 256, .n = 1024, .k = 8192}, {}, h100(), false));
  CHECK_FALSE(beats_wgmma({.m = 2048, .n = 4096, .k = 4096}, {}, h100(), false));
  // No k is shared of so many tiles.
  CHECK_FALSE(beats_wgmma({.m = 1024, .n = 1024, .k = 1024}, {}, h100(), false));
  // 8 x 14 tiles of 128 x 128 of 32-bit floats, which wgmma takes in no others: 20 steps of 909
  // cycles for 64 bytes; 16 x 27 of 64 x 64 take four times 540 each. One row of tiles of 64 fills
  // as many multiprocessors as half of one of 128.
  const MmaOperands exact{.kind = MmaKind::kExact, .bytes = 4};
  CHECK_FALSE(beats_wgmma({.m = 1024, .n = 1728, .k = 320}, exact, h100(), false));
  CHECK(beats_wgmma({.m = 64, .n = 8192, .k = 1024}, exact, h100(), false));
}

TEST_CASE("lines are copied to whole 16 bytes where the product gains more than that takes") {
  const Device& device = h100();
  // 4 us to launch, and 1.75 times as long as to read the bytes: 3116 GB/s.
  CHECK(padding_us(3116'000, device) == Approx(4 + 1.75));
  const auto repays = [&](std::uint64_t piece, std::uint64_t k, bool wgmma) {
    return repays_padding({.m = 4096, .n = 4096, .k = k}, {.piece = piece}, 2 * 4096 * k * 2, wgmma,
                          false, device);
  };
  // 1475 cycles a step less in each of four rounds, of 128 steps.
  CHECK(repays(2, 4096, false));
  CHECK(repays(8, 4096, true));
  // Two steps.
  CHECK_FALSE(repays(8, 64, false));
  CHECK_FALSE(repays(16, 4096, false));
  CHECK_FALSE(repays_padding({.m = 4096, .n = 4096, .k = 4096},
                             {.kind = MmaKind::kExact, .bytes = 4, .piece = 4}, 1 << 27, false,
                             false, device));
}

}  // namespace
}  // namespace fusecalc
