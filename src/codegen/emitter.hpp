#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/generated.hpp"
#include "codegen/index_map.hpp"
#include "codegen/text.hpp"
#include "plan/phases.hpp"

namespace fusecalc {

// The number of an element of some tensor, as a variable of the generated code.
struct Index {
  std::string name;  // of the group's first element where the pattern is unit
  LanePattern pattern = LanePattern::kUniform;
  bool aligned = true;  // unit: the first is a multiple of the group's width
  unsigned align = 1;   // unit, in a matrix: it is a multiple of so many, 8 at most
  // The way here from the loop's own number, where nothing looked up in memory lies between.
  std::optional<std::vector<IndexMap>> path = std::vector<IndexMap>{};

  std::string lane() const { return pattern == LanePattern::kUnit ? "(" + name + " + j)" : name; }
};

// A computed element.
struct Value {
  std::string text;
  ComputeType type = ComputeType::kF32;
  bool uniform = false;            // the same for the whole group
  std::optional<double> number{};  // an inline one, of any type
};

// A stretch of code that treats a group of `width` neighbouring elements: what is done once for all
// of them, what is done for each (a loop over j), and what is done at the end.
struct CodeBlock {
  unsigned width = 1;
  std::string width_text = "1";  // the same, or the name of a template's parameter
  std::string before{};
  std::string lanes{};
  std::string after{};
  std::string copies{};  // of values from memory to where they are held, ahead of the loop
  std::map<std::pair<TensorId, std::string>, Value> values{};
  std::map<std::string, Index> indices{};

  std::string text(std::string_view indent) const;
};

// Stands for the place of a held group in the code of a loop, until the loop's schedule fills it
// in.
constexpr char kPlace = '@';

// A value that stays on chip from one look at the row to the next.
struct Held {
  std::string name;
  bool computed = false;                // as it was computed, not as it is stored
  bool copied = false;                  // ahead of the loop that first needs it
  std::optional<std::uint8_t> since{};  // the phase that first needed it
};

// A loop over a matrix that the kernel has just made: eight neighbours v[j] of one row, the first
// `valid` of them real. The code may name `q`, the row's number over all batches (i64; `q32` the
// same in 32 bits), and `column`, a multiple of 8.
struct MatrixLoop {
  TensorId made = kNone;  // what v holds
  OpId by = kNone;
  ComputeType type = ComputeType::kF32;
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  bool quick = false;  // results are so narrow that quick.cuh's functions do
};

// Writes the code that makes elements of tensors, from the memory that the kernel reads to the
// memory that it writes, by asking every op for its operands' elements. Knows nothing of how the
// loop is spread over threads: a schedule tells it the loop's element number, and where rows are.
class Emitter {
 public:
  Emitter(const OpGraph& graph, PhaseFinder& finder, const Kernel& kernel);

  const OpGraph& graph() const { return graph_; }
  const Phases& phases() const { return phases_; }
  const Kernel& kernel() const { return kernel_; }
  const Op& op(OpId id) const { return graph_.ops[id]; }
  bool contains(OpId id) const { return finder_.contains(id); }
  std::uint8_t runs_in(OpId id) const { return phases_.runs_in[finder_.index_of(id)]; }
  std::uint8_t ready_in(OpId id) const { return phases_.ready_in[finder_.index_of(id)]; }

  // Starts a piece of code; what is asked for from here on goes there.
  void enter(CodeBlock& piece, std::uint8_t phase);
  CodeBlock& piece() { return *piece_; }
  std::string fresh(std::string_view prefix) {
    return std::string(prefix) + std::to_string(++names_);
  }

  // An index that is computed from a variable of this name.
  Index index(const std::string& text, LanePattern pattern, bool aligned);
  Index derive(const Index& from, const IndexMap& map);

  // The element of a tensor at an index.
  Value value(TensorId tensor, const Index& at);
  // An element of an op's k-th result, computed there.
  Value compute(OpId id, std::size_t k, const Index& at);
  // What a row op takes in for the element at an index of its input.
  Value row_input(OpId id, const Index& at);
  Value converted(const Value& value, ComputeType type);
  void store(TensorId tensor, const Index& at, const Value& value, std::string_view guard = "");
  // Where a scatter puts the element of its rows at an index.
  Index scatter_target(const Op& op, const Index& at);

  // Rows.
  // Whether the op is done once for each row, by the results of others.
  bool of_rows(OpId id) const;
  bool is_row_result(TensorId tensor) const;
  // Whether the op adds up what each row comes to, in the end.
  bool ends_in_loss(OpId id) const;
  // Whether a row op looks at whole rows of this kernel's loop.
  bool takes_rows(OpId id) const;
  std::string state_class(const Op& op) const;
  std::string state_of(OpId id);  // the variable's name
  void set_row(const Index& q, unsigned width, std::string lane);
  std::string take_row_code();
  // The row's result that is in the tensor.
  Value row_value(TensorId tensor);
  // What one row adds to the loss that the op ends in.
  Value row_loss(OpId id);
  std::map<TensorId, Held>& held() { return held_; }
  void set_loop(const Index& e) { loop_ = e; }

  // Transposed reads: those of large tensors whose elements lie apart along the loop, and how the
  // loop's number leads to them. A schedule brings such a tensor's tile on chip, transposed.
  const std::vector<std::pair<TensorId, IndexMap>>& transposed() const { return transposed_; }
  void set_tile(const IndexMap& map, const std::map<TensorId, std::string>& tiles);

  // Contractions.
  void set_matrix(const std::optional<MatrixLoop>& matrix) { matrix_ = matrix; }
  // The score that a loss picks in each row, where the kernel has put it aside.
  void set_picked(OpId id, const Value& value) { picked_[id] = value; }
  Value picked(const Op& op, const Index& at);
  // What a tensor with an element for each row has for the row at hand, where the code has it.
  void set_row_value(TensorId tensor, const Value& value) { row_values_[tensor] = value; }

  // Memory that the kernel touches.
  const std::vector<TensorId>& storages() const { return storages_; }
  const std::set<TensorId>& written() const { return written_; }
  std::string pointer(TensorId tensor);
  std::string parameters() const;
  std::string members() const;    // the same as members of a struct
  std::string arguments() const;  // the same by their names

 private:
  Index derive_in_matrix(const Index& from, const IndexMap& map);
  Value made(const Index& at);
  Value load_in_matrix(TensorId tensor, const Index& at);
  void store_in_matrix(TensorId tensor, const Index& at, const Value& value);
  Value load(TensorId tensor, const Index& at);
  static std::string place_of(const Held& held);
  Value from_held(TensorId tensor, const Held& held);
  // The tensor's place on chip, where its element at this index has one.
  Held* held_at(TensorId tensor, const Index& at);
  Value pointwise(const Op& op, std::size_t k, const Index& at);
  Value movement(const Op& op, const Index& at);
  Value concat(const Op& op, const Index& at);
  void keep_inline(OpId id, const Value& element);
  Value expression(const Op& op, std::string_view device, const std::vector<Value>& inputs,
                   const Index& at, ComputeType computed, ComputeType result);
  std::string word(const Op& op, std::string_view word, const std::vector<Value>& inputs,
                   const Index& at, ComputeType computed);
  Value operand(const Op& op, std::size_t i, const Index& at);
  IndexMap operand_map(const Op& op, std::size_t i) const;
  Value row_result(OpId id, std::size_t k);
  Index looked_up(const Index& rows, const Value& found, std::uint64_t stride, const Index& rest);
  Index gathered(const Op& op, std::size_t table, std::size_t indices, std::size_t axis,
                 const Index& at);
  Value define(std::string_view prefix, ComputeType type, const std::string& text, bool uniform);
  ComputeType state_type(const Op& op) const;
  bool inline_rows(const Op& op) const {
    return op.op_class != OpClass::kPointwise && !op.row->state.empty() && op.rows.empty();
  }

  const OpGraph& graph_;
  PhaseFinder& finder_;
  Kernel kernel_;
  Phases phases_;
  CodeBlock* piece_ = nullptr;
  std::uint8_t phase_ = 0;
  unsigned names_ = 0;
  std::vector<TensorId> storages_;
  std::set<TensorId> written_;

  Index loop_;
  std::map<TensorId, Held> held_;

  std::vector<std::pair<TensorId, IndexMap>> transposed_;
  IndexMap tile_map_;
  std::map<TensorId, std::string> tiles_;

  std::optional<MatrixLoop> matrix_;
  std::map<OpId, Value> picked_;

  Index row_;
  unsigned row_width_ = 1;
  std::string row_lane_;
  std::string row_code_;
  std::map<TensorId, Value> row_values_;
  std::map<OpId, std::string> states_;
};

// An op whose code this version cannot write.
[[noreturn]] void cannot_generate(const Op& op, std::string_view why);

}  // namespace fusecalc
