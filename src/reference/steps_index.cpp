// Ops whose results depend on where their elements are.

#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "reference/element.hpp"
#include "reference/movement_step.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

std::size_t place_of(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::vector<std::uint64_t> coordinates_of(const Shape& shape, std::uint64_t element) {
  std::vector<std::uint64_t> coordinates(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; element /= shape[i]) {
    coordinates[i] = element % shape[i];
  }
  return coordinates;
}

std::uint64_t element_at(const Shape& shape, std::span<const std::uint64_t> coordinates) {
  std::uint64_t element = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) element = element * shape[i] + coordinates[i];
  return element;
}

// roll, flip and repeat.
class RelocationStep final : public MovementStep {
 public:
  using MovementStep::MovementStep;

 private:
  Source source_of(std::uint64_t element) const override {
    const Shape& from = operand(0).type.shape;
    const Shape& to = output().type.shape;
    std::vector<std::uint64_t> at = coordinates_of(to, element);
    const std::size_t added = to.size() - from.size();
    for (std::size_t i = 0; i < from.size(); ++i) at[added + i] %= from[i];
    const Attributes& attributes = *op().attributes;
    if (op().row->family == OpFamily::kRoll) {
      for (std::size_t i = 0; i < attributes.shifts.size(); ++i) {
        const std::size_t axis = place_of((*attributes.axes)[i], to.size());
        const auto extent = static_cast<std::int64_t>(to[axis]);
        const std::int64_t shifted =
            (static_cast<std::int64_t>(at[axis]) - attributes.shifts[i] % extent) % extent;
        at[axis] = static_cast<std::uint64_t>(shifted < 0 ? shifted + extent : shifted);
      }
    }
    if (op().row->family == OpFamily::kFlip) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        if (!attributes.axes) at[i] = to[i] - 1 - at[i];
      }
      for (const std::int64_t axis : attributes.axes.value_or(std::vector<std::int64_t>{})) {
        const std::size_t i = place_of(axis, to.size());
        at[i] = to[i] - 1 - at[i];
      }
    }
    return {0, element_at(from, std::span(at).subspan(added))};
  }
};

class GatherElementsStep final : public MovementStep {
 public:
  using MovementStep::MovementStep;

 private:
  void prepare() override {
    std::vector<std::uint64_t> needed;
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k)
        needed.push_back(range.first + k * range.step);
    }
    const Shape& table = operand(0).type.shape;
    const auto named =
        evaluation().indices(op().operands[1].tensor, needed, table[axis(table.size())]);
    for (std::size_t i = 0; i < needed.size(); ++i) named_[needed[i]] = named[i];
  }

  Source source_of(std::uint64_t element) const override {
    const Shape& table = operand(0).type.shape;
    std::vector<std::uint64_t> at = coordinates_of(output().type.shape, element);
    at[axis(table.size())] = named_.at(element);
    return {0, element_at(table, at)};
  }

  std::unordered_map<std::uint64_t, std::uint64_t> named_;
};

// Elements that come from at most one element of the operand, and from their own place.
class PlacedStep final : public EvaluationStep {
 public:
  using EvaluationStep::EvaluationStep;

  void request_inputs() override {
    if (op().operands.empty()) return;
    for (const StridedRange& range : wanted()->ranges()) {
      std::vector<std::uint64_t> sources;
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const auto source = source_of(range.first + k * range.step);
        if (source) sources.push_back(*source);
      }
      request(0, ranges_of(sources));
    }
  }

  void compute() override {
    Samples& results = *wanted();
    const bool reads = !op().operands.empty();
    bool all_exact = true;
    for (Request r = 0; reads && r < results.ranges().size(); ++r) {
      all_exact = all_exact && exact(r);
    }
    const DType type = output().type.dtype;
    const bool keeps = !is_float(type) || (reads && type == operand(0).type.dtype);
    results.allocate(all_exact && keeps && exact_in(op().attributes->value));
    std::vector<double> scratch;
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      const StridedRange& elements = results.ranges()[range];
      std::vector<Lanes> made(elements.count);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const std::span<const double> in =
            reads ? values(range, lane, scratch) : std::span<const double>();
        std::size_t next = 0;
        for (std::uint64_t k = 0; k < elements.count; ++k) {
          const std::uint64_t element = elements.first + k * elements.step;
          const bool from = source_of(element).has_value();
          made[k][lane] = from ? value_of(in[next++], element) : own_value(element);
        }
      }
      for (std::uint64_t k = 0; k < elements.count; ++k) {
        const std::uint64_t element = elements.first + k * elements.step;
        const bool moved = keeps && source_of(element).has_value();
        const bool exact = moved || (!terms_ && exact_in(made[k][0]));
        store(0, range, k, made[k], exact ? 0 : rounding_of(0, size_of(element, made[k][0])));
      }
    }
  }

 private:
  // Whether the type holds the number, as far as that is easy to tell.
  bool exact_in(double value) const {
    const double unit = precision_of(output().type.dtype).unit;
    return value == std::nearbyint(value) && std::abs(value) * unit <= 1;
  }

  std::optional<std::uint64_t> source_of(std::uint64_t element) const {
    switch (op().row->family) {
      case OpFamily::kPad: return padded(element);
      case OpFamily::kTriangle: return element;
      case OpFamily::kOneHot: return element / output().type.shape.back();
      default: return std::nullopt;
    }
  }

  std::optional<std::uint64_t> padded(std::uint64_t element) const {
    const Shape& from = operand(0).type.shape;
    std::vector<std::uint64_t> at = coordinates_of(output().type.shape, element);
    const std::vector<std::int64_t>& before = op().attributes->before;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const std::int64_t place =
          bordered(static_cast<std::int64_t>(at[i]) - (before.empty() ? 0 : before[i]),
                   static_cast<std::int64_t>(from[i]));
      if (place < 0 || place >= static_cast<std::int64_t>(from[i])) return std::nullopt;
      at[i] = static_cast<std::uint64_t>(place);
    }
    return element_at(from, at);
  }

  // Where an axis has the element that a pad puts at a place before, in or after it.
  std::int64_t bordered(std::int64_t place, std::int64_t extent) const {
    switch (op().attributes->border) {
      case Border::kConstant: break;
      case Border::kReflect: return extent - 1 - std::abs(extent - 1 - std::abs(place));
      case Border::kReplicate: return std::clamp(place, std::int64_t{0}, extent - 1);
      case Border::kCircular: return (place + extent) % extent;
    }
    return place;
  }

  double value_of(double x, std::uint64_t element) const {
    const Shape& shape = output().type.shape;
    if (op().row->family == OpFamily::kPad) return x;
    const std::uint64_t column = element % shape.back();
    if (op().row->family == OpFamily::kOneHot) return x == static_cast<double>(column) ? 1 : 0;
    const std::uint64_t row = element / shape.back() % shape[shape.size() - 2];
    return op().row->reference(std::array{x, static_cast<double>(row), static_cast<double>(column)},
                               *op().attributes);
  }

  // Where nothing is read.
  double own_value(std::uint64_t element) const {
    if (op().row->reference == nullptr) return op().attributes->value;
    return op().row->reference(std::array{static_cast<double>(element)}, *op().attributes);
  }

  // What a result's rounding is relative to: the larger of what it is the sum of.
  double size_of(std::uint64_t element, double value) const {
    if (!terms_) return value;
    const Attributes& at = *op().attributes;
    return std::abs(at.first) + std::abs(at.delta * static_cast<double>(element));
  }

  // An iota of fractions is a sum.
  const bool terms_ = op().row->family == OpFamily::kIota &&
                      !(exact_in(op().attributes->first) && exact_in(op().attributes->delta));
};

}  // namespace

std::unique_ptr<EvaluationStep> relocation_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<RelocationStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> gather_elements_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<GatherElementsStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> placed_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<PlacedStep>(evaluation, op);
}

}  // namespace fusecalc
