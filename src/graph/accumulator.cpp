#include "graph/accumulator.hpp"

#include <array>
#include <cstddef>

namespace fusecalc {
namespace {

using enum Accumulator;

constexpr std::array kRows = {
    AccumulatorRow{.accumulator = kNone, .name = {}},
    AccumulatorRow{.accumulator = kSum,
                   .name = "Sum",
                   .tile_words = 1,
                   .merges_tiles = true,
                   .members = "sum",
                   .tile_results = "state.part[0]"},
    AccumulatorRow{.accumulator = kLargest,
                   .name = "Largest",
                   .tile_words = 1,
                   .merges_tiles = true,
                   .members = "value",
                   .tile_results = "state.part[0]"},
    AccumulatorRow{.accumulator = kSmallest, .name = "Smallest"},
    AccumulatorRow{.accumulator = kLargestMagnitude, .name = "LargestMagnitude"},
    AccumulatorRow{.accumulator = kLargestPlace, .name = "LargestPlace"},
    AccumulatorRow{.accumulator = kSquareSum,
                   .name = "SquareSum",
                   .tile_words = 1,
                   .members = "scale, sum",
                   .tile_results = "rsqrtf(state.part[0] / $count + $eps), state.part[0]"},
    AccumulatorRow{.accumulator = kMoments,
                   .name = "Moments",
                   .has_pivot = true,
                   .tile_words = 3,
                   .members = "mean, variance, rstd",
                   .tile_results = "Moments::mean(state), Moments::variance(state), "
                                   "rsqrtf(Moments::variance(state) + $eps)"},
    AccumulatorRow{
        .accumulator = kExponentialSum,
        .name = "ExponentialSum",
        .tile_words = 2,
        .merges_tiles = true,
        .members = "most, inverse, log",
        .tile_results = "state.part[0], 1.0f / state.part[1], ExponentialSum::result(state)"},
    AccumulatorRow{.accumulator = kProduct, .name = "Product"},
    AccumulatorRow{.accumulator = kAny, .name = "Any"},
    AccumulatorRow{.accumulator = kAll, .name = "All"},
    AccumulatorRow{.accumulator = kSmallestPlace, .name = "SmallestPlace"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].accumulator) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const AccumulatorRow& row_of(Accumulator accumulator) {
  return kRows[static_cast<std::size_t>(accumulator)];
}

}  // namespace fusecalc
