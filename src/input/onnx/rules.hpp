#pragma once

#include <span>
#include <string_view>

#include "input/onnx/importer.hpp"

namespace fusecalc {

// Writes the ops of one node; false if the node has a form that the rule does not know, and the
// node becomes a custom op.
using OnnxRule = bool (*)(OnnxImporter&, const OnnxNode&);

struct OnnxRuleRow {
  std::string_view type;
  OnnxRule rule;
  std::string_view domain{};  // "" is ONNX's own
};

std::span<const OnnxRuleRow> onnx_pointwise_rules();
std::span<const OnnxRuleRow> onnx_row_rules();
std::span<const OnnxRuleRow> onnx_movement_rules();
std::span<const OnnxRuleRow> onnx_product_rules();

// The rule of an operator, or null.
OnnxRule rule_of(std::string_view domain, std::string_view type);

// For rules: an attribute that lists integers, and the axes [0, rank).
WrittenAttribute listed_attribute(std::string name, const std::vector<std::int64_t>& values);

}  // namespace fusecalc
