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
    ClassRow{"eye", kMovement},
    ClassRow{"gather", kMovement},
    ClassRow{"index_put", kMovement},
    ClassRow{"scatter", kMovement},
    ClassRow{"slice_scatter", kMovement},
    ClassRow{"select_scatter", kMovement},
    ClassRow{"as_strided", kMovement},
    ClassRow{"unfold", kMovement},
    ClassRow{"pad", kMovement},
    ClassRow{"repeat_interleave", kMovement},
    ClassRow{"pixel_shuffle", kMovement},
    ClassRow{"remainder", kPointwise},
    ClassRow{"div", kPointwise},
    ClassRow{"bucketize", kPointwise},
    ClassRow{"searchsorted", kPointwise},
    ClassRow{"bernoulli", kPointwise},
    ClassRow{"rand", kPointwise},
    ClassRow{"rand_like", kPointwise},
    ClassRow{"randn", kPointwise},
    ClassRow{"randn_like", kPointwise},
    ClassRow{"randint", kPointwise},
    ClassRow{"normal", kPointwise},
    ClassRow{"exponential", kPointwise},
    ClassRow{"sinc", kPointwise},
    ClassRow{"i0", kPointwise},
    ClassRow{"lgamma", kPointwise},
    ClassRow{"digamma", kPointwise},
    ClassRow{"erfinv", kPointwise},
    ClassRow{"heaviside", kPointwise},
    ClassRow{"copysign", kPointwise},
    ClassRow{"nextafter", kPointwise},
    ClassRow{"ldexp", kPointwise},
    ClassRow{"special_entr", kPointwise},
    ClassRow{"isclose", kPointwise},
    ClassRow{"signbit", kPointwise},
    ClassRow{"addcdiv", kPointwise},
    ClassRow{"addcmul", kPointwise},
    ClassRow{"lerp", kPointwise},
    ClassRow{"max", kReduce},
    ClassRow{"min", kReduce},
    ClassRow{"linalg_vector_norm", kReduce},
    ClassRow{"convolution", kContract},
    ClassRow{"_grouped_mm", kContract},
    ClassRow{"grouped_mm_fallback", kContract},
    ClassRow{"_scaled_mm", kContract},
};

std::unordered_map<std::string_view, AtenRule> all_rules() {
  std::unordered_map<std::string_view, AtenRule> rules;
  for (const auto& part :
       {aten_view_rules(), aten_axis_rules(), aten_index_rules(), aten_movement_rules(),
        aten_pointwise_rules(), aten_row_rules(), aten_loss_rules(), aten_product_rules(),
        aten_composed_rules(), aten_recurrent_rules(), aten_window_rules(), aten_backward_rules(),
        aten_quantized_rules(), aten_elementwise_rules()}) {
    for (const AtenRule& rule : part) rules.emplace(rule.op, rule);
  }
  return rules;
}

}  // namespace

bool apply_aten_rule(const AtenCall& call, std::string_view op) {
  static const std::unordered_map<std::string_view, AtenRule> rules = all_rules();
  if (apply_complex_rule(call, op)) return true;
  // Other rules know no pairs: the op is opaque, and reads and writes them as they are. What makes
  // a tensor like another takes its shape alone.
  const std::vector<ValueId> values = call.all_values();
  const auto is_pairs = [&](ValueId id) { return call.at(id).pairs != ProgramValue::kNoTensor; };
  const bool reads = !op.starts_with("new_") && !op.ends_with("_like");
  if (reads && std::ranges::any_of(values, is_pairs)) return false;
  const auto found = rules.find(op);
  if (found != rules.end()) return found->second.apply(call, found->second.row);
  return pointwise_by_name(call, op);
}

bool set_custom(const AtenCall& call, const ModelGraph::Custom& custom) {
  std::vector<ModelGraph::TensorId> inputs;
  for (const ValueId id : call.all_values()) {
    const ModelGraph::TensorId tensor = call.tensor(id);
    if (std::ranges::find(inputs, tensor) == inputs.end()) inputs.push_back(tensor);
  }
  std::vector<ModelType> types;
  for (std::size_t i = 0; i < call.results(); ++i) types.push_back(call.type(i));
  const auto results = call.graph().custom(inputs, types, custom);
  for (std::size_t i = 0; i < results.size(); ++i) call.set(i, results[i]);
  return true;
}

OpClass aten_class(std::string_view op) {
  const auto* found = std::ranges::find(kClasses, op, &ClassRow::op);
  return found == kClasses.end() ? kOpaque : found->op_class;
}

}  // namespace fusecalc
