#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_table.hpp"
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
std::span<const AtenRule> aten_movement_rules();
std::span<const AtenRule> aten_pointwise_rules();
std::span<const AtenRule> aten_row_rules();
std::span<const AtenRule> aten_product_rules();

// Applies the rule of an op. A pointwise op without one, whose name is that of a row of the op
// table, becomes that row.
bool apply_aten_rule(const AtenCall& call, std::string_view op);

// What an op without a row does to memory, as far as its name tells.
OpClass aten_class(std::string_view op);

// For rules. The tensor in another shape; the shape that it had before counts, where it was
// reshaped.
std::optional<ModelGraph::TensorId> reshaped(const AtenCall& call, ModelGraph::TensorId tensor,
                                             const ModelType& type);
// The rule of a pointwise op that has one or two operands and the name of its row.
bool pointwise_by_name(const AtenCall& call, std::string_view op);
WrittenAttribute listed(std::string name, std::vector<WrittenDim> values);
WrittenAttribute listed(std::string name, const std::vector<std::int64_t>& values);
// An axis from 0; nothing if it is out of range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

}  // namespace fusecalc
