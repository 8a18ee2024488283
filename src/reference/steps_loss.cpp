// cross_entropy and nll_loss.

#include <fmt/format.h>

#include <cmath>

#include "core/error.hpp"
#include "core/text.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

class LossStep final : public EvaluationStep {
 public:
  LossStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        classes_(operand(0).type.shape.back()),
        whole_rows_(op.row->access == Access::kSame) {}

  void request_inputs() override {
    if (const Samples* losses = wanted(0)) {
      if (op().collapses) {
        order_ = evaluation().sampled_terms(operand(1).elements, 0);
        if (order_.empty()) {
          order_.resize(operand(1).elements);
          for (std::uint64_t row = 0; row < order_.size(); ++row) order_[row] = row;
        }
        summed_ = order_;
      } else {
        add_rows(*losses);
      }
    }
    if (const Samples* normalisers = wanted(1)) add_rows(*normalisers);
    if (!whole_rows_) {
      const std::vector<std::uint64_t> targets =
          evaluation().indices(op().operands[1].tensor, order_, classes_);
      for (std::size_t i = 0; i < order_.size(); ++i) {
        const auto [entry, fresh] = rows_.try_emplace(order_[i]);
        const StridedRange score{.first = order_[i] * classes_ + targets[i]};
        if (fresh) entry->second.scores = request(0, std::array{score});
      }
      return;
    }
    for (const std::uint64_t row : order_) {
      const auto [entry, fresh] = rows_.try_emplace(row);
      if (!fresh) continue;
      const StridedRange scores{row * classes_, classes_ == 1 ? 0U : 1U, classes_};
      entry->second.scores = request(0, std::array{scores});
      entry->second.target = request(1, std::array{StridedRange{.first = row}});
    }
  }

  void compute() override {
    for (auto& [number, row] : rows_) learn(row);
    if (Samples* losses = wanted(0)) {
      losses->allocate(false);
      for (std::uint32_t range = 0; range < losses->ranges().size(); ++range) {
        for (std::uint64_t k = 0; k < losses->ranges()[range].count; ++k) {
          if (op().collapses) {
            store_total(range, k);
          } else {
            const Row& row =
                rows_.at(losses->ranges()[range].first + k * losses->ranges()[range].step);
            store(0, range, k, row.loss, rounding_of(0, row.loss[0]) + row.error);
          }
        }
      }
    }
    if (Samples* normalisers = wanted(1)) {
      normalisers->allocate(false);
      for (std::uint32_t range = 0; range < normalisers->ranges().size(); ++range) {
        const StridedRange& elements = normalisers->ranges()[range];
        for (std::uint64_t k = 0; k < elements.count; ++k) {
          const Row& row = rows_.at(elements.first + k * elements.step);
          store(1, range, k, row.normaliser, rounding_of(1, row.normaliser[0]) + row.error);
        }
      }
    }
  }

 private:
  struct Row {
    Request scores = 0;
    Request target = 0;
    Lanes loss{};
    Lanes normaliser{};
    double error = 0;  // of fp32 within the row
  };

  void add_rows(const Samples& samples) {
    for (const StridedRange& range : samples.ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k)
        order_.push_back(range.first + k * range.step);
    }
  }

  void learn(Row& row) {
    const std::size_t target = whole_rows_ ? target_of(row) : 0;
    const std::size_t lanes = exact(row.scores) ? 1 : kLanes;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (lane >= lanes) {
        row.loss[lane] = row.loss[0];
        row.normaliser[lane] = row.normaliser[0];
        continue;
      }
      const std::span<const double> scores = values(row.scores, lane, scratch_);
      if (whole_rows_) {
        double most = scores[0];
        for (const double score : scores) most = score > most || std::isnan(score) ? score : most;
        double total = 0;
        for (const double score : scores) total += std::exp(score - most);
        row.normaliser[lane] = most + std::log(total);
      }
      row.loss[lane] = row.normaliser[lane] - scores[target];
    }
    if (!whole_rows_) return;
    row.error = summing_error(classes_, 1 + std::abs(row.normaliser[0]));
  }

  std::size_t target_of(const Row& row) {
    const double target = values(row.target, 0, scratch_)[0];
    if (!exact(row.target) || !(target >= 0 && target < static_cast<double>(classes_))) {
      throw Error(Fault::kUnavailable, fmt::format("the class {} in {} is not in [0, {})", target,
                                                   in_quotes(operand(1).name), classes_));
    }
    return static_cast<std::size_t>(target);
  }

  void store_total(std::uint32_t range, std::uint64_t k) {
    Lanes total{};
    double magnitude = 0;
    double error = 0;
    std::vector<double> losses;
    for (const std::uint64_t number : summed_) {
      const Row& row = rows_.at(number);
      for (std::size_t lane = 0; lane < kLanes; ++lane) total[lane] += row.loss[lane];
      losses.push_back(row.loss[0]);
      magnitude += std::abs(row.loss[0]);
      error += row.error;
    }
    // The mean or sum over all samples, from those that were evaluated.
    const std::uint64_t samples = operand(1).elements;
    const double factor =
        op().attributes->reduction == LossReduction::kMean ? 1 : static_cast<double>(samples);
    const double scale = factor / static_cast<double>(summed_.size());
    for (double& lane : total) lane *= scale;
    store(0, range, k, total,
          rounding_of(0, total[0]) + (error + summing_error(samples, magnitude)) * scale +
              2 * sampling_error(losses, samples) * factor);
  }

  std::uint64_t classes_;
  bool whole_rows_;                    // a softmax over all classes, or only one score
  std::vector<std::uint64_t> order_;   // requested rows
  std::vector<std::uint64_t> summed_;  // rows that the loss adds up
  std::unordered_map<std::uint64_t, Row> rows_;
  std::vector<double> scratch_;
};

}  // namespace

std::unique_ptr<EvaluationStep> loss_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<LossStep>(evaluation, op);
}

}  // namespace fusecalc
