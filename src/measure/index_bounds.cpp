#include "measure/index_bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include "plan/ordered_rows.hpp"

namespace fusecalc {
namespace {

Bounds joined(const Bounds& a, const Bounds& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

Bounds times(const Bounds& values, double scale) {
  const auto [low, high] = std::minmax({values.low * scale, values.high * scale});
  return {low, high};
}

bool moves(const Op& op) {
  return op.op_class == OpClass::kMovement && op.row->access != Access::kScatter;
}

// A function of elements, some of whose operands are known to lie within bounds.
class Elementwise {
 public:
  Elementwise(const Op& op, std::vector<std::optional<Bounds>> known)
      : op_(op), known_(std::move(known)) {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (!known_[i]) unknown_.push_back(i);
    }
  }

  std::span<const std::size_t> unknown() const { return unknown_; }

  // Of operands at the ends of their bounds, where most functions have the ends of their results.
  Bounds results(std::span<const double> unknown) const {
    std::optional<Bounds> all;
    std::vector<double> x(known_.size());
    for (std::size_t i = 0; i < unknown_.size(); ++i) x[unknown_[i]] = unknown[i];
    for (std::size_t corner = 0; corner < std::size_t{1} << known_.size(); ++corner) {
      bool same = false;
      for (std::size_t i = 0; i < known_.size(); ++i) {
        if (!known_[i]) continue;
        const bool high = (corner >> i) % 2 != 0;
        same = same || (high && known_[i]->low == known_[i]->high);
        x[i] = high ? known_[i]->high : known_[i]->low;
      }
      if (same) continue;
      const double y = op_.row->reference(x, *op_.attributes);
      all = all ? joined(*all, {y, y}) : Bounds{y, y};
    }
    return *all;
  }

  bool within(const Bounds& allowed, std::span<const double> unknown) const {
    const Bounds found = results(unknown);
    return found.low >= allowed.low && found.high <= allowed.high;
  }
  // The same where all unknown operands are the same number.
  bool within(const Bounds& allowed, double number) const {
    return within(allowed, std::vector<double>(unknown_.size(), number));
  }
  // Where each of them may be at either end.
  bool within_ends(const Bounds& allowed) const {
    std::vector<double> x(unknown_.size());
    for (std::size_t corner = 0; corner < std::size_t{1} << x.size(); ++corner) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = (corner >> i) % 2 != 0 ? allowed.high : allowed.low;
      }
      if (!within(allowed, x)) return false;
    }
    return true;
  }

  // Each unknown operand's factor, where the result is the sum of their multiples and of what is
  // known.
  std::optional<std::vector<double>> factors() const {
    constexpr double kStep = 3;
    std::vector<double> x(unknown_.size());
    const double start = results(x).low;
    std::vector<double> found;
    double expected = start;
    for (double& one : x) {
      one = 1;
      found.push_back(results(x).low - start);
      one = 0;
      expected += kStep * static_cast<double>(found.size()) * found.back();
    }
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = kStep * static_cast<double>(i + 1);
    const bool adds = std::isfinite(expected) && results(x).low == expected &&
                      std::ranges::find(found, 0.0) == found.end();
    return adds ? std::optional(found) : std::nullopt;
  }

 private:
  const Op& op_;
  std::vector<std::optional<Bounds>> known_;
  std::vector<std::size_t> unknown_;
};

// How far one unknown operand may go from where the function is within its bounds, in one
// direction; `otherwise` where nothing stops it.
double farthest(const Elementwise& function, const Bounds& allowed, double from, double step,
                double otherwise) {
  constexpr double kFar = 0x1p40;
  const double least = std::abs(step);
  while (std::abs(step) < kFar && function.within(allowed, from + step)) {
    from += step;
    step *= 2;
  }
  if (std::abs(step) >= kFar) return otherwise;
  for (; std::abs(step) >= least; step /= 2) {
    if (function.within(allowed, from + step)) from += step;
  }
  return from;
}

// The values of the only unknown operand.
std::optional<Bounds> operand_bounds(const Elementwise& function, const Bounds& allowed,
                                     bool whole) {
  const double middle = std::floor((allowed.low + allowed.high) / 2);
  for (const double start :
       {0.0, allowed.low, allowed.high, middle, 1.0, -1.0, -allowed.high, -middle}) {
    if (!function.within(allowed, start)) continue;
    const double step = whole ? 1 : 0x1p-10;
    return Bounds{farthest(function, allowed, start, -step, std::min(start, allowed.low)),
                  farthest(function, allowed, start, step, std::max(start, allowed.high))};
  }
  return std::nullopt;
}

class Search {
 public:
  Search(const OpGraph& graph, const std::vector<bool>& given, const FoundBounds& found)
      : graph_(graph), given_(given), found_(found) {}

  void allow(TensorId tensor, const Bounds& allowed);

 private:
  static constexpr int kMostSteps = 2'000;
  static constexpr int kDeepest = 64;

  // The op that makes a tensor; null for an input.
  const Op* maker_of(TensorId value) const {
    const OpId producer = graph_.tensor(value).producer;
    return producer == kNone || given_[value] ? nullptr : &graph_.ops[producer];
  }
  bool is_whole(TensorId tensor) const { return !is_float(graph_.tensor(tensor).type.dtype); }
  // What is known of elements without their inputs.
  std::optional<Bounds> known(const Operand& operand, int depth);
  std::optional<Bounds> known_result(const Op& op, TensorId value, int depth);
  std::optional<Bounds> known_operands(const Op& op, int depth);
  Elementwise function_of(const Op& op, int depth);

  void allow_operands(const Op& op, const Bounds& allowed);
  void allow_each(const Op& op, const Bounds& allowed);
  void allow_row(const Op& op, const Bounds& allowed);
  void allow_elements(const Op& op, const Bounds& allowed);
  void allow_terms(const Op& op, const Elementwise& function, std::span<const double> factors,
                   const Bounds& allowed);

  const OpGraph& graph_;
  const std::vector<bool>& given_;
  const FoundBounds& found_;
  std::unordered_map<TensorId, std::optional<Bounds>> known_;
  int steps_ = 0;
};

std::optional<Bounds> Search::known(const Operand& operand, int depth) {
  if (operand.tensor == kNone) return Bounds{operand.number, operand.number};
  const Tensor& value = graph_.value_of(operand.tensor);
  if (value.type.dtype == DType::kBool) return Bounds{0, 1};
  const TensorId id = graph_.tensor(operand.tensor).value;
  const Op* const op = maker_of(id);
  if (op == nullptr || depth >= kDeepest) return std::nullopt;
  if (const auto seen = known_.find(id); seen != known_.end()) return seen->second;
  return known_[id] = known_result(*op, id, depth + 1);
}

std::optional<Bounds> Search::known_result(const Op& op, TensorId value, int depth) {
  const OpFamily family = op.row->family;
  if (family == OpFamily::kIota || family == OpFamily::kFull) {
    const auto at = [&](std::uint64_t element) {
      const auto place = static_cast<double>(element);
      return op.row->reference(std::span(&place, 1), *op.attributes);
    };
    const std::uint64_t elements = std::max<std::uint64_t>(graph_.tensor(value).elements, 1);
    const auto [low, high] = std::minmax({at(0), at(elements - 1)});
    return Bounds{low, high};
  }
  const bool names_places = op.row->type_rule == TypeRule::kIndex ||
                            (family == OpFamily::kSort && value != op.outputs[0]);
  if (names_places) {
    return Bounds{0, static_cast<double>(graph_.tensor(op.operands[0].tensor).elements) - 1};
  }
  if (moves(op) && op.row->access != Access::kGather) return known_operands(op, depth);
  if (op.op_class != OpClass::kPointwise || op.row->reference == nullptr) return std::nullopt;
  const Elementwise function = function_of(op, depth);
  return function.unknown().empty() ? std::optional(function.results({})) : std::nullopt;
}

std::optional<Bounds> Search::known_operands(const Op& op, int depth) {
  std::optional<Bounds> all;
  for (const Operand& operand : op.operands) {
    const std::optional<Bounds> one = known(operand, depth);
    if (!one) return std::nullopt;
    all = all ? joined(*all, *one) : *one;
  }
  return all;
}

Elementwise Search::function_of(const Op& op, int depth) {
  std::vector<std::optional<Bounds>> operands;
  for (const Operand& operand : op.operands) operands.push_back(known(operand, depth));
  return {op, std::move(operands)};
}

void Search::allow(TensorId tensor, const Bounds& allowed) {
  if (++steps_ > kMostSteps) return;
  const TensorId value = graph_.tensor(tensor).value;
  const Op* const op = maker_of(value);
  if (op == nullptr) {
    found_(value, allowed);
  } else {
    allow_operands(*op, allowed);
  }
}

void Search::allow_operands(const Op& op, const Bounds& allowed) {
  const OpFamily family = op.row->family;
  const bool elements = op.op_class == OpClass::kPointwise && op.row->reference != nullptr;
  if (moves(op) && op.row->access == Access::kGather) {
    allow(op.operands[table_input(graph_, op)].tensor, allowed);
  } else if (moves(op)) {
    allow_each(op, allowed);
  } else if (family == OpFamily::kSort) {
    allow(op.operands[0].tensor, allowed);
  } else if (op.row->accumulator == Accumulator::kSum) {
    allow_row(op, allowed);
  } else if (elements) {
    allow_elements(op, allowed);
  }
}

void Search::allow_each(const Op& op, const Bounds& allowed) {
  for (const Operand& operand : op.operands) {
    if (operand.tensor != kNone) allow(operand.tensor, allowed);
  }
}

// Sums along a row of what is not negative.
void Search::allow_row(const Op& op, const Bounds& allowed) {
  const std::uint64_t terms =
      op.row->family == OpFamily::kScan ? ordered_rows(graph_, op).length : op.rows.row_length();
  if (terms == 0) return;
  allow(op.operands[0].tensor, {0, allowed.high / static_cast<double>(terms)});
}

void Search::allow_elements(const Op& op, const Bounds& allowed) {
  const Elementwise function = function_of(op, 0);
  const std::span<const std::size_t> unknown = function.unknown();
  if (unknown.empty()) return;
  const TensorId first = op.operands[unknown[0]].tensor;
  // What leads to no other results, whatever its operands, is spread over them where it has
  // integers.
  constexpr std::array kAny = {-0x1p40, -1e6 - 3, -1003.0, -7.0, 0.0, 5.0, 1007.0, 1e6 + 3, 0x1p40};
  const bool any = std::ranges::all_of(kAny, [&](double x) { return function.within(allowed, x); });
  if (any && !is_whole(first)) return;
  const auto factors = any ? std::nullopt : function.factors();
  if (any || (unknown.size() > 1 && !factors)) {
    if (!function.within_ends(allowed)) return;
    for (const std::size_t i : unknown) allow(op.operands[i].tensor, allowed);
  } else if (unknown.size() == 1) {
    const auto bounds = operand_bounds(function, allowed, is_whole(first));
    if (bounds) allow(first, *bounds);
  } else {
    allow_terms(op, function, *factors, allowed);
  }
}

// The terms with the smaller factors, such as columns, get what fits between two multiples of the
// next one; those with equal factors half of what there is.
void Search::allow_terms(const Op& op, const Elementwise& function, std::span<const double> factors,
                         const Bounds& allowed) {
  const Bounds known = function.results(std::vector<double>(factors.size()));
  Bounds left = {allowed.low - known.low, allowed.high - known.high};
  std::vector<std::pair<double, TensorId>> terms;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    terms.emplace_back(factors[i], op.operands[function.unknown()[i]].tensor);
  }
  std::ranges::stable_sort(terms, {}, [](const auto& term) { return std::abs(term.first); });
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto [factor, tensor] = terms[i];
    Bounds share = left;
    if (i + 1 < terms.size()) {
      const double between = std::abs(terms[i + 1].first) - std::abs(factor);
      const double most = left.high - std::max(left.low, 0.0);
      const double high = between > 0 ? std::min(between, most) : most / 2;
      share = factor > 0 ? Bounds{0, high} : Bounds{-high, 0};
    }
    if (share.low > share.high) return;
    allow(tensor, times(share, 1 / factor));
    left = {left.low - share.low, left.high - share.high};
  }
}

}  // namespace

Bounds common(const Bounds& a, const Bounds& b) {
  const double low = std::max(a.low, b.low);
  return {low, std::max(low, std::min(a.high, b.high))};
}

void trace_index(const OpGraph& graph, const std::vector<bool>& given, TensorId index,
                 const Bounds& allowed, const FoundBounds& found) {
  Search(graph, given, found).allow(index, allowed);
}

}  // namespace fusecalc
