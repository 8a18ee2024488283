#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "device/device.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

// How kernels/contract_shallow.cuh shares a product of 16-bit elements whose k is so short that
// memory is the limit.
struct ShallowTiling {
  bool across = false;      // b lies as [k][n], and is the large operand; otherwise a is
  std::uint64_t steps = 1;  // of k, that a warp holds: 32 each, or 16 across
  std::uint64_t own = 1;    // of a warp: strips of 16 rows; across: neighbours of a lane
  std::uint64_t part = 1;   // of a block: groups of 32 columns; across: tiles of 16 rows
  std::uint64_t down = 4;   // warps of a block that have different rows; across: columns
  std::uint64_t parts = 1;
  std::uint64_t resident = 1;  // blocks that a multiprocessor runs
  std::uint64_t blocks = 1;

  std::uint64_t threads() const { return 32 * down * (across ? 1 : part); }
  std::uint64_t rows() const { return 16 * (across ? part : own); }
  std::uint64_t columns() const { return across ? 8 * own : 32 * part; }
  std::uint64_t shared_bytes() const { return across ? steps * part * 512 : 0; }
};

// Nothing where other kernels are better. `align`: elements that all lines of the large operand
// begin at multiples of; `reading`: the epilogue reads a tensor as large as the result.
std::optional<ShallowTiling> shallow_tiling(const ProductShape& product, std::uint64_t align,
                                            bool reading, const Device& device);
// All that are worth timing, even where other kernels are likely to be faster; the one above first,
// if there is one. None where the kernel does not take the product.
std::vector<ShallowTiling> shallow_tilings(const ProductShape& product, std::uint64_t align,
                                           bool reading, const Device& device);
// Whether b is the large operand.
bool is_shallow_across(const ProductShape& product);

}  // namespace fusecalc
