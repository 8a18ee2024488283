// Gradients of layer_norm and rms_norm. A row is summed up once for all of its elements of dx, and
// a column once for each of its elements of dw and db.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "reference/steps.hpp"

namespace fusecalc {
namespace {

class NormBackwardStep final : public EvaluationStep {
 public:
  NormBackwardStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        has_mean_(op.row->accumulator == Accumulator::kMoments),
        weight_(has_mean_ ? 4 : 3),
        rows_(operand(2).elements),
        length_(operand(1).elements / std::max<std::uint64_t>(1, rows_)) {}

  void request_inputs() override {
    for_wanted([&](std::size_t i, std::uint32_t, std::uint64_t, std::uint64_t element) {
      if (gradient_of(op(), i) == 0) {
        const auto [entry, fresh] = known_rows_.try_emplace(element / length_);
        if (fresh) entry->second.taken = take_row(element / length_);
      } else {
        const auto [entry, fresh] = known_columns_.try_emplace(element);
        if (fresh) entry->second = take_column(element);
      }
    });
  }

  void compute() override {
    for (std::size_t i = 0; i < op().outputs.size(); ++i) {
      if (wanted(i) != nullptr) wanted(i)->allocate(false);
    }
    for (auto& [row, known] : known_rows_) sum_row(known);
    for_wanted([&](std::size_t i, std::uint32_t range, std::uint64_t k, std::uint64_t element) {
      if (gradient_of(op(), i) == 0) {
        store_dx(i, range, k, known_rows_.at(element / length_), element % length_);
      } else {
        store_column(i, range, k, known_columns_.at(element), gradient_of(op(), i) == 1);
      }
    });
  }

 private:
  // Elements of dy and x, and the statistics and weights that go with them.
  struct Taken {
    Request dy = 0;
    Request x = 0;
    Request rstd = 0;
    std::optional<Request> mean{};
    std::optional<Request> weight{};
  };
  // The same in one lane; the statistics and the weight of a row or a column may be one for all.
  struct Values {
    std::span<const double> dy, x, mean, rstd, weight;

    static double at(std::span<const double> list, std::size_t i, double otherwise) {
      return list.empty() ? otherwise : list[list.size() == 1 ? 0 : i];
    }
    double gradient(std::size_t i) const { return dy[i] * at(weight, i, 1); }
    double normal(std::size_t i) const { return (x[i] - at(mean, i, 0)) * at(rstd, i, 1); }
  };
  // The means of g and of g n over a row.
  struct KnownRow {
    Taken taken{};
    Lanes mean{};
    Lanes dot{};
    double mean_error = 0;
    double dot_error = 0;
  };

  template <typename Use>
  void for_wanted(const Use& use) {
    for (std::size_t i = 0; i < op().outputs.size(); ++i) {
      const Samples* const results = wanted(i);
      if (results == nullptr) continue;
      for (std::uint32_t range = 0; range < results->ranges().size(); ++range) {
        const StridedRange& elements = results->ranges()[range];
        for (std::uint64_t k = 0; k < elements.count; ++k) {
          use(i, range, k, elements.first + k * elements.step);
        }
      }
    }
  }

  static StridedRange run(std::uint64_t first, std::uint64_t step, std::uint64_t count) {
    return {first, count == 1 ? 0 : step, count};
  }

  Taken take_row(std::uint64_t row) {
    const std::array elements = {run(row * length_, 1, length_)};
    const std::array one = {StridedRange{.first = row}};
    Taken taken{.dy = request(0, elements), .x = request(1, elements)};
    if (has_mean_) taken.mean = request(2, one);
    taken.rstd = request(weight_ - 1, one);
    if (op().operands.size() > weight_) {
      taken.weight = request(weight_, std::array{run(0, 1, length_)});
    }
    return taken;
  }

  Taken take_column(std::uint64_t column) {
    std::vector<StridedRange> rows = {run(0, 1, rows_)};
    std::vector<StridedRange> elements = {run(column, length_, rows_)};
    std::vector<std::uint64_t> places = evaluation().sampled_terms(rows_, column);
    if (!places.empty()) {
      rows = ranges_of(places);
      for (std::uint64_t& place : places) place = place * length_ + column;
      elements = ranges_of(places);
    }
    Taken taken{.dy = request(0, elements), .x = request(1, elements)};
    if (has_mean_) taken.mean = request(2, rows);
    taken.rstd = request(weight_ - 1, rows);
    return taken;
  }

  Values values_of(const Taken& taken, std::size_t lane) {
    Values found{.dy = values(taken.dy, lane, scratch_[0]),
                 .x = values(taken.x, lane, scratch_[1]),
                 .mean = {},
                 .rstd = values(taken.rstd, lane, scratch_[2]),
                 .weight = {}};
    if (taken.mean) found.mean = values(*taken.mean, lane, scratch_[3]);
    if (taken.weight) found.weight = values(*taken.weight, lane, scratch_[4]);
    return found;
  }

  void sum_row(KnownRow& known) {
    const auto share = 1 / static_cast<double>(length_);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Values row = values_of(known.taken, lane);
      double magnitude = 0;
      double dot_magnitude = 0;
      for (std::size_t i = 0; i < length_; ++i) {
        const double g = row.gradient(i);
        const double gn = g * row.normal(i);
        if (has_mean_) known.mean[lane] += g * share;
        known.dot[lane] += gn * share;
        magnitude += std::abs(g);
        dot_magnitude += std::abs(gn);
      }
      if (lane > 0) continue;
      if (has_mean_) known.mean_error = summing_error(length_, magnitude) * share;
      known.dot_error = summing_error(length_, dot_magnitude) * share;
    }
  }

  void store_dx(std::size_t i, std::uint32_t range, std::uint64_t k, const KnownRow& known,
                std::uint64_t place) {
    Lanes lanes{};
    double rounding = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Values row = values_of(known.taken, lane);
      const double g = row.gradient(place);
      const double n = row.normal(place);
      const double along = n * known.dot[lane];
      lanes[lane] = row.rstd[0] * (g - known.mean[lane] - along);
      if (lane > 0) continue;
      const double terms = std::abs(g) + std::abs(known.mean[0]) + std::abs(along);
      rounding = rounding_of(i, lanes[0]) +
                 std::abs(row.rstd[0]) * (8 * arithmetic_unit(i) * terms + known.mean_error +
                                          std::abs(n) * known.dot_error);
    }
    store(i, range, k, lanes, rounding);
  }

  // The sum of dy n (`weighed`) or of dy over the rows; from a sample of them where they are many.
  void store_column(std::size_t i, std::uint32_t range, std::uint64_t k, const Taken& taken,
                    bool weighed) {
    Lanes lanes{};
    double rounding = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Values column = values_of(taken, lane);
      terms_.resize(column.dy.size());
      double sum = 0;
      double magnitude = 0;
      for (std::size_t row = 0; row < terms_.size(); ++row) {
        terms_[row] = column.dy[row] * (weighed ? column.normal(row) : 1);
        sum += terms_[row];
        magnitude += std::abs(terms_[row]);
      }
      const double scale = static_cast<double>(rows_) / static_cast<double>(terms_.size());
      lanes[lane] = sum * scale;
      if (lane > 0) continue;
      rounding = rounding_of(i, lanes[0]) + summing_error(rows_, magnitude * scale, i);
      if (terms_.size() < rows_) {
        rounding += 2 * sampling_error(terms_, rows_) * static_cast<double>(rows_);
      }
    }
    store(i, range, k, lanes, rounding);
  }

  bool has_mean_;
  std::size_t weight_;  // its place among the operands, where there is one
  std::uint64_t rows_;
  std::uint64_t length_;
  std::unordered_map<std::uint64_t, KnownRow> known_rows_;
  std::unordered_map<std::uint64_t, Taken> known_columns_;
  std::array<std::vector<double>, 5> scratch_;
  std::vector<double> terms_;
};

}  // namespace

std::unique_ptr<EvaluationStep> norm_backward_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<NormBackwardStep>(evaluation, op);
}

}  // namespace fusecalc
