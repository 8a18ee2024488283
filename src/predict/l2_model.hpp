#pragma once

#include <cstdint>

namespace fusecalc {

// An L2 as a stack of what was touched last: what comes back after `near` other bytes is still
// there, what comes back after `far` is gone, and in between a share of it is.
struct L2Model {
  double near = 0;
  double far = 0;

  double miss(double distance) const;
  // The mean over distances that grow evenly from one to the other.
  double mean_miss(double from, double to) const;
};

// For kernels that stream, one after the other.
L2Model streaming_l2(std::uint64_t l2_bytes);
// For the operands of a product, which blocks read at their own pace.
L2Model tiles_l2(std::uint64_t l2_bytes);

// The tiles of a product's result and the order in which blocks take them: in groups of `group`
// rows (or columns) of tiles, along the group first.
struct TileWalk {
  std::uint64_t m = 1;
  std::uint64_t n = 1;
  std::uint64_t k = 1;
  double operand_bytes = 2;        // of an element
  double streamed_per_result = 2;  // bytes that the epilogue reads and writes for each element
  std::uint64_t tile_m = 128;      // of a cluster: what blocks take together
  std::uint64_t tile_n = 128;
  bool rows_first = true;  // groups of rows of tiles; else of columns
  std::uint64_t group = 1;
  std::uint64_t at_once = 1;  // clusters at work
};

// The bytes of both operands that come from the DRAM.
double operand_reads(const TileWalk& walk, const L2Model& l2);

}  // namespace fusecalc
