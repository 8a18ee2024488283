#include "input/causal_mask.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "input/affine.hpp"
#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Origin = ModelGraph::Origin;

class Mask {
 public:
  explicit Mask(const ModelGraph& graph) : graph_(graph), reader_(graph) {}

  // Which elements of a mask hold: those for which the function is 0 or less.
  std::optional<Affine> condition(TensorId tensor) {
    if (!reader_.goes_on()) return std::nullopt;
    if (const auto& known = graph_.known(tensor).condition) return known;
    if (const auto from = reader_.viewed(tensor)) {
      return reader_.moved(condition(*from), *from, tensor);
    }
    if (const auto cast = graph_.written_by(tensor, "cast")) {
      // Other casts may make 0 of a number.
      const bool keeps = is_bool(tensor) || is_bool(tensor_of(*cast));
      return keeps ? condition(tensor_of(*cast)) : std::nullopt;
    }
    if (const auto constant = reader_.numbers(tensor); constant && constant->is_constant()) {
      return Affine{constant->along, constant->constant != 0 ? 0.0 : 1.0};
    }
    for (const bool lower : {true, false}) {
      const auto triangle = graph_.written_by(tensor, lower ? "tril" : "triu");
      if (triangle) return of_triangle(*triangle, tensor, lower);
    }
    for (const std::string_view row : {"logical_not", "bitwise_not"}) {
      if (const auto other = graph_.written_by(tensor, row)) {
        return negated(condition(tensor_of(*other)));
      }
    }
    for (const std::string_view row : {"logical_and", "bitwise_and"}) {
      if (const auto both = graph_.written_by(tensor, row)) return of_both(*both, tensor);
    }
    if (const auto choice = graph_.written_by(tensor, "where")) return of_choice(*choice, 1, 0);
    if (auto zero = of_zero(tensor)) return zero;
    return of_comparison(tensor);
  }

  // The conditions of which a mask holds where all of them do; false if one is not affine.
  bool collect(TensorId tensor, std::vector<Affine>& conditions) {
    if (!reader_.goes_on()) return false;
    const auto show = [&](TensorId from) {
      std::vector<Affine> inner;
      if (!collect(from, inner)) return false;
      for (const Affine& each : inner) {
        auto shown = reader_.moved(each, from, tensor);
        if (!shown) return false;
        conditions.push_back(std::move(*shown));
      }
      return true;
    };
    if (const auto from = reader_.viewed(tensor)) return show(*from);
    for (const std::string_view row : {"logical_and", "bitwise_and"}) {
      const auto both = graph_.written_by(tensor, row);
      if (!both) continue;
      return std::ranges::all_of(both->inputs, [&](const ModelGraph::Input& input) {
        const auto* number = std::get_if<double>(&input);
        return number != nullptr ? *number != 0 : show(std::get<TensorId>(input));
      });
    }
    auto one = condition(tensor);
    if (one) conditions.push_back(std::move(*one));
    return one.has_value();
  }

  static std::optional<Affine> negated(std::optional<Affine> affine) {
    if (!affine) return std::nullopt;
    // Not (n <= 0) is 1 - n <= 0.
    for (double& step : affine->along) step = -step;
    affine->constant = 1 - affine->constant;
    return affine;
  }

  // Which elements of what is added to scores leave them as they are; the others are as good as
  // minus infinity.
  std::optional<Affine> added(TensorId tensor) {
    if (!reader_.goes_on()) return std::nullopt;
    if (const auto& known = graph_.known(tensor).condition) return known;
    if (const auto from = reader_.viewed(tensor)) {
      return reader_.moved(added(*from), *from, tensor);
    }
    if (const auto choice = graph_.written_by(tensor, "where")) {
      return of_choice(*choice, 0, kMaskedScore);
    }
    for (const bool lower : {true, false}) {
      const auto triangle = graph_.written_by(tensor, lower ? "tril" : "triu");
      const auto full = triangle ? reader_.numbers(tensor_of(*triangle)) : std::nullopt;
      if (!full || !full->is_constant() || !(full->constant < kMaskedScore)) continue;
      return negated(of_triangle(*triangle, tensor, lower));
    }
    return std::nullopt;
  }

 private:
  static TensorId tensor_of(const Origin& origin) { return std::get<TensorId>(origin.inputs[0]); }
  bool is_bool(TensorId tensor) const { return graph_.type(tensor).dtype() == DType::kBool; }
  std::size_t rank(TensorId tensor) const { return graph_.type(tensor).shape().size(); }

  std::optional<Affine> of_comparison(TensorId tensor) {
    struct Comparison {
      std::string_view row;
      bool swaps;
      double more;  // a < b is a + 1 <= b
    };
    static constexpr std::array kComparisons = {
        Comparison{"le", false, 0}, Comparison{"lt", false, 1}, Comparison{"ge", true, 0},
        Comparison{"gt", true, 1}};
    for (const Comparison& comparison : kComparisons) {
      auto origin = graph_.written_by(tensor, comparison.row);
      if (!origin) continue;
      if (comparison.swaps) std::swap(origin->inputs[0], origin->inputs[1]);
      std::optional<Affine> affine = reader_.combined(*origin, rank(tensor), -1);
      if (affine) affine->constant += comparison.more;
      return affine;
    }
    return std::nullopt;
  }

  // Of two numbers, that which is `yes` (or, above 0, any but 0), and `no` or less.
  std::optional<Affine> of_choice(const Origin& choice, double yes, double no) {
    const auto* chosen = std::get_if<double>(&choice.inputs[1]);
    const auto* other = std::get_if<double>(&choice.inputs[2]);
    if (chosen == nullptr || other == nullptr) return std::nullopt;
    const auto is_yes = [&](double number) { return yes > 0 ? number != 0 : number == 0; };
    const auto is_no = [&](double number) { return yes > 0 ? number == 0 : number < no; };
    if (is_yes(*chosen) && is_no(*other)) return condition(tensor_of(choice));
    if (is_yes(*other) && is_no(*chosen)) return negated(condition(tensor_of(choice)));
    return std::nullopt;
  }

  // x == 0 and x != 0, of an x that is a condition itself.
  std::optional<Affine> of_zero(TensorId tensor) {
    for (const bool equal : {true, false}) {
      const auto origin = graph_.written_by(tensor, equal ? "eq" : "ne");
      const auto* x = origin ? std::get_if<TensorId>(&origin->inputs[0]) : nullptr;
      const auto* number = origin ? std::get_if<double>(&origin->inputs[1]) : nullptr;
      if (x == nullptr || number == nullptr || *number != 0) continue;
      if (graph_.type(*x).shape() != graph_.type(tensor).shape()) return std::nullopt;
      return equal ? negated(condition(*x)) : condition(*x);
    }
    return std::nullopt;
  }

  // Elements of a number other than 0, on one side of a diagonal.
  std::optional<Affine> of_triangle(const Origin& triangle, TensorId tensor, bool lower) {
    const auto inner = condition(tensor_of(triangle));
    if (!inner || !inner->is_constant() || inner->constant > 0 || rank(tensor) < 2) {
      return std::nullopt;
    }
    const double side = lower ? 1 : -1;
    Affine affine{std::vector<double>(rank(tensor), 0), -side * number_of(triangle, "diagonal", 0)};
    affine.along[rank(tensor) - 1] = side;
    affine.along[rank(tensor) - 2] = -side;
    return affine;
  }

  // A condition and one that always holds.
  std::optional<Affine> of_both(const Origin& both, TensorId tensor) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto* number = std::get_if<double>(&both.inputs[i]);
      const auto* other = std::get_if<TensorId>(&both.inputs[1 - i]);
      if (other == nullptr) continue;
      bool holds = number != nullptr && *number != 0;
      if (number == nullptr) {
        const auto affine = condition(std::get<TensorId>(both.inputs[i]));
        holds = affine && affine->is_constant() && affine->constant <= 0;
      }
      if (!holds || graph_.type(*other).shape() != graph_.type(tensor).shape()) continue;
      return condition(*other);
    }
    return std::nullopt;
  }

  const ModelGraph& graph_;
  AffineReader reader_;
};

}  // namespace

std::vector<WrittenAttribute> CausalMask::attributes() const {
  std::vector<WrittenAttribute> result = {{.name = "causal", .value = true}};
  if (window) result.push_back({.name = "window", .value = *window});
  return result;
}

std::optional<CausalMask> causal_mask(const ModelGraph& graph, TensorId mask, bool blocks) {
  const Shape& shape = graph.type(mask).shape();
  if (shape.size() < 2) return std::nullopt;
  const bool compares = graph.type(mask).dtype() == DType::kBool;
  Mask reader(graph);
  std::vector<Affine> conditions;
  if (compares && !blocks) {
    if (!reader.collect(mask, conditions)) return std::nullopt;
  } else {
    auto one = compares ? Mask::negated(reader.condition(mask)) : reader.added(mask);
    if (!one) return std::nullopt;
    conditions.push_back(std::move(*one));
  }
  // Key - query <= keys - queries, and query + keys - queries - key < window.
  const std::size_t last = shape.size() - 1;
  std::vector<double> later(shape.size(), 0);
  later[last - 1] = -1;
  later[last] = 1;
  std::vector<double> earlier(shape.size(), 0);
  earlier[last - 1] = 1;
  earlier[last] = -1;
  const double ahead = static_cast<double>(shape[last]) - static_cast<double>(shape[last - 1]);
  bool causal = false;
  CausalMask result;
  for (const Affine& condition : conditions) {
    const double window = ahead + 1 - condition.constant;
    if (condition.along == later && condition.constant == -ahead) {
      causal = true;
    } else if (condition.along == earlier && window >= 1 && !result.window) {
      result.window = static_cast<std::int64_t>(window);
    } else if (!condition.is_constant() || condition.constant > 0) {
      return std::nullopt;
    }
  }
  if (result.window && static_cast<std::uint64_t>(*result.window) >= shape[last]) {
    result.window.reset();
  }
  return causal ? std::optional(result) : std::nullopt;
}

}  // namespace fusecalc
