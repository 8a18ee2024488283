// Gradients: of softmaxes and of losses.

#include <cmath>

#include "reference/row_map.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

// Rows of dy and y, and a sum over each row.
class SoftmaxBackwardStep final : public EvaluationStep {
 public:
  SoftmaxBackwardStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op), rows_(op.rows) {}

  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t element = range.first + k * range.step;
        elements_.push_back(request(0, std::array{StridedRange{.first = element}}));
        request(1, std::array{StridedRange{.first = element}});
        const std::uint64_t row = rows_.row_of(element);
        const auto [entry, fresh] = sums_.try_emplace(row);
        if (!fresh) continue;
        entry->second.request = request(0, rows_.ranges_of_row(row));
        request(1, rows_.ranges_of_row(row));
      }
    }
  }

  void compute() override {
    Samples& results = *wanted();
    results.allocate(false);
    for (auto& [row, sum] : sums_) add_up(sum);
    auto next = elements_.begin();
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      const StridedRange elements = results.ranges()[range];
      for (std::uint64_t k = 0; k < elements.count; ++k, ++next) {
        store_element(range, k, *next, sums_.at(rows_.row_of(elements.first + k * elements.step)));
      }
    }
  }

 private:
  struct Sum {
    Request request = 0;
    Lanes lanes{};
    double error = 0;
  };

  double taken(double dy, double y) const {
    const ReferenceFunction function = op().row->reference_taken;
    return function == nullptr ? dy : function(std::array{dy, y}, *op().attributes);
  }

  void add_up(Sum& sum) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::span<const double> dy = values(sum.request, lane, scratch_[0]);
      const std::span<const double> y = values(sum.request + 1, lane, scratch_[1]);
      double magnitude = 0;
      for (std::size_t i = 0; i < dy.size(); ++i) {
        sum.lanes[lane] += taken(dy[i], y[i]);
        magnitude += std::abs(taken(dy[i], y[i]));
      }
      if (lane == 0) sum.error = summing_error(dy.size() + 1, magnitude);
    }
  }

  void store_element(std::uint32_t range, std::uint64_t k, Request x, const Sum& sum) {
    Lanes lanes{};
    double rounding = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double dy = values(x, lane, scratch_[0])[0];
      const double y = values(x + 1, lane, scratch_[1])[0];
      const auto at = [&](double total) {
        return op().row->reference(std::array{dy, y, total}, *op().attributes);
      };
      lanes[lane] = at(sum.lanes[lane]);
      if (lane > 0) continue;
      const double share = at(sum.lanes[0]) - at(0);
      rounding = rounding_of(0, lanes[0]) + std::abs(at(sum.lanes[0] + sum.error) - lanes[0]) +
                 8 * arithmetic_unit() * (std::abs(share) + std::abs(at(0)));
    }
    store(0, range, k, lanes, rounding);
  }

  RowMap rows_;
  std::vector<Request> elements_;
  std::unordered_map<std::uint64_t, Sum> sums_;
  std::array<std::vector<double>, 2> scratch_;
};

class LossBackwardStep final : public EvaluationStep {
 public:
  LossBackwardStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op), classes_(output().type.shape.back()) {
    const LossReduction reduction = op.attributes->reduction;
    each_ = reduction == LossReduction::kNone;
    given_ = op.operands[0].tensor != kNone;
    const auto samples = static_cast<double>(operand(2).elements);
    factor_ = reduction == LossReduction::kMean ? -1 / samples : -1;
  }

  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t row = (range.first + k * range.step) / classes_;
        requests_.push_back(request(2, std::array{StridedRange{.first = row}}));
        if (given_) request(0, std::array{StridedRange{.first = each_ ? row : 0}});
      }
    }
  }

  void compute() override {
    Samples& results = *wanted();
    results.allocate(false);
    auto next = requests_.begin();
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      const StridedRange elements = results.ranges()[range];
      for (std::uint64_t k = 0; k < elements.count; ++k, ++next) {
        const auto place = static_cast<double>((elements.first + k * elements.step) % classes_);
        Lanes lanes{};
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          if (values(*next, lane, scratch_)[0] != place) continue;
          const double dy = given_ ? values(*next + 1, lane, scratch_)[0] : op().operands[0].number;
          lanes[lane] = dy * factor_;
        }
        store(0, range, k, lanes, lanes[0] == 0 ? 0 : rounding_of(0, lanes[0]));
      }
    }
  }

 private:
  std::uint64_t classes_;
  bool each_ = false;
  bool given_ = true;  // the gradient is a tensor
  double factor_ = -1;
  std::vector<Request> requests_;
  std::vector<double> scratch_;
};

}  // namespace

std::unique_ptr<EvaluationStep> softmax_backward_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<SoftmaxBackwardStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> loss_backward_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<LossBackwardStep>(evaluation, op);
}

}  // namespace fusecalc
