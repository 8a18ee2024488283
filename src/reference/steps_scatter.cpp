// Scatters: into rows, or into elements, that indices name.

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "graph/axis.hpp"
#include "graph/reference_ops.hpp"
#include "reference/element.hpp"
#include "reference/movement_step.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

// Which elements of the updates go to an element of the result, in their order.
class Updates {
 public:
  Updates(const OpGraph& graph, const Op& op)
      : op_(op),
        by_element_(op.row->family == OpFamily::kScatterElements),
        result_(graph.tensor(op.operands[0].tensor).type.shape),
        named_(graph.tensor(op.operands[1].tensor).type.shape),
        axis_(axis_of(op, result_.size())),
        table_(result_, axis_, elements_between(named_, 0, named_.size())) {}

  void find(Evaluation& evaluation) {
    std::vector<std::uint64_t> all(table_.indices);
    for (std::uint64_t i = 0; i < all.size(); ++i) all[i] = i;
    const auto rows = evaluation.indices(op_.operands[1].tensor, all, table_.rows);
    const std::vector<std::uint64_t> strides = strides_of(result_);
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      updates_of_[by_element_ ? target_of(i, rows[i], strides) : rows[i]].push_back(i);
    }
  }

  std::vector<std::uint64_t> of(std::uint64_t element) const {
    const auto found =
        updates_of_.find(by_element_ ? element : element / table_.inner % table_.rows);
    if (found == updates_of_.end()) return {};
    if (by_element_) return found->second;
    const std::uint64_t outer = element / table_.inner / table_.rows;
    std::vector<std::uint64_t> updates;
    for (const std::uint64_t i : found->second) {
      updates.push_back((outer * table_.indices + i) * table_.inner + element % table_.inner);
    }
    return updates;
  }

 private:
  std::uint64_t target_of(std::uint64_t i, std::uint64_t row,
                          const std::vector<std::uint64_t>& strides) const {
    std::uint64_t target = row * strides[axis_];
    for (std::size_t k = named_.size(); k-- > 0; i /= named_[k]) {
      if (k != axis_) target += i % named_[k] * strides[k];
    }
    return target;
  }

  const Op& op_;
  bool by_element_;
  const Shape& result_;
  const Shape& named_;
  std::size_t axis_;
  Table table_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> updates_of_;  // by row or element
};

// Which of several updates of an element remains is undefined: the reference expects the last,
// within an error that allows any of them.
class ScatterStep final : public MovementStep {
 public:
  ScatterStep(Evaluation& evaluation, const Op& op)
      : MovementStep(evaluation, op), updates_(evaluation.graph(), op) {}

 private:
  void prepare() override { updates_.find(evaluation()); }

  Source source_of(std::uint64_t element) const override {
    const std::vector<std::uint64_t> updates = updates_.of(element);
    return updates.empty() ? Source{0, element} : Source{2, updates.back()};
  }

  std::vector<std::uint64_t> others_of(std::uint64_t element) const override {
    std::vector<std::uint64_t> updates = updates_.of(element);
    if (!updates.empty()) updates.pop_back();
    return updates;
  }

  Updates updates_;
};

// Of integers, whose sums and products keep their low bits.
std::uint64_t combined(Combine how, std::uint64_t a, std::uint64_t b) {
  return how == Combine::kAdd ? a + b : a * b;
}

double combined(Combine how, double a, double b) {
  if (how == Combine::kAdd) return a + b;
  if (how == Combine::kMul) return a * b;
  return how == Combine::kMax ? reference::larger(a, b) : reference::smaller(a, b);
}

// The element that was there, and all updates that go there, in any order; the device stores each
// result in between.
class CombineStep final : public EvaluationStep {
 public:
  CombineStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op), updates_(evaluation.graph(), op) {}

  void request_inputs() override {
    updates_.find(evaluation());
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t element = range.first + k * range.step;
        request(0, std::array{StridedRange{.first = element}});
        request(2, ranges_of(updates_.of(element)));
      }
    }
  }

  void compute() override {
    Samples& results = *wanted();
    std::uint64_t count = 0;
    for (const StridedRange& range : results.ranges()) count += range.count;
    bool all_exact = !is_float(output().type.dtype);
    for (Request r = 0; r < 2 * count; ++r) all_exact = all_exact && exact(r);
    results.allocate(all_exact);
    Request next = 0;
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      for (std::uint64_t k = 0; k < results.ranges()[range].count; ++k, next += 2) {
        compute_element(range, k, next);
      }
    }
  }

 private:
  double combine(double result, std::span<const double> updates) const {
    const Combine how = op().attributes->combine;
    const DType dtype = output().type.dtype;
    const bool counts = how == Combine::kAdd || how == Combine::kMul;
    if (is_float(dtype) || dtype == DType::kBool || !counts) {
      for (const double update : updates) result = combined(how, result, update);
      return result;
    }
    auto bits = static_cast<std::uint64_t>(reference::whole(result));
    for (const double update : updates) {
      bits = combined(how, bits, static_cast<std::uint64_t>(reference::whole(update)));
    }
    return wrapped_to(dtype, bits);
  }

  void compute_element(std::uint32_t range, std::uint64_t k, Request first) {
    const Combine how = op().attributes->combine;
    Lanes result{};
    double magnitude = 0;
    std::size_t updates = 0;
    std::vector<double> scratch;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      result[lane] = values(first, lane, scratch)[0];
      if (lane == 0) magnitude = std::abs(result[0]);
      const std::span<const double> in = values(first + 1, lane, scratch);
      updates = in.size();
      result[lane] = combine(result[lane], in);
      if (lane > 0) continue;
      for (const double update : in) magnitude += std::abs(update);
    }
    double rounding = 0;
    const double unit = 2 * precision_of(output().type.dtype).unit;
    const double times = static_cast<double>(updates);
    if (how == Combine::kAdd) rounding = times * unit * magnitude;
    if (how == Combine::kMul) rounding = times * unit * std::abs(result[0]);
    const bool narrows = output().type.dtype != operand(2).type.dtype;
    if (updates > 0 && (rounding > 0 || narrows)) rounding += rounding_of(0, result[0]);
    store(0, range, k, result, rounding);
  }

  Updates updates_;
};

}  // namespace

std::unique_ptr<EvaluationStep> scatter_step(Evaluation& evaluation, const Op& op) {
  if (op.attributes->combine == Combine::kReplace) {
    return std::make_unique<ScatterStep>(evaluation, op);
  }
  return std::make_unique<CombineStep>(evaluation, op);
}

}  // namespace fusecalc
