#include "input/onnx/written_activations.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <variant>

namespace fusecalc {
namespace {

using Input = ModelGraph::Input;

std::optional<ModelGraph::Origin> origin_of(const OnnxImporter& in, const Input& value,
                                            std::string_view row) {
  const auto* tensor = std::get_if<ModelGraph::TensorId>(&value);
  if (tensor == nullptr) return std::nullopt;
  return in.written_by(OnnxKnown{.type = {}, .tensor = *tensor}, row);
}

bool is_about(const Input& value, double number) {
  const double* given = std::get_if<double>(&value);
  return given != nullptr && std::abs(*given - number) < 1e-3;
}

// The x of erf(x / sqrt(2)) + 1, if that is what the value is.
std::optional<Input> inside_of_erf(const OnnxImporter& in, const Input& value) {
  const auto sum = origin_of(in, value, "add");
  if (!sum) return std::nullopt;
  const bool one_first = is_about(sum->inputs[0], 1);
  if (!one_first && !is_about(sum->inputs[1], 1)) return std::nullopt;
  const auto curve = origin_of(in, sum->inputs[one_first ? 1 : 0], "erf");
  if (!curve) return std::nullopt;
  const auto quotient = origin_of(in, curve->inputs[0], "div");
  if (quotient && is_about(quotient->inputs[1], std::sqrt(2.0))) return quotient->inputs[0];
  const auto product = origin_of(in, curve->inputs[0], "mul");
  if (!product) return std::nullopt;
  const bool number_first = is_about(product->inputs[0], std::sqrt(0.5));
  if (!number_first && !is_about(product->inputs[1], std::sqrt(0.5))) return std::nullopt;
  return product->inputs[number_first ? 1 : 0];
}

// The x of a product of three: x, erf(x / sqrt(2)) + 1, and a half.
std::optional<Input> inside_of_gelu(const OnnxImporter& in, const std::array<Input, 3>& factors) {
  const auto half = [](const Input& factor) { return is_about(factor, 0.5); };
  if (std::ranges::none_of(factors, half)) return std::nullopt;
  for (const Input& factor : factors) {
    const auto x = inside_of_erf(in, factor);
    if (x && std::ranges::find(factors, *x) != factors.end()) return x;
  }
  return std::nullopt;
}

}  // namespace

std::optional<WrittenActivation> activation_of(const OnnxImporter& in, const Input& a,
                                               const Input& b) {
  for (const auto& [value, other] : {std::pair{a, b}, std::pair{b, a}}) {
    const auto* x = std::get_if<ModelGraph::TensorId>(&other);
    const auto gate = origin_of(in, value, "sigmoid");
    if (x != nullptr && gate && gate->inputs[0] == other) return WrittenActivation{"silu", *x};
    const auto product = origin_of(in, value, "mul");
    if (!product) continue;
    const auto inside = inside_of_gelu(in, {other, product->inputs[0], product->inputs[1]});
    x = inside ? std::get_if<ModelGraph::TensorId>(&*inside) : nullptr;
    if (x != nullptr) return WrittenActivation{"gelu", *x};
  }
  return std::nullopt;
}

}  // namespace fusecalc
