#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/value.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// A value that stays on chip from one pass over the rows to the next.
struct HeldValue {
  TensorId tensor = kNone;
  std::string name;
  std::size_t place = 0;  // which it may share with others (row_holding.hpp)
  bool computed = false;  // as it was computed, not as it is stored
  bool copied = false;    // ahead of the loop that first needs it
  bool ready = false;     // an earlier pass has put it there
};

// Follows a held value's name in the code of a loop, where its group of elements is meant; the
// loop's schedule replaces both by where that group is.
constexpr char kHeldGroup = '@';

// The loop is over a matrix that the kernel has just made: eight neighbours v[j] of one row, or as
// many as the block's group has, the first `valid` of them real. The code may name `q`, the row's
// number over all batches (i64; `q32` the same in 32 bits), and `column`, a multiple of that
// number.
struct MatrixLoop {
  TensorId made = kNone;  // what v holds
  OpId by = kNone;
  ComputeType type = ComputeType::kF32;
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  bool quick = false;  // results are so narrow that quick.cuh's functions do
  bool whole = false;  // all of v is real, however long the block's group
  // What the schedule does itself, once each and for 16-bit types: it loads an operand ahead, and
  // stores a result, perhaps after it brought an operand to the place of that.
  bool loads_ahead = false;
  bool stores = false;
  bool stores_last = false;  // in the order that a transposition to channels last gives it
  bool brings = false;
  std::uint64_t period = 0;  // of rows, for CodeBlock::differs; columns are pixels then
  bool keeps_terms = false;  // it has CodeBlock::terms ready
  // Where its elements are numbered in another order than those of `made`, whose index is the
  // loop's: its own index, and the map from that to the loop's.
  std::optional<IndexTransform> order{};
  Index place{};
};

// The index of the row, or of a group of `width` neighbouring rows, that the loop is at.
struct RowIndex {
  Index index;
  unsigned width = 1;

  // Which of the group's rows: a single row is uniform, and its code is outside the loop over j.
  const char* lane() const { return width == 1 ? "0" : "j"; }
};

// Tiles of transposed tensors that the block of threads has in shared memory, by their names.
struct TransposedTiles {
  IndexTransform map;  // from the loop's index to the tensors'
  std::map<TensorId, std::string> names;
  // Of words (kernels/transposed.cuh): the loop's group is at `x` of row `b`, a multiple of the
  // width if they are aligned. Its ends are taken one by one.
  unsigned width = 1;
  bool aligned = false;
  std::string element;  // of runs: the place of the group's element j, in code; empty: words
};

// The loop that code is written for. A schedule makes one for each of its loops; what writes code
// reads it and never changes it.
struct Loop {
  Index element{};  // of the loop's own
  RowIndex row{};
  std::vector<HeldValue> held{};
  // The scores that losses pick out of each row, where earlier code has read them.
  std::map<OpId, Value> picked{};
  // Elements that the schedule has ready, whatever their index: those of the loop's group, its row
  // or its columns.
  std::map<TensorId, Value> ready{};
  std::optional<MatrixLoop> matrix{};
  TransposedTiles tiles{};
  // Where groups begin anywhere in rows, at `r` of a row: so many elements are a row.
  std::uint64_t row_length = 0;
  // Where the element is at `r` of row `q`, and rows of so many elements follow each other.
  std::uint64_t row_period = 0;

  // Elements at the loop's own index leave the L2 to those that many threads read.
  bool once = false;

  // The tensor's place on chip, where its element at this index has one; nullptr elsewhere.
  const HeldValue* held_at(TensorId tensor, const Index& at) const;
};

}  // namespace fusecalc
