#include "input/onnx/rules.hpp"

#include <array>

namespace fusecalc {

OnnxRule rule_of(std::string_view domain, std::string_view type) {
  for (const auto rows :
       {onnx_pointwise_rules(), onnx_row_rules(), onnx_movement_rules(), onnx_product_rules()}) {
    for (const OnnxRuleRow& row : rows) {
      if (row.type == type && row.domain == domain) return row.rule;
    }
  }
  return nullptr;
}

WrittenAttribute listed_attribute(std::string name, const std::vector<std::int64_t>& values) {
  return {.name = std::move(name), .value = std::vector<WrittenDim>(values.begin(), values.end())};
}

}  // namespace fusecalc
