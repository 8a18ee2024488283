// Ops that compute each element from one element of each input, and ops that only move elements
// along axes: they differ in the maps from results to inputs.

#include <algorithm>
#include <cmath>

#include "core/checked.hpp"
#include "graph/dropout.hpp"
#include "reference/element.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

class PointwiseStep : public EvaluationStep {
 public:
  PointwiseStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        function_(op.row->reference),
        wraps_(wraps(evaluation.graph(), op)) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i].tensor == kNone) continue;
      tensors_.push_back(i);
      maps_.emplace_back(broadcast_map(operand(i).type.shape, output().type.shape));
    }
  }
  // A movement of operand 0.
  PointwiseStep(Evaluation& evaluation, const Op& op, IndexMap map)
      : EvaluationStep(evaluation, op), tensors_{0}, maps_{std::move(map)} {}

  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::size_t i = 0; i < tensors_.size(); ++i)
        request_mapped(tensors_[i], maps_[i], range);
    }
  }

  void compute() override {
    Samples& results = *wanted();
    const auto width = static_cast<Request>(tensors_.size());
    bool all_exact = true;
    for (Request r = 0; r < width * results.ranges().size(); ++r) all_exact = all_exact && exact(r);
    results.allocate(all_exact && keeps_exact());
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      compute_range(range, all_exact ? 1 : kLanes, range * width);
    }
  }

 private:
  // Whether exact inputs give an exact result, in any dtype and in fp32 arithmetic.
  bool keeps_exact() const {
    if (!is_float(output().type.dtype)) return true;
    return function_ == nullptr && output().type.dtype == operand(0).type.dtype;
  }

  void compute_range(std::uint32_t range, std::size_t lanes, Request first) {
    const std::uint64_t count = wanted()->ranges()[range].count;
    inputs_.assign(op().operands.size(), {});
    std::vector<std::array<std::span<const double>, kLanes>> sources(tensors_.size());
    scratch_.resize(tensors_.size() * kLanes);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        sources[i][lane] =
            values(first + static_cast<Request>(i), lane, scratch_[i * kLanes + lane]);
      }
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].fill(op().operands[i].number);
    for (std::uint64_t k = 0; k < count; ++k) {
      for (std::size_t i = 0; i < tensors_.size(); ++i) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
          inputs_[tensors_[i]][lane] = sources[i][lane][k];
        }
      }
      Lanes result{};
      result[0] = apply(0);
      for (std::size_t lane = 1; lane < kLanes; ++lane) {
        result[lane] = lane < lanes ? apply(lane) : result[0];
      }
      if (lanes > 1 && (op().row->jumps || !is_float(output().type.dtype))) {
        find_other_results(result);
      }
      store(0, range, k, result, is_choice(result[0]) ? 0 : rounding_of(0, result[0]));
    }
  }

  double apply(std::size_t lane) {
    if (function_ == nullptr) return inputs_[0][lane];
    arguments_.resize(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) arguments_[i] = inputs_[i][lane];
    return kept(function_(arguments_, *op().attributes));
  }

  // Whether the result keeps its low bits: an integer that is computed without floats, or any
  // result of an op on bits. Other bools are whether the result is not 0.
  static bool wraps(const OpGraph& graph, const Op& op) {
    const DType dtype = graph.tensor(op.outputs[0]).type.dtype;
    if (op.row->type_rule == TypeRule::kBits) return true;
    if (is_float(dtype) || dtype == DType::kBool) return false;
    return std::ranges::all_of(op.operands, [&](const Operand& operand) {
      return operand.tensor == kNone ? exact_integer(operand.number).has_value()
                                     : !is_float(graph.tensor(operand.tensor).type.dtype);
    });
  }

  // What the result's type keeps, beyond what storing does: low bits, and 0 for a quotient of whole
  // numbers by 0.
  double kept(double result) const {
    const DType dtype = output().type.dtype;
    const bool whole = !is_float(dtype) && op().row->family != OpFamily::kCast;
    if (whole && !std::isfinite(result)) return 0;
    return wraps_ ? wrapped_to(dtype, std::trunc(result)) : result;
  }

  // A result that equals one of the inputs, or 0, was not rounded if its dtype holds all their
  // values.
  bool is_choice(double result) const {
    if (result == 0) return true;
    const double unit = precision_of(output().type.dtype).unit;
    return std::ranges::any_of(tensors_, [&](std::size_t i) {
      const DType dtype = operand(i).type.dtype;
      return std::abs(inputs_[i][0]) == std::abs(result) && is_float(dtype) &&
             precision_of(dtype).unit >= unit;
    });
  }

  // Comparisons of near ties and integers from values near a whole number may come out either way;
  // lanes that agree by chance must not make the result count as certain.
  void find_other_results(Lanes& result) {
    const DType dtype = output().type.dtype;
    double least = result[0];
    double most = result[0];
    const auto consider = [&] {
      const double other = stored_as(dtype, kept(function_(arguments_, *op().attributes)));
      least = std::min(least, other);
      most = std::max(most, other);
    };
    result[0] = least = most = stored_as(dtype, result[0]);
    std::array<double, kMaxOperands> margins{};
    bool any = false;
    for (std::size_t i = 0; i < inputs_.size() && i < kMaxOperands; ++i) {
      margins[i] = 3 * rms_deviation(inputs_[i]);
      any = any || margins[i] > 0;
    }
    if (!any || function_ == nullptr) return;
    arguments_.resize(inputs_.size());
    for (unsigned corner = 0; corner < 1U << inputs_.size(); ++corner) {
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const double margin = i < kMaxOperands ? margins[i] : 0;
        arguments_[i] = inputs_[i][0] + ((corner >> i & 1U) != 0 ? margin : -margin);
      }
      consider();
    }
    if (inputs_.size() == 2 && std::abs(inputs_[0][0] - inputs_[1][0]) <= margins[0] + margins[1]) {
      arguments_.assign(2, inputs_[1][0]);
      consider();
    }
    result[1] = least;
    result[2] = most;
  }

  ReferenceFunction function_ = nullptr;
  bool wraps_ = false;
  std::vector<std::size_t> tensors_;  // the operands that are tensors
  std::vector<IndexMap> maps_;
  std::vector<std::vector<double>> scratch_;
  std::vector<Lanes> inputs_;
  std::vector<double> arguments_;
};

class DropoutStep final : public EvaluationStep {
 public:
  using EvaluationStep::EvaluationStep;

  void request_inputs() override {
    if (wanted(0) == nullptr) return;
    for (const StridedRange& range : wanted(0)->ranges()) request(0, std::array{range});
  }

  void compute() override {
    if (Samples* masks = wanted(1)) {
      masks->allocate(true);
      for (std::uint32_t range = 0; range < masks->ranges().size(); ++range) {
        for (std::uint64_t k = 0; k < masks->ranges()[range].count; ++k) {
          store(1, range, k, Lanes{keeps(masks->ranges()[range], k) ? 1.0 : 0.0}, 0);
        }
      }
    }
    if (Samples* results = wanted(0)) {
      results->allocate(false);
      for (std::uint32_t range = 0; range < results->ranges().size(); ++range) compute_range(range);
    }
  }

 private:
  bool keeps(const StridedRange& range, std::uint64_t k) const {
    return dropout_keeps(op(), range.first + k * range.step);
  }

  void compute_range(std::uint32_t range) {
    const double scale = 1 / (1 - op().attributes->p);
    std::vector<double> scratch;
    std::vector<Lanes> results(wanted(0)->ranges()[range].count);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::span<const double> inputs = values(range, lane, scratch);
      for (std::size_t k = 0; k < results.size(); ++k) results[k][lane] = inputs[k] * scale;
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      const bool keep = keeps(wanted(0)->ranges()[range], k);
      store(0, range, k, keep ? results[k] : Lanes{}, keep ? rounding_of(0, results[k][0]) : 0);
    }
  }
};

}  // namespace

std::unique_ptr<EvaluationStep> pointwise_step(Evaluation& evaluation, const Op& op) {
  if (op.source) return std::make_unique<PointwiseStep>(evaluation, op, IndexMap(*op.source));
  // An op without a function repeats its operand.
  if (op.row->reference == nullptr) {
    const StridedMap same = StridedMap::of(evaluation.graph().tensor(op.outputs[0]).elements);
    return std::make_unique<PointwiseStep>(evaluation, op, IndexMap(same));
  }
  return std::make_unique<PointwiseStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> dropout_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<DropoutStep>(evaluation, op);
}

}  // namespace fusecalc
