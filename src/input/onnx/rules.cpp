#include "input/onnx/rules.hpp"

#include <array>

#include "core/checked.hpp"

namespace fusecalc {

OnnxRule rule_of(std::string_view domain, std::string_view type) {
  for (const auto rows :
       {onnx_pointwise_rules(), onnx_same_type_rules(), onnx_quantized_rules(), onnx_row_rules(),
        onnx_movement_rules(), onnx_index_rules(), onnx_product_rules(), onnx_attention_rules(),
        onnx_window_rules(), onnx_onnxruntime_rules(), onnx_language_rules()}) {
    for (const OnnxRuleRow& row : rows) {
      if (row.type == type && row.domain == domain) return row.rule;
    }
  }
  return nullptr;
}

std::uint64_t product_flops(std::uint64_t elements, std::uint64_t depth) {
  std::uint64_t flops = 2;
  if (!checked_multiply(flops, elements) || !checked_multiply(flops, depth)) return 0;
  return flops;
}

}  // namespace fusecalc
