#include "measure/index_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "plan/ordered_rows.hpp"

namespace fusecalc {
namespace {

// A result as the sum of multiples of tensors, and of what is known.
struct Sum {
  std::vector<std::pair<TensorId, double>> terms{};
  Bounds known{};

  void add(const Bounds& values, double scale) {
    const auto [low, high] = std::minmax({values.low * scale, values.high * scale});
    known.low += low;
    known.high += high;
  }
};

Bounds joined(const Bounds& a, const Bounds& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

// The values of x for which x * scale lies within bounds.
Bounds divided(const Bounds& bounds, double scale) {
  const auto [low, high] = std::minmax({bounds.low / scale, bounds.high / scale});
  return {low, high};
}

bool moves(const Op& op) {
  return op.op_class == OpClass::kMovement && op.row->access != Access::kScatter;
}

}  // namespace

Bounds common(const Bounds& a, const Bounds& b) {
  const double low = std::max(a.low, b.low);
  return {low, std::max(low, std::min(a.high, b.high))};
}

class IndexBounds::Search {
 public:
  Search(const IndexBounds& bounds, const Found& found)
      : graph_(bounds.graph_), given_(bounds.given_), found_(found) {}

  void allow(TensorId tensor, const Bounds& allowed);

 private:
  static constexpr int kMostSteps = 10'000;
  static constexpr int kDeepest = 64;

  // The op that makes a tensor; null for an input.
  const Op* maker_of(TensorId value) const {
    const OpId producer = graph_.tensor(value).producer;
    return producer == kNone || given_[value] ? nullptr : &graph_.ops[producer];
  }
  // What is known of elements without their inputs.
  std::optional<Bounds> known(const Operand& operand, int depth) const {
    if (operand.tensor == kNone) return Bounds{operand.number, operand.number};
    return known(graph_.tensor(operand.tensor).value, depth);
  }
  std::optional<Bounds> known(TensorId value, int depth) const;
  std::optional<Bounds> known_of(const Op& op, TensorId value, int depth) const;
  std::optional<Bounds> joined_operands(const Op& op, std::size_t first, int depth) const;
  // A number by which an operand is the same everywhere.
  std::optional<double> constant(const Operand& operand, int depth) const {
    const std::optional<Bounds> values = known(operand, depth);
    return values && values->low == values->high ? std::optional(values->low) : std::nullopt;
  }
  std::optional<Sum> sum_of(const Op& op, int depth) const;
  void add_term(Sum& sum, const Operand& operand, double scale, int depth) const;

  void allow_operand(const Op& op, std::size_t i, const Bounds& allowed) {
    if (op.operands[i].tensor != kNone) allow(op.operands[i].tensor, allowed);
  }
  void allow_terms(Sum sum, const Bounds& allowed);
  void allow_row(const Op& op, const Bounds& allowed);
  void allow_operands(const Op& op, const Bounds& allowed);

  const OpGraph& graph_;
  const std::vector<bool>& given_;
  const Found& found_;
  int steps_ = 0;
};

std::optional<Bounds> IndexBounds::Search::known(TensorId value, int depth) const {
  if (graph_.tensor(value).type.dtype == DType::kBool) return Bounds{0, 1};
  const Op* const op = maker_of(value);
  if (op == nullptr || depth >= kDeepest) return std::nullopt;
  return known_of(*op, value, depth + 1);
}

std::optional<Bounds> IndexBounds::Search::known_of(const Op& op, TensorId value,
                                                    int depth) const {
  const std::string_view name = op.row->name;
  const Attributes& at = *op.attributes;
  if (name == "iota") {
    const double steps = static_cast<double>(graph_.tensor(value).elements) - 1;
    const auto [low, high] = std::minmax({at.first, at.first + at.delta * steps});
    return Bounds{low, high};
  }
  if (name == "full") return Bounds{at.value, at.value};
  if (op.row->type_rule == TypeRule::kIndex || (op.row->family == OpFamily::kSort &&
                                                value == op.outputs.back() &&
                                                op.outputs.size() == 2)) {
    return Bounds{0, static_cast<double>(graph_.tensor(op.operands[0].tensor).elements) - 1};
  }
  if (name == "remainder" || name == "bitwise_and") {
    const std::optional<double> most = constant(op.operands[1], depth);
    if (most && *most > 0) return Bounds{0, name == "remainder" ? *most - 1 : *most};
  }
  if (name == "clamp" && at.min && at.max) return Bounds{*at.min, *at.max};
  if (op.row->family == OpFamily::kWhere) return joined_operands(op, 1, depth);
  if (op.row->family == OpFamily::kCast || (moves(op) && op.row->access != Access::kGather)) {
    return joined_operands(op, 0, depth);
  }
  const std::optional<Sum> sum = sum_of(op, depth);
  return sum && sum->terms.empty() ? std::optional(sum->known) : std::nullopt;
}

std::optional<Bounds> IndexBounds::Search::joined_operands(const Op& op, std::size_t first,
                                                           int depth) const {
  std::optional<Bounds> all;
  for (std::size_t i = first; i < op.operands.size(); ++i) {
    const std::optional<Bounds> one = known(op.operands[i], depth);
    if (!one) return std::nullopt;
    all = all ? joined(*all, *one) : *one;
  }
  return all;
}

void IndexBounds::Search::add_term(Sum& sum, const Operand& operand, double scale,
                                   int depth) const {
  if (const std::optional<Bounds> values = known(operand, depth)) {
    sum.add(*values, scale);
  } else if (scale != 0) {
    sum.terms.emplace_back(operand.tensor, scale);
  }
}

std::optional<Sum> IndexBounds::Search::sum_of(const Op& op, int depth) const {
  const std::string_view name = op.row->name;
  Sum sum;
  if (name == "add" || name == "sub") {
    add_term(sum, op.operands[0], 1, depth);
    add_term(sum, op.operands[1], name == "add" ? 1 : -1, depth);
    return sum;
  }
  if (name == "neg") {
    add_term(sum, op.operands[0], -1, depth);
    return sum;
  }
  if (name != "mul" && name != "fma" && name != "bitwise_left_shift") return std::nullopt;
  const bool shifts = name == "bitwise_left_shift";
  const std::size_t factor = !shifts && constant(op.operands[0], depth) ? 0 : 1;
  const std::optional<double> scale = constant(op.operands[factor], depth);
  if (!scale) return std::nullopt;
  add_term(sum, op.operands[1 - factor], shifts ? std::exp2(*scale) : *scale, depth);
  if (name == "fma") add_term(sum, op.operands[2], 1, depth);
  return sum;
}

void IndexBounds::Search::allow(TensorId tensor, const Bounds& allowed) {
  if (++steps_ > kMostSteps) return;
  const TensorId value = graph_.tensor(tensor).value;
  const Op* const op = maker_of(value);
  if (op == nullptr) {
    found_(value, allowed);
  } else {
    allow_operands(*op, allowed);
  }
}

// The terms with the smaller factors, such as columns, get what fits between two multiples of the
// next one; those with equal factors half of what there is.
void IndexBounds::Search::allow_terms(Sum sum, const Bounds& allowed) {
  std::ranges::sort(sum.terms, {}, [](const auto& term) { return std::abs(term.second); });
  Bounds left = {allowed.low - sum.known.low, allowed.high - sum.known.high};
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    const auto [tensor, scale] = sum.terms[i];
    Bounds share = left;
    if (i + 1 < sum.terms.size()) {
      const double next = std::abs(sum.terms[i + 1].second);
      const double between = next - std::abs(scale);
      const double most = left.high - std::max(left.low, 0.0);
      const double high = between > 0 ? std::min(between, most) : most / 2;
      share = scale > 0 ? Bounds{0, high} : Bounds{-high, 0};
    }
    const Bounds values = divided(share, scale);
    if (values.low > values.high) return;
    allow(tensor, values);
    const auto [low, high] = std::minmax({values.low * scale, values.high * scale});
    left = {left.low - low, left.high - high};
  }
}

// Sums along a row of what is not negative.
void IndexBounds::Search::allow_row(const Op& op, const Bounds& allowed) {
  const std::uint64_t terms =
      op.row->family == OpFamily::kScan ? ordered_rows(graph_, op).length : op.rows.row_length();
  if (terms == 0) return;
  allow(op.operands[0].tensor, {0, std::floor(allowed.high / static_cast<double>(terms))});
}

void IndexBounds::Search::allow_operands(const Op& op, const Bounds& allowed) {
  const std::string_view name = op.row->name;
  if (op.row->access == Access::kGather) {
    allow_operand(op, table_input(graph_, op), allowed);
    return;
  }
  if (name == "cumsum" || name == "sum") return allow_row(op, allowed);
  if (const std::optional<Sum> sum = sum_of(op, 0)) return allow_terms(*sum, allowed);
  if (name == "floor_divide" || name == "bitwise_right_shift") {
    const std::optional<double> number = constant(op.operands[1], 0);
    const double by = !number ? 0 : name == "floor_divide" ? *number : std::exp2(*number);
    if (by > 0) allow_operand(op, 0, {allowed.low * by, allowed.high * by + by - 1});
    return;
  }
  if (op.row->family == OpFamily::kSort) return allow_operand(op, 0, allowed);
  const bool follows = moves(op) || op.row->family == OpFamily::kCast || op.row->keeps_range;
  if (!follows || (known_of(op, op.outputs[0], 0).has_value() && name != "where")) return;
  for (std::size_t i = op.row->family == OpFamily::kWhere ? 1 : 0; i < op.operands.size(); ++i) {
    allow_operand(op, i, allowed);
  }
}

void IndexBounds::trace(TensorId index, const Bounds& allowed, const Found& found) const {
  Search(*this, found).allow(index, allowed);
}

}  // namespace fusecalc
