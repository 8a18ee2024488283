#pragma once

#include <cstdint>
#include <string_view>

namespace fusecalc {

// What a reduction keeps of the elements that it has seen so far.
enum class Accumulator : std::uint8_t {
  kNone,
  kSum,
  kLargest,
  kSmallest,
  kLargestMagnitude,
  kLargestPlace,
  kSquareSum,
  kMoments,
  kExponentialSum,
  kProduct,
  kAny,
  kAll,
  kSmallestPlace,
};

// One accumulator in device code. In kernels/rows.cuh, which reduces whole rows, its name is that
// of a template over the type that it computes in. In kernels/accumulators.cuh, which reduces the
// tiles of a contraction, the same name is that of a struct that computes in f32.
struct AccumulatorRow {
  Accumulator accumulator = Accumulator::kNone;
  std::string_view name;
  // Whether it sums distances from a pivot, which must be set before the first element is added.
  bool has_pivot = false;
  // 32-bit words of its state in accumulators.cuh; 0 if it is not there.
  unsigned tile_words = 0;
  // Whether the states of several tiles may be merged by a later kernel, and the result of a row is
  // all that is needed of them.
  bool merges_tiles = false;
  // For accumulators.cuh: the members that device expressions of the op table refer to, and an
  // initialiser for each of them, given `state`. $count is the length of a row, $eps the op's.
  std::string_view members{};
  std::string_view tile_results{};
};

const AccumulatorRow& row_of(Accumulator accumulator);

}  // namespace fusecalc
