// Reductions and normalisations: the statistics of a row are computed once per row.

#include <algorithm>
#include <cmath>

#include "graph/reference_ops.hpp"
#include "reference/row_map.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

// Whether a reduction is a sum or a mean, which a sample of the row can estimate.
enum class Adding : std::uint8_t { kNeither, kSum, kMean };

Adding adding_of(const OpRow& row) {
  if (row.reference == reference::sum) return Adding::kSum;
  return row.reference == reference::mean ? Adding::kMean : Adding::kNeither;
}

ReferenceFunction function_of(const OpRow& row, DType result) {
  if (is_float(result)) return row.reference;
  if (row.reference == reference::sum) return reference::whole_sum;
  return row.reference == reference::prod ? reference::whole_prod : row.reference;
}

class ReduceStep final : public EvaluationStep {
 public:
  ReduceStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        rows_(op.rows),
        function_(function_of(*op.row, evaluation.graph().tensor(op.outputs[0]).type.dtype)),
        adding_(adding_of(*op.row)),
        smallest_(op.row->accumulator == Accumulator::kSmallestPlace),
        finds_place_(op.row->type_rule == TypeRule::kIndex) {}

  void request_inputs() override {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      if (wanted(i) == nullptr) continue;
      for (const StridedRange& range : wanted(i)->ranges()) {
        for (std::uint64_t k = 0; k < range.count; ++k) {
          const std::uint64_t row = range.first + k * range.step;
          const auto [entry, fresh] = results_.try_emplace(row);
          if (fresh) entry->second.request = request_row(row);
        }
      }
    }
  }

  // The index of an extreme is a second output.
  void compute() override {
    if (wanted(0) != nullptr) compute_output(0);
    if (wanted(1) == nullptr) return;
    function_ = smallest_ ? reference::argmin : reference::argmax;
    finds_place_ = true;
    compute_output(1);
  }

 private:
  struct Result {
    Request request = 0;
    Lanes lanes{};
    double rounding = 0;
  };

  void compute_output(std::size_t i) {
    output_ = i;
    Samples& samples = *wanted(i);
    bool all_exact = !is_float(output(i).type.dtype);
    for (auto& [row, result] : results_) {
      all_exact = all_exact && exact(result.request);
      reduce(result);
    }
    samples.allocate(all_exact);
    for (std::uint32_t range = 0; range < samples.ranges().size(); ++range) {
      const StridedRange& elements = samples.ranges()[range];
      for (std::uint64_t k = 0; k < elements.count; ++k) {
        const Result& result = results_.at(elements.first + k * elements.step);
        store(i, range, k, result.lanes, result.rounding);
      }
    }
  }

  Request request_row(std::uint64_t row) {
    std::vector<std::uint64_t> terms;
    if (adding_ != Adding::kNeither) terms = evaluation().sampled_terms(rows_.length(), row);
    if (terms.empty()) return request(0, rows_.ranges_of_row(row));
    for (std::uint64_t& term : terms) term = rows_.element(row, term);
    return request(0, ranges_of(terms));
  }

  // Scales the sum or mean of the sampled terms to all terms.
  void extrapolate(Result& result, std::span<const double> terms) const {
    const double all = static_cast<double>(rows_.length());
    const bool is_sum = adding_ == Adding::kSum;
    const double scale = is_sum ? all / static_cast<double>(terms.size()) : 1;
    for (double& lane : result.lanes) lane *= scale;
    result.rounding =
        result.rounding * scale + 2 * sampling_error(terms, rows_.length()) * (is_sum ? all : 1);
  }

  void reduce(Result& result) {
    result.rounding = 0;
    compute_lanes(result);
    const std::span<const double> row = values(result.request, 0, scratch_);
    if (row.size() < rows_.length()) extrapolate(result, row);
  }

  void compute_lanes(Result& result) {
    const bool is_exact = exact(result.request);
    const std::span<const double> row = values(result.request, 0, scratch_);
    result.lanes.fill(function_(row, *op().attributes));
    const double value = result.lanes[0];
    // An element that is chosen, or added to zeros, has no rounding error; equal ones that are
    // added to each other do.
    const bool equal = std::ranges::any_of(
        row, [&](double element) { return std::abs(element) == std::abs(value); });
    const auto zeros = std::ranges::count(row, 0.0);
    const bool added = adding_ != Adding::kNeither && std::ssize(row) - zeros > 1;
    const bool choice = equal && !added;
    if (!choice || output(output_).type.dtype != operand(0).type.dtype) {
      magnitudes_.assign(row.begin(), row.end());
      for (double& element : magnitudes_) element = std::abs(element);
      const double terms = std::abs(function_(magnitudes_, *op().attributes));
      result.rounding = rounding_of(output_, value) +
                        summing_error(row.size(), std::max(terms, std::abs(value)), output_);
    }
    if (is_exact) return;
    if (finds_place_) {
      find_ties(result);
      return;
    }
    for (std::size_t lane = 1; lane < kLanes; ++lane) {
      result.lanes[lane] = function_(values(result.request, lane, scratch_), *op().attributes);
    }
  }

  // Any index whose value may be the largest or smallest is correct; the lanes cover them.
  void find_ties(Result& result) {
    std::vector<Lanes> row(rows_.length());
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::span<const double> elements = values(result.request, lane, scratch_);
      for (std::size_t i = 0; i < row.size(); ++i) row[i][lane] = elements[i];
    }
    const auto best = static_cast<std::size_t>(result.lanes[0]);
    const double sign = smallest_ ? -1 : 1;
    const double least = sign * row[best][0] - 3 * rms_deviation(row[best]);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double margin = 3 * rms_deviation(row[i]);
      const double value = sign * row[i][0];
      if (margin == 0 ? value <= least : value + margin < least) continue;
      result.lanes[1] = std::min(result.lanes[1], static_cast<double>(i));
      result.lanes[2] = std::max(result.lanes[2], static_cast<double>(i));
    }
  }

  RowMap rows_;
  ReferenceFunction function_;
  Adding adding_;
  bool smallest_;
  bool finds_place_;
  std::size_t output_ = 0;  // that is being computed
  std::unordered_map<std::uint64_t, Result> results_;
  std::vector<double> scratch_;
  std::vector<double> magnitudes_;
};

// The statistics of a row: maximum and sum of exponentials, or mean and variance.
struct Statistics {
  Lanes first{};
  Lanes second{};
};

Statistics exponentials_of(std::span<const double> row, std::size_t lane, Statistics known) {
  double most = -std::numeric_limits<double>::infinity();
  for (const double x : row) most = x > most || std::isnan(x) ? x : most;
  double total = 0;
  for (const double x : row) total += std::exp(x - most);
  known.first[lane] = most;
  known.second[lane] = total;
  return known;
}

Statistics moments_of(std::span<const double> row, std::size_t lane, Statistics known) {
  double total = 0;
  for (const double x : row) total += x;
  const double mean = total / static_cast<double>(row.size());
  double squares = 0;
  for (const double x : row) squares += (x - mean) * (x - mean);
  known.first[lane] = mean;
  known.second[lane] = squares / static_cast<double>(row.size());
  return known;
}

class NormStep final : public EvaluationStep {
 public:
  NormStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        rows_(op.rows),
        function_(op.row->reference),
        softmax_(op.row->family == OpFamily::kSoftmax),
        given_(op.row->family == OpFamily::kBatchNorm &&
               op.attributes->mode == BatchNormMode::kInference) {
    const bool by_channel =
        op.row->family == OpFamily::kBatchNorm || op.row->family == OpFamily::kGroupNorm;
    const Shape& shape = output().type.shape;
    for (std::size_t i = 1; i < op.operands.size(); ++i) {
      if (by_channel) {
        std::vector<std::uint64_t> strides(shape.size(), 0);
        strides[1] = 1;
        maps_.emplace_back(shape, strides);
      } else {
        maps_.push_back(IndexMap(broadcast_map(operand(i).type.shape, shape)));
      }
    }
  }

  void request_inputs() override {
    if (Samples* results = wanted(0)) {
      for (const StridedRange& range : results->ranges()) {
        first_requests_.push_back(request(0, std::array{range}));
        for (std::size_t i = 0; i < maps_.size(); ++i) request_mapped(i + 1, maps_[i], range);
        for (std::uint64_t k = 0; k < range.count && !given_; ++k) {
          ask_row(rows_.row_of(range.first + k * range.step));
        }
      }
    }
    // The statistics as outputs of their own.
    for (std::size_t i = 1; i < op().outputs.size(); ++i) {
      if (wanted(i) == nullptr) continue;
      for (const StridedRange& range : wanted(i)->ranges()) {
        for (std::uint64_t k = 0; k < range.count; ++k) {
          const std::uint64_t row = range.first + k * range.step;
          ask_row(row);
          if (i < kRunning) continue;
          running_[i - kRunning][row] = request(i, std::array{StridedRange{.first = row}});
        }
      }
    }
  }

  void compute() override {
    for (auto& [row, known] : known_) learn(known);
    if (Samples* results = wanted(0)) {
      results->allocate(false);
      for (std::uint32_t range = 0; range < results->ranges().size(); ++range) compute_range(range);
    }
    for (std::size_t i = 1; i < op().outputs.size(); ++i) {
      Samples* results = wanted(i);
      if (results == nullptr) continue;
      results->allocate(false);
      for (std::uint32_t range = 0; range < results->ranges().size(); ++range) {
        const StridedRange& elements = results->ranges()[range];
        for (std::uint64_t k = 0; k < elements.count; ++k) {
          store_statistic(i, range, k, elements.first + k * elements.step);
        }
      }
    }
  }

 private:
  struct Known {
    Request request = 0;
    Statistics statistics;
  };
  // The first of the outputs that go on from running statistics; their inputs have the same places.
  static constexpr std::size_t kRunning = 3;

  // What output i hands out of a row's mean and variance.
  double statistic(std::size_t i, double mean, double variance) const {
    const Attributes& at = *op().attributes;
    if (i >= kRunning) {
      // Running variances are of samples.
      const auto length = static_cast<double>(rows_.length());
      return i == kRunning ? mean : variance * length / (length - 1);
    }
    const bool deviation = i == 2 && op().outputs.size() > kRunning;
    if (deviation) return 1 / std::sqrt(variance + at.eps);
    return op().row->reference_more[i - 1](std::array{0.0, mean, variance, at.eps}, at);
  }

  void store_statistic(std::size_t i, std::uint32_t range, std::uint64_t k, std::uint64_t row) {
    const Statistics& of_row = known_.at(row).statistics;
    const double share = i < kRunning ? 1 : op().attributes->momentum;
    Lanes lanes{};
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = statistic(i, of_row.first[lane], of_row.second[lane]) * share;
      if (i < kRunning) continue;
      lanes[lane] += (1 - share) * values(running_[i - kRunning].at(row), lane, scratch_)[0];
    }
    const double mean = of_row.first[0];
    const double variance = of_row.second[0];
    const double sums = (8 + std::sqrt(static_cast<double>(rows_.length()))) * arithmetic_unit(i);
    const double size = std::sqrt(variance) + std::abs(mean);
    const double exact = statistic(i, mean, variance);
    const double error = std::abs(statistic(i, mean + sums * size, variance) - exact) +
                         std::abs(statistic(i, mean, variance * (1 + sums)) - exact);
    store(i, range, k, lanes, rounding_of(i, lanes[0]) + error * share);
  }

  void ask_row(std::uint64_t row) {
    const auto [entry, fresh] = known_.try_emplace(row);
    if (fresh) entry->second.request = request(0, rows_.ranges_of_row(row));
  }

  void learn(Known& known) {
    const auto measure = softmax_ ? exponentials_of : moments_of;
    const std::size_t lanes = exact(known.request) ? 1 : kLanes;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      known.statistics = measure(values(known.request, lane, scratch_), lane, known.statistics);
    }
    if (lanes > 1) return;
    known.statistics.first.fill(known.statistics.first[0]);
    known.statistics.second.fill(known.statistics.second[0]);
  }

  void compute_range(std::uint32_t range) {
    const StridedRange elements = wanted(0)->ranges()[range];
    const Request x = first_requests_[range];
    std::vector<Lanes> results(elements.count);
    std::vector<double> roundings(elements.count);
    std::array<std::vector<double>, kMaxOperands> scratch;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      std::array<std::span<const double>, kMaxOperands> in;
      for (std::size_t i = 0; i < op().operands.size(); ++i) {
        in[i] = values(x + static_cast<Request>(i), lane, scratch[i]);
      }
      std::uint64_t row = kNone;
      const Statistics* of_row = nullptr;
      for (std::uint64_t k = 0; k < elements.count; ++k) {
        std::array<double, 4> arguments = {in[0][k], 0, 0, op().attributes->eps};
        if (given_) {
          arguments[1] = in[3][k];
          arguments[2] = in[4][k];
        } else {
          const std::uint64_t its_row = rows_.row_of(elements.first + k * elements.step);
          if (of_row == nullptr || its_row != row) of_row = &known_.at(its_row).statistics;
          row = its_row;
          arguments[1] = of_row->first[lane];
          arguments[2] = of_row->second[lane];
        }
        const double weight = maps_.empty() ? 1 : in[1][k];
        const double bias = maps_.size() < 2 ? 0 : in[2][k];
        const double normal = function_(arguments, *op().attributes);
        results[k][lane] = normal * weight + bias;
        if (lane == 0) {
          roundings[k] = std::abs(weight) * rounding_within(arguments, normal) +
                         4 * arithmetic_unit() * std::abs(bias);
        }
      }
    }
    for (std::uint64_t k = 0; k < elements.count; ++k) {
      store(0, range, k, results[k], roundings[k] + rounding_of(0, results[k][0]));
    }
  }

  // The effect of fp32 errors in x and in the statistics on the result.
  double rounding_within(std::array<double, 4> arguments, double normal) const {
    const double unit = arithmetic_unit();
    const double length = static_cast<double>(given_ ? 1 : rows_.length());
    const double sums = (8 + std::sqrt(length)) * unit;
    const double size = std::sqrt(arguments[2]) + std::abs(arguments[1]);
    const std::array<double, 3> errors = {4 * unit * std::abs(arguments[0]),
                                          softmax_ ? 0 : sums * size, sums * arguments[2]};
    double total = 4 * unit * std::abs(normal);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      std::array<double, 4> moved = arguments;
      moved[i] += errors[i];
      const double change = std::abs(function_(moved, *op().attributes) - normal);
      if (std::isfinite(change)) total += change;
    }
    return total;
  }

  RowMap rows_;
  ReferenceFunction function_;
  bool softmax_;
  bool given_;                  // mean and variance are inputs
  std::vector<IndexMap> maps_;  // of weight, bias, mean and variance
  std::vector<Request> first_requests_;
  std::unordered_map<std::uint64_t, Known> known_;
  std::array<std::unordered_map<std::uint64_t, Request>, 2> running_;
  std::vector<double> scratch_;
};

}  // namespace

std::unique_ptr<EvaluationStep> reduce_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<ReduceStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> norm_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<NormStep>(evaluation, op);
}

}  // namespace fusecalc
