#include "input/pt2/aten.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace fusecalc {
namespace {

using enum OpClass;

struct ClassRow {
  std::string_view op;
  OpClass op_class;
};

// Ops without a row whose class is known. What is not listed is opaque.
constexpr std::array kClasses = {
    ClassRow{"arange", kMovement},
    ClassRow{"linspace", kMovement},
    ClassRow{"eye", kMovement},
    ClassRow{"gather", kMovement},
    ClassRow{"index_put", kMovement},
    ClassRow{"scatter", kMovement},
    ClassRow{"slice_scatter", kMovement},
    ClassRow{"select_scatter", kMovement},
    ClassRow{"as_strided", kMovement},
    ClassRow{"unfold", kMovement},
    ClassRow{"roll", kMovement},
    ClassRow{"flip", kMovement},
    ClassRow{"pad", kMovement},
    ClassRow{"constant_pad_nd", kMovement},
    ClassRow{"repeat_interleave", kMovement},
    ClassRow{"pixel_shuffle", kMovement},
    ClassRow{"upsample_nearest2d", kMovement},
    ClassRow{"tril", kPointwise},
    ClassRow{"triu", kPointwise},
    ClassRow{"remainder", kPointwise},
    ClassRow{"div", kPointwise},
    ClassRow{"log10", kPointwise},
    ClassRow{"addcdiv", kPointwise},
    ClassRow{"addcmul", kPointwise},
    ClassRow{"lerp", kPointwise},
    ClassRow{"any", kReduce},
    ClassRow{"all", kReduce},
    ClassRow{"prod", kReduce},
    ClassRow{"std", kReduce},
    ClassRow{"var", kReduce},
    ClassRow{"var_mean", kReduce},
    ClassRow{"argmin", kReduce},
    ClassRow{"max", kReduce},
    ClassRow{"min", kReduce},
    ClassRow{"linalg_vector_norm", kReduce},
    ClassRow{"max_pool2d", kReduce},
    ClassRow{"max_pool2d_with_indices", kReduce},
    ClassRow{"avg_pool2d", kReduce},
    ClassRow{"adaptive_avg_pool2d", kReduce},
    ClassRow{"_adaptive_avg_pool2d", kReduce},
    ClassRow{"convolution", kContract},
    ClassRow{"conv_transpose1d", kContract},
    ClassRow{"conv_transpose2d", kContract},
    ClassRow{"conv3d", kContract},
    ClassRow{"_grouped_mm", kContract},
    ClassRow{"_scaled_mm", kContract},
};

std::unordered_map<std::string_view, AtenRule> all_rules() {
  std::unordered_map<std::string_view, AtenRule> rules;
  for (const auto& part : {aten_view_rules(), aten_movement_rules(), aten_pointwise_rules(),
                           aten_row_rules(), aten_product_rules()}) {
    for (const AtenRule& rule : part) rules.emplace(rule.op, rule);
  }
  return rules;
}

}  // namespace

bool apply_aten_rule(const AtenCall& call, std::string_view op) {
  static const std::unordered_map<std::string_view, AtenRule> rules = all_rules();
  const auto found = rules.find(op);
  if (found != rules.end()) return found->second.apply(call, found->second.row);
  return pointwise_by_name(call, op);
}

OpClass aten_class(std::string_view op) {
  const auto* found = std::ranges::find(kClasses, op, &ClassRow::op);
  return found == kClasses.end() ? kOpaque : found->op_class;
}

WrittenAttribute listed(std::string name, std::vector<WrittenDim> values) {
  return {.name = std::move(name), .value = std::move(values)};
}

WrittenAttribute listed(std::string name, const std::vector<std::int64_t>& values) {
  return listed(std::move(name), std::vector<WrittenDim>(values.begin(), values.end()));
}

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto extent = static_cast<std::int64_t>(rank);
  if (axis < -extent || axis >= extent) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + extent : axis);
}

}  // namespace fusecalc
