#pragma once

#include <compare>
#include <cstdint>

#include "plan/tiling.hpp"

namespace fusecalc {

// How products are distributed over blocks and warps of kernels/contract_sm80.cuh: pure arithmetic,
// with figures measured on an H100.

// A tile of the result, and how a block divides it (MmaTile there).
struct MmaTile {
  std::uint64_t rows = 128;
  std::uint64_t columns = 128;
  std::uint64_t warp_rows = 64;   // of a warp, by 64 columns
  std::uint64_t groups = 1;       // of warps, that share k
  std::uint64_t line_bytes = 64;  // of k, in a stage
  std::uint64_t stages = 4;
  std::uint64_t blocks = 1;  // that a multiprocessor has registers for
  std::uint64_t split = 1;   // blocks that share a tile's k

  std::uint64_t threads() const { return 32 * groups * (rows / warp_rows) * (columns / 64); }
  // Of memory, for each tile: the blocks' sums and a counter.
  std::uint64_t workspace_bytes() const { return split > 1 ? split * rows * columns * 4 + 4 : 0; }
  std::uint64_t shared_bytes(bool shifts_a, bool shifts_b) const {
    const auto operand = [&](std::uint64_t lines, bool shifts) {
      return lines * (stages * line_bytes + (shifts ? stages * 16 + 2 * line_bytes : 0));
    };
    return operand(rows, shifts_a) + operand(columns, shifts_b);
  }
};

// Lines that begin at multiples of so many bytes alone are shifted on chip: no asynchronous copy is
// of two bytes.
constexpr bool is_shifted(std::uint64_t piece) { return piece < 4; }

// What is multiplied.
enum class MmaKind : std::uint8_t { kNarrow, kTf32, kExact };  // elements of up to 16 bits; of 32

struct MmaOperands {
  MmaKind kind = MmaKind::kNarrow;
  std::uint64_t bytes = 2;   // of an element
  std::uint64_t piece = 16;  // all lines of both begin at multiples of so many bytes
  bool made = false;         // a prologue makes the first
  auto operator<=>(const MmaOperands&) const = default;
};

// The tile that takes the least time, and the cycles that all tiles take on a device.
struct MmaTiling {
  MmaTile tile;
  double cycles = 0;
};
MmaTiling mma_tiling(const ProductShape& product, const MmaOperands& operands,
                     const Device& device);

// Whether blocks that share k take less time than contract_sm90's, which do not: where there are
// few tiles. `reading`: as of product_tilings.
bool beats_wgmma(const ProductShape& product, const MmaOperands& operands, const Device& device,
                 bool reading);

// What it takes to copy operands of so many bytes to lines of whole 16 bytes first.
double padding_us(std::uint64_t bytes, const Device& device);
// Whether the product then takes less time by more than that; `wgmma`: contract_sm90 takes it then.
bool repays_padding(const ProductShape& product, const MmaOperands& operands, std::uint64_t bytes,
                    bool wgmma, bool reading, const Device& device);

}  // namespace fusecalc
