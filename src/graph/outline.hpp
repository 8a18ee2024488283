#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/dtype.hpp"
#include "graph/id_lists.hpp"
#include "graph/op_table.hpp"
#include "graph/shape.hpp"

namespace fusecalc {

struct OpGraph;

using TensorId = std::uint32_t;
using OpId = std::uint32_t;
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// A compact copy of the fields of a graph that planners read most. Searches visit ops in an
// irregular order, so the memory fetched for each op determines their run time.
class Outline {
 public:
  // A tensor that an op reads, in one line of a cache; inline numbers are left out.
  struct alignas(64) Input {
    TensorId tensor = kNone;
    TensorId value = kNone;
    TensorId storage = kNone;
    TensorId window = kNone;  // Tensor::window
    OpId producer = kNone;
    DType dtype = DType::kF32;
    bool output = false;  // the value is an output of the graph
    // How the tensor's elements lie in the value: in the same places, in part or repeated
    // (kSelect), or in another order (kPermute).
    Access view = Access::kSame;
    std::uint64_t touched = 0;   // distinct elements
    std::uint64_t elements = 0;  // of the value
    std::uint64_t size = 0;      // of the tensor, elements
    std::uint64_t shown = 0;     // distinct elements of the value that the tensor has
    std::uint64_t bytes = 0;     // of the value
  };
  static_assert(sizeof(Input) == 64);

  // A tensor that an op makes, in one line likewise.
  struct alignas(64) Result {
    TensorId tensor = kNone;
    TensorId storage = kNone;
    OpId patched_by = kNone;
    DType dtype = DType::kF32;
    // Must be written by any kernel: an output of the graph, or stored in an input's memory.
    bool always_needed = false;
    bool output = false;
    std::uint32_t readers = 0;  // ops
    std::uint64_t elements = 0;
    std::uint64_t bytes = 0;
    std::uint64_t writes = 0;      // elements, at most
    std::uint64_t left_alone = 0;  // elements that the op may not write
  };
  static_assert(sizeof(Result) == 64);

  struct OpFacts {
    std::uint32_t first_input = 0;
    std::uint32_t first_result = 0;
    std::uint32_t rows = 0;  // id of the row layout, equal for equal layouts; 0: none
    OpFamily family = OpFamily::kPointwise;
    OpClass op_class = OpClass::kPointwise;
    Access access = Access::kSame;
    std::uint8_t passes = 1;
    bool holds_rows = true;
    std::uint8_t row_inputs = 1;  // the first so many are read before the rows are reduced
    bool opaque = false;          // never fused, whatever the rules
    bool has_kernel = true;       // our runner can launch it
    bool empty = false;           // it has a tensor without elements
    std::uint64_t work = 0;

    bool reduces() const { return rows != 0; }
    bool contracts() const { return op_class == OpClass::kContract; }
    bool moves() const { return op_class == OpClass::kPointwise || op_class == OpClass::kMovement; }
  };

  Outline() = default;
  explicit Outline(const OpGraph& graph);

  const OpFacts& operator[](OpId op) const { return ops_[op]; }
  std::span<const Input> inputs_of(OpId op) const {
    const std::uint32_t first = ops_[op].first_input;
    return {inputs_.data() + first, ops_[op + 1].first_input - first};
  }
  std::span<const Result> results_of(OpId op) const {
    const std::uint32_t first = ops_[op].first_result;
    return {results_.data() + first, ops_[op + 1].first_result - first};
  }
  const RowLayout& rows_of(OpId op) const { return layouts_[ops_[op].rows]; }
  // Windows (Tensor::window) that show the same elements in another order, as far as their views
  // tell, count as one: this one.
  TensorId counted(TensorId window) const {
    while (counted_[window] != kNone) window = counted_[window];
    return window;
  }
  // The next larger one that a counted window is a part of; kNone: the value itself.
  TensorId outer(TensorId window) const { return outer_[window]; }

 private:
  void relate_windows(const OpGraph& graph);

  std::vector<OpFacts> ops_;  // and a sentinel that ends the last one's inputs and results
  std::vector<Input> inputs_;
  std::vector<Result> results_;
  std::vector<RowLayout> layouts_;  // by OpFacts::rows
  // Per tensor; kNone where there is none.
  std::vector<TensorId> counted_;
  std::vector<TensorId> outer_;
};

}  // namespace fusecalc
