#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_table.hpp"
#include "input/model_shapes.hpp"
#include "input/pt2/importer.hpp"

namespace fusecalc {

// Adds the ops of one call of an ATen op and sets its results. False, with nothing set, if the call
// has a form that the rule does not know.
using AtenFunction = bool (*)(const AtenCall& call, std::string_view row);

struct AtenRule {
  std::string_view op;  // without namespace and overload
  AtenFunction apply = nullptr;
  std::string_view row{};  // of the op table, for rules that serve several ops
};

std::span<const AtenRule> aten_view_rules();
std::span<const AtenRule> aten_axis_rules();
std::span<const AtenRule> aten_movement_rules();
std::span<const AtenRule> aten_index_rules();
std::span<const AtenRule> aten_pointwise_rules();
std::span<const AtenRule> aten_elementwise_rules();
std::span<const AtenRule> aten_row_rules();
std::span<const AtenRule> aten_loss_rules();
std::span<const AtenRule> aten_product_rules();
std::span<const AtenRule> aten_window_rules();
std::span<const AtenRule> aten_backward_rules();
std::span<const AtenRule> aten_composed_rules();
std::span<const AtenRule> aten_recurrent_rules();
std::span<const AtenRule> aten_quantized_rules();

// Applies the rule of an op. A pointwise op without one, whose name is that of a row of the op
// table, becomes that row.
bool apply_aten_rule(const AtenCall& call, std::string_view op);

// The same for an op of complex numbers that stays one of their pairs.
bool apply_complex_rule(const AtenCall& call, std::string_view op);

// What an op without a row does to memory, as far as its name tells.
OpClass aten_class(std::string_view op);

// For rules. A range of an axis, read where it is; or nothing. `type` is the result's.
std::optional<ModelGraph::TensorId> sliced(ModelGraph& graph, ModelGraph::TensorId tensor,
                                           const AxisRange& range, const ModelType& type);
// `tensor` with the axes `last`, which differ, behind the others; or nothing.
std::optional<ModelGraph::TensorId> with_last(ModelGraph& graph, ModelGraph::TensorId tensor,
                                              const std::vector<std::size_t>& last);
// A tensor with a number in every element; nothing where it is none (NaN).
std::optional<ModelGraph::TensorId> filled(ModelGraph& graph, const ModelType& type, double number);
// The whole with a range of an axis replaced by `part`; or nothing.
std::optional<ModelGraph::TensorId> overwritten(ModelGraph& graph, const ProgramValue& whole,
                                                ModelGraph::TensorId part, const AxisRange& range);
// The same in the memory of the whole, of which nothing else is read or written.
std::optional<ModelGraph::TensorId> updated(ModelGraph& graph, ModelGraph::TensorId whole,
                                            ModelGraph::TensorId part, const AxisRange& range);
// The rule of a pointwise op that has one or two operands and the name of its row.
bool pointwise_by_name(const AtenCall& call, std::string_view op);
// With these, softplus is log(sigmoid(x)): -softplus(-x).
std::vector<WrittenAttribute> log_sigmoid_attributes();
// The ops of x[i, :, j]: what several indices name. `names` are those of the call, empty for an
// axis that has none.
bool gather_places(const AtenCall& call, ValueId self, std::span<const std::string> names);
// The same of x[i, :, j] = values, in `overwritten`.
bool scatter_places(const AtenCall& call, ModelGraph::TensorId overwritten,
                    std::span<const std::string> names, ValueId values, std::string_view combine);
// An op that no row has, of all of the call's tensors; its results are the call's.
bool set_custom(const AtenCall& call, const ModelGraph::Custom& custom);
// So many FLOPs for each pair of a query and a key that it sees: `of_head` for each element of a
// head, and `of_value` for each one of a value. Nothing where that is no number below 2^63.
std::optional<std::uint64_t> attention_flops(const AtenCall& call, std::uint64_t of_head,
                                             std::uint64_t of_value);
// Which of a node's results are not None, as the attribute "gradients".
WrittenAttribute given_gradients(const AtenCall& call);

}  // namespace fusecalc
