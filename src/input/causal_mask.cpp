#include "input/causal_mask.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Input = ModelGraph::Input;
using Origin = ModelGraph::Origin;

// The most ops that a mask is followed through.
constexpr int kMostSteps = 100;

// Whole numbers that an element's place makes: a constant, and so much more for each step along an
// axis. As a condition: that the number is 0 or less.
struct Places {
  std::vector<double> along;
  double constant = 0;

  bool is_constant() const {
    return std::ranges::all_of(along, [](double step) { return step == 0; });
  }
};

double number_of(const Origin& origin, std::string_view name, double otherwise) {
  const auto found = std::ranges::find(origin.attributes, name, &WrittenAttribute::name);
  if (found == origin.attributes.end()) return otherwise;
  if (const auto* real = std::get_if<double>(&found->value)) return *real;
  const auto* whole = std::get_if<std::int64_t>(&found->value);
  return whole == nullptr ? std::nan("") : static_cast<double>(*whole);
}

class Mask {
 public:
  explicit Mask(const ModelGraph& graph) : graph_(graph) {}

  // Which elements of a mask hold.
  std::optional<Places> condition(TensorId tensor) {
    if (++steps_ > kMostSteps) return std::nullopt;
    if (const auto from = viewed(tensor)) return moved(condition(*from), *from, tensor);
    if (const auto cast = graph_.written_by(tensor, "cast")) {
      // Other casts may make 0 of a number.
      const bool keeps = is_bool(tensor) || is_bool(tensor_of(*cast));
      return keeps ? condition(tensor_of(*cast)) : std::nullopt;
    }
    if (const auto constant = numbers(tensor); constant && constant->is_constant()) {
      return Places{constant->along, constant->constant != 0 ? 0.0 : 1.0};
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
    return of_comparison(tensor);
  }

 private:
  static TensorId tensor_of(const Origin& origin) { return std::get<TensorId>(origin.inputs[0]); }
  bool is_bool(TensorId tensor) const { return graph_.type(tensor).dtype() == DType::kBool; }
  std::size_t rank(TensorId tensor) const { return graph_.type(tensor).shape().size(); }

  std::optional<TensorId> viewed(TensorId tensor) const {
    for (const std::string_view row : {"reshape", "copy", "expand_view", "broadcast_to"}) {
      if (const auto view = graph_.written_by(tensor, row)) return tensor_of(*view);
    }
    return std::nullopt;
  }

  // The numbers of `from` where `to` shows them: axes of one element come and go, and are repeated.
  std::optional<Places> moved(const std::optional<Places>& places, TensorId from,
                              TensorId to) const {
    if (!places) return std::nullopt;
    const Shape& shape = graph_.type(to).shape();
    const Shape& before = graph_.type(from).shape();
    Places result{std::vector<double>(shape.size(), 0), places->constant};
    if (places->is_constant()) return result;
    const bool repeats = !graph_.written_by(to, "reshape");
    std::size_t next = 0;
    if (repeats) {
      if (before.size() > shape.size()) return std::nullopt;
      next = shape.size() - before.size();
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!repeats && before[i] == 1) continue;
      while (!repeats && next < shape.size() && shape[next] == 1) ++next;
      if (next == shape.size()) return std::nullopt;
      if (before[i] != shape[next] && before[i] != 1) return std::nullopt;
      if (before[i] != 1) result.along[next] = places->along[i];
      ++next;
    }
    return result;
  }

  std::optional<Places> numbers(const Input& input, std::size_t axes) {
    if (const auto* number = std::get_if<double>(&input)) {
      return Places{std::vector<double>(axes, 0), *number};
    }
    std::optional<Places> places = numbers(std::get<TensorId>(input));
    if (!places || places->along.size() > axes) return std::nullopt;
    places->along.insert(places->along.begin(), axes - places->along.size(), 0);
    return places;
  }

  std::optional<Places> numbers(TensorId tensor) {
    if (++steps_ > kMostSteps) return std::nullopt;
    if (const auto from = viewed(tensor)) return moved(numbers(*from), *from, tensor);
    if (const auto full = graph_.written_by(tensor, "full")) {
      return Places{std::vector<double>(rank(tensor), 0), number_of(*full, "value", 0)};
    }
    // Narrower types do not hold every place.
    const DType dtype = graph_.type(tensor).dtype();
    if (dtype != DType::kI64 && dtype != DType::kI32 && dtype != DType::kF32) return std::nullopt;
    if (const auto range = graph_.written_by(tensor, "iota")) {
      if (rank(tensor) != 1) return std::nullopt;
      return Places{{number_of(*range, "delta", 1)}, number_of(*range, "first", 0)};
    }
    if (const auto cast = graph_.written_by(tensor, "cast")) return numbers(tensor_of(*cast));
    for (const double sign : {1.0, -1.0}) {
      const auto sum = graph_.written_by(tensor, sign > 0 ? "add" : "sub");
      if (sum) return combined(*sum, rank(tensor), sign);
    }
    return std::nullopt;
  }

  std::optional<Places> combined(const Origin& origin, std::size_t axes, double sign) {
    std::optional<Places> result = numbers(origin.inputs[0], axes);
    const std::optional<Places> other = numbers(origin.inputs[1], axes);
    if (!result || !other) return std::nullopt;
    for (std::size_t i = 0; i < axes; ++i) result->along[i] += sign * other->along[i];
    result->constant += sign * other->constant;
    return result;
  }

  static std::optional<Places> negated(std::optional<Places> places) {
    if (!places) return std::nullopt;
    // Not (n <= 0) is 1 - n <= 0.
    for (double& step : places->along) step = -step;
    places->constant = 1 - places->constant;
    return places;
  }

  std::optional<Places> of_comparison(TensorId tensor) {
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
      std::optional<Places> places = combined(*origin, rank(tensor), -1);
      if (places) places->constant += comparison.more;
      return places;
    }
    return std::nullopt;
  }

  // Elements of a number other than 0, on one side of a diagonal.
  std::optional<Places> of_triangle(const Origin& triangle, TensorId tensor, bool lower) {
    const auto inner = condition(tensor_of(triangle));
    if (!inner || !inner->is_constant() || inner->constant > 0 || rank(tensor) < 2) {
      return std::nullopt;
    }
    const double side = lower ? 1 : -1;
    Places places{std::vector<double>(rank(tensor), 0), -side * number_of(triangle, "diagonal", 0)};
    places.along[rank(tensor) - 1] = side;
    places.along[rank(tensor) - 2] = -side;
    return places;
  }

  // A condition and one that always holds.
  std::optional<Places> of_both(const Origin& both, TensorId tensor) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto* number = std::get_if<double>(&both.inputs[i]);
      const auto* other = std::get_if<TensorId>(&both.inputs[1 - i]);
      if (other == nullptr) continue;
      bool holds = number != nullptr && *number != 0;
      if (number == nullptr) {
        const auto places = condition(std::get<TensorId>(both.inputs[i]));
        holds = places && places->is_constant() && places->constant <= 0;
      }
      if (!holds || graph_.type(*other).shape() != graph_.type(tensor).shape()) continue;
      return condition(*other);
    }
    return std::nullopt;
  }

  const ModelGraph& graph_;
  int steps_ = 0;
};

}  // namespace

bool is_causal_mask(const ModelGraph& graph, TensorId mask, bool blocks) {
  const Shape& shape = graph.type(mask).shape();
  if (shape.size() < 2 || graph.type(mask).dtype() != DType::kBool) return false;
  std::optional<Places> places = Mask(graph).condition(mask);
  if (!places) return false;
  if (blocks) {
    for (double& step : places->along) step = -step;
    places->constant = 1 - places->constant;
  }
  // Key - query <= keys - queries.
  const std::size_t last = shape.size() - 1;
  std::vector<double> expected(shape.size(), 0);
  expected[last - 1] = -1;
  expected[last] = 1;
  const double later = static_cast<double>(shape[last]) - static_cast<double>(shape[last - 1]);
  return places->along == expected && places->constant == -later;
}

}  // namespace fusecalc
