#pragma once

#include <span>

#include "graph/op_table.hpp"

namespace fusecalc {

// The parts of the op table, each in a file of its own.
std::span<const OpRow> pointwise_ops();
std::span<const OpRow> row_ops();
std::span<const OpRow> movement_ops();
std::span<const OpRow> contract_ops();
std::span<const OpRow> index_ops();
std::span<const OpRow> whole_row_ops();
std::span<const OpRow> window_ops();
std::span<const OpRow> backward_ops();

constexpr OpRow with_slow_path(OpRow row) {
  row.slow_path = true;
  return row;
}
constexpr OpRow with_jumps(OpRow row) {
  row.jumps = true;
  return row;
}
constexpr OpRow keeping_range(OpRow row) {
  row.keeps_range = true;
  return row;
}

constexpr OpRow in_softmax(OpRow row, SoftmaxPart part) {
  row.softmax = part;
  return row;
}

}  // namespace fusecalc
