#include <array>
#include <cmath>

#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Input = ModelGraph::Input;

// What tensors are, written as a polynomial of x: the factors of its powers.
using Polynomial = std::array<double, 4>;

constexpr int kMostDepth = 6;  // of the ops of a polynomial or a product

// The two inputs of a product, or of a quotient by a number.
std::optional<std::pair<Input, Input>> two_factors(const ModelGraph& graph, TensorId tensor) {
  if (const auto product = graph.written_by(tensor, "mul")) {
    return std::pair(product->inputs[0], product->inputs[1]);
  }
  const auto quotient = graph.written_by(tensor, "div");
  const auto by = quotient ? number_in(quotient->inputs[1]) : std::nullopt;
  return by ? std::optional(std::pair(quotient->inputs[0], Input(1 / *by))) : std::nullopt;
}

std::optional<Polynomial> multiplied(const Polynomial& a, const Polynomial& b) {
  Polynomial result{};
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      if (a[i] == 0 || b[j] == 0) continue;
      if (i + j >= result.size()) return std::nullopt;
      result[i + j] += a[i] * b[j];
    }
  }
  return result;
}

std::optional<Polynomial> polynomial(const ModelGraph& graph, const Input& input, TensorId x,
                                     int depth = 0) {
  if (const auto number = number_in(input)) return Polynomial{*number};
  const TensorId tensor = *tensor_in(input);
  if (tensor == x) return Polynomial{0, 1};
  if (depth == kMostDepth) return std::nullopt;
  const auto part = [&](const Input& of) { return polynomial(graph, of, x, depth + 1); };
  if (const auto both = two_factors(graph, tensor)) {
    const auto a = part(both->first);
    const auto b = a ? part(both->second) : std::nullopt;
    return b ? multiplied(*a, *b) : std::nullopt;
  }
  if (const auto sum = graph.written_by(tensor, "add")) {
    auto a = part(sum->inputs[0]);
    const auto b = a ? part(sum->inputs[1]) : std::nullopt;
    if (!b) return std::nullopt;
    for (std::size_t i = 0; i < a->size(); ++i) (*a)[i] += (*b)[i];
    return a;
  }
  const auto square = graph.written_by(tensor, "square");
  const auto power = square ? std::nullopt : graph.written_by(tensor, "pow");
  if (!square && !power) return std::nullopt;
  const double exponent = square ? 2 : number_in(power->inputs[1]).value_or(0);
  const auto base = part((square ? square : power)->inputs[0]);
  if (!base || (exponent != 2 && exponent != 3)) return std::nullopt;
  auto result = multiplied(*base, *base);
  if (result && exponent == 3) result = multiplied(*result, *base);
  return result;
}

// Constants are written with as few as four digits.
bool is_close(double number, double to) { return std::abs(number - to) <= 1e-3 * std::abs(to); }

bool is_close(const Polynomial& a, const Polynomial& to) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!is_close(a[i], to[i])) return false;
  }
  return true;
}

// gelu is x (curve(argument of x) + 1) / 2.
struct Curve {
  std::string_view row;
  Polynomial argument;
  std::string_view approximate;
};
constexpr double kRootOfHalf = 0.7071067811865476;
constexpr double kRootOfTwoByPi = 0.7978845608028654;
constexpr std::array kCurves = {
    Curve{"erf", {0, kRootOfHalf, 0, 0}, "none"},
    Curve{"tanh", {0, kRootOfTwoByPi, 0, 0.044715 * kRootOfTwoByPi}, "tanh"},
};

// A product of at most three, whose factors may be products themselves.
constexpr int kMostFactors = 3;

void collect_factors(const ModelGraph& graph, TensorId tensor, int depth,
                     std::vector<TensorId>& factors) {
  factors.push_back(tensor);
  const auto both = depth < kMostFactors ? two_factors(graph, tensor) : std::nullopt;
  if (!both) return;
  for (const Input& factor : {both->first, both->second}) {
    if (const auto inside = tensor_in(factor)) collect_factors(graph, *inside, depth + 1, factors);
  }
}

// The number n of the product n * x * gate; 0 if it is none.
struct GateProduct {
  const ModelGraph& graph;
  TensorId x = 0;
  TensorId gate = 0;
  int of_x = 0;
  int of_gate = 0;

  double number(const Input& input, int depth = 0) {
    if (const auto given = number_in(input)) return *given;
    const TensorId tensor = *tensor_in(input);
    if (tensor == x) return ++of_x == 1 ? 1 : 0;
    if (tensor == gate) return ++of_gate == 1 ? 1 : 0;
    const auto both = depth < kMostFactors ? two_factors(graph, tensor) : std::nullopt;
    if (!both) return 0;
    return number(both->first, depth + 1) * number(both->second, depth + 1);
  }
};

struct FoundActivation {
  std::string_view row;
  TensorId x = 0;
  std::vector<WrittenAttribute> attributes{};
  std::vector<TensorId> inner{};
};

std::optional<FoundActivation> silu_of(const ModelGraph& graph, TensorId last) {
  const auto product = graph.written_by(last, "mul");
  if (!product) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto x = tensor_in(product->inputs[i]);
    const auto gate = tensor_in(product->inputs[1 - i]);
    const auto curve = x && gate ? graph.written_by(*gate, "sigmoid") : std::nullopt;
    if (curve && tensor_in(curve->inputs[0]) == x) return FoundActivation{"silu", *x, {}, {*gate}};
  }
  return std::nullopt;
}

// The curve that a factor, curve(..) + 1, is of.
std::optional<std::pair<const Curve*, TensorId>> curve_in(const ModelGraph& graph,
                                                          TensorId factor) {
  const auto sum = graph.written_by(factor, "add");
  if (!sum) return std::nullopt;
  const bool one_first = number_in(sum->inputs[0]) == 1.0;
  if (!one_first && number_in(sum->inputs[1]) != 1.0) return std::nullopt;
  const auto value = tensor_in(sum->inputs[one_first ? 1 : 0]);
  if (!value) return std::nullopt;
  for (const Curve& curve : kCurves) {
    if (graph.written_by(*value, curve.row)) return std::pair(&curve, *value);
  }
  return std::nullopt;
}

std::optional<FoundActivation> gelu_of(const ModelGraph& graph, TensorId last) {
  std::vector<TensorId> factors;
  collect_factors(graph, last, 0, factors);
  for (const TensorId gate : factors) {
    const auto curve = curve_in(graph, gate);
    if (!curve) continue;
    const Input argument = graph.written_by(curve->second, curve->first->row)->inputs[0];
    for (const TensorId x : factors) {
      const auto found = polynomial(graph, argument, x);
      if (!found || !is_close(*found, curve->first->argument)) continue;
      GateProduct product{graph, x, gate};
      const bool halves = is_close(product.number(last), 0.5);
      if (!halves || product.of_x != 1 || product.of_gate != 1) continue;
      return FoundActivation{
          "gelu",
          x,
          {{.name = "approximate", .value = std::string(curve->first->approximate)}},
          {gate, curve->second}};
    }
  }
  return std::nullopt;
}

}  // namespace

void find_written_activation(ModelGraph& graph, TensorId last) {
  auto found = silu_of(graph, last);
  if (!found) found = gelu_of(graph, last);
  if (!found) return;
  const ModelType type = graph.type(last);  // a copy: new ops move the graph's tensors
  const ModelType& x = graph.type(found->x);
  if (x.shape() != type.shape() || x.dtype() != type.dtype()) return;
  const auto same = graph.op(found->row, {found->x}, found->attributes, type);
  if (same) graph.instead(last, *same, found->inner);
}

}  // namespace fusecalc
