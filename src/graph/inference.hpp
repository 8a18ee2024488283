#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/attributes.hpp"
#include "graph/op_table.hpp"
#include "graph/shape.hpp"
#include "graph/strided_map.hpp"

namespace fusecalc {

struct TensorType {
  Shape shape;
  DType dtype = DType::kF32;
};

// Shapes of a contraction's result as a matrix: `batch` matrices of rows x columns.
struct MatrixShape {
  std::uint64_t batch = 1;
  std::uint64_t rows = 1;
  std::uint64_t columns = 1;
  std::uint64_t depth = 1;  // products summed for each element
};

// What an op writes of one of its outputs, in elements.
struct WrittenPart {
  std::uint64_t most = 0;
  // Fewer where the op may write an element twice, such as a row that indices name again: the
  // others may be left as they were.
  std::uint64_t least = 0;
};

// What a rule refuses: the op as a whole, one of its inputs or one of its attributes.
using RefusedPart = std::variant<std::monostate, std::size_t, Attribute>;

// Inference for one op: takes inputs and attributes, yields everything else. The rule of the op's
// family fills the results, or fails at the input or attribute that does not fit.
class Inference {
 public:
  // An inline number has no type.
  struct Input {
    std::string_view name;
    const TensorType* type = nullptr;
    std::uint64_t elements = 1;
    double number = 0;
  };

  // `default_dtype` is the op list's.
  Inference(const OpRow& op, const Attributes& attributes, std::vector<Input> inputs,
            std::size_t output_count, DType default_dtype,
            std::function<void(RefusedPart, std::string)> fail);

  const OpRow& row() const { return row_; }
  const Attributes& attributes() const { return attributes_; }
  std::size_t input_count() const { return inputs_.size(); }
  std::size_t output_count() const { return output_count_; }
  bool is_number(std::size_t i) const { return inputs_[i].type == nullptr; }
  double number(std::size_t i) const { return inputs_[i].number; }
  const Shape& shape(std::size_t i) const { return inputs_[i].type->shape; }
  DType dtype(std::size_t i) const { return inputs_[i].type->dtype; }
  std::uint64_t elements(std::size_t i) const { return inputs_[i].elements; }
  DType default_dtype() const { return default_dtype_; }
  // The type of a floating-point result of operands of this type: the same where it is a float,
  // else the default, or f32 where that is no float either.
  DType float_of(DType dtype) const;

  // Results.
  OpClass op_class;
  std::uint8_t passes;
  std::vector<TensorType> outputs;
  // Views, and movements that do the same by copying: from each output to input 0.
  std::vector<StridedMap> sources;
  std::vector<std::uint64_t> reads;          // elements touched of each input
  std::optional<WrittenPart> partial_write;  // of output 0, if not all of it is sure to be written
  std::optional<std::size_t> inplace_input;  // output 0 is stored in this input's memory
  std::optional<std::uint64_t> work;         // elements it loops over; default: output 0's
  std::uint8_t flops;                        // per element of that
  RowLayout rows;                            // reductions and normalisations
  std::optional<MatrixShape> matrix;         // contractions
  std::optional<std::uint64_t> total_flops;  // default: counted from the work or the matrix
  bool collapses = false;  // the rows' results are reduced to one value, known after all rows

  // For the rules.
  void require_tensors() const;
  // Input i has whole numbers, which name rows or elements.
  void require_indices(std::size_t i, std::string_view what = "indices") const;
  // The axis that a single-axis attribute names, from 0; `fallback` where it is not given.
  std::size_t axis(std::size_t rank, std::int64_t fallback) const;
  // The same for a list, as flags; all axes where it is not given.
  std::vector<bool> axes(std::size_t rank) const;
  std::size_t normalised_axis(std::int64_t axis, std::size_t rank) const;

  [[noreturn]] void fail(const std::string& message) const { fail_at({}, message); }
  [[noreturn]] void fail_input(std::size_t i, const std::string& message) const;
  [[noreturn]] void fail_attribute(Attribute attribute, const std::string& message) const;
  // "x of shape [2, 3]".
  std::string describe(std::size_t i) const;

 private:
  [[noreturn]] void fail_at(RefusedPart part, const std::string& message) const;

  const OpRow& row_;
  const Attributes& attributes_;
  std::vector<Input> inputs_;
  std::size_t output_count_;
  DType default_dtype_;
  std::function<void(RefusedPart, std::string)> fail_;
};

// Results of an op that updates its first input in place, by as many elements as its third has, of
// which it is sure to write `least`.
void update_part(Inference& op, std::uint64_t least);

// Fills in what the rule of the op's family says. Custom ops have none: their results are declared.
void infer_results(Inference& op);

// The rules, one per family of ops.
void infer_pointwise(Inference& op);
void infer_where(Inference& op);
void infer_cast(Inference& op);
void infer_dropout(Inference& op);
void infer_reduce(Inference& op);
void infer_softmax(Inference& op);
void infer_row_norm(Inference& op);
void infer_batch_norm(Inference& op);
void infer_group_norm(Inference& op);
void infer_loss(Inference& op);
void infer_transpose(Inference& op);
void infer_concat(Inference& op);
void infer_slice(Inference& op);
void infer_split(Inference& op);
void infer_gather(Inference& op);
void infer_embedding(Inference& op);
void infer_scatter(Inference& op);
void infer_broadcast_to(Inference& op);
void infer_reshape(Inference& op);
void infer_pad(Inference& op);
void infer_roll(Inference& op);
void infer_flip(Inference& op);
void infer_repeat(Inference& op);
void infer_rotary(Inference& op);
void infer_triangle(Inference& op);
void infer_one_hot(Inference& op);
void infer_iota(Inference& op);
void infer_full(Inference& op);
void infer_gather_elements(Inference& op);
void infer_scatter_elements(Inference& op);
void infer_scan(Inference& op);
void infer_sort(Inference& op);
void infer_matmul(Inference& op);
void infer_linear(Inference& op);
void infer_grouped_matmul(Inference& op);
void infer_scaled_matmul(Inference& op);
void infer_convolution(Inference& op);
void infer_transposed_convolution(Inference& op);
void infer_attention(Inference& op);
void infer_pool(Inference& op);
void infer_adaptive_pool(Inference& op);
void infer_upsample(Inference& op);
void infer_softmax_backward(Inference& op);
void infer_loss_backward(Inference& op);
void infer_convolution_backward(Inference& op);
void infer_norm_backward(Inference& op);
void infer_attention_backward(Inference& op);
void infer_embedding_backward(Inference& op);
void infer_pool_backward(Inference& op);

}  // namespace fusecalc
