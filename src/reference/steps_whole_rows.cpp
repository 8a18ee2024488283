// Scans and sorts: a row is evaluated once, as far as its results need it.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "graph/axis.hpp"
#include "graph/reference_ops.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

// The rows along one axis of a tensor.
class AxisRows {
 public:
  AxisRows(const Shape& shape, const Op& op) {
    const std::size_t axis = axis_of(op, shape.size(), -1);
    length = shape[axis];
    inner = elements_between(shape, axis + 1, shape.size());
  }

  std::uint64_t row_of(std::uint64_t element) const {
    return element / inner / length * inner + element % inner;
  }
  std::uint64_t place_of(std::uint64_t element) const { return element / inner % length; }
  // The first elements of a row.
  StridedRange start_of(std::uint64_t row, std::uint64_t count) const {
    return {row / inner * inner * length + row % inner, count == 1 ? 0 : inner, count};
  }

  std::uint64_t length = 1;
  std::uint64_t inner = 1;
};

class ScanStep final : public EvaluationStep {
 public:
  ScanStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op), rows_(output().type.shape, op) {}

  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t element = range.first + k * range.step;
        Known& known = known_[rows_.row_of(element)];
        known.count = std::max(known.count, rows_.place_of(element) + 1);
      }
    }
    for (auto& [row, known] : known_) {
      known.request = request(0, std::array{rows_.start_of(row, known.count)});
    }
  }

  void compute() override {
    Samples& results = *wanted();
    bool all_exact = !is_float(output().type.dtype);
    for (auto& [row, known] : known_) {
      all_exact = all_exact && exact(known.request);
      scan(known);
    }
    results.allocate(all_exact);
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      const StridedRange& elements = results.ranges()[range];
      for (std::uint64_t k = 0; k < elements.count; ++k) {
        const std::uint64_t element = elements.first + k * elements.step;
        const Known& known = known_.at(rows_.row_of(element));
        const std::uint64_t place = rows_.place_of(element);
        const double value = known.lanes[place][0];
        store(0, range, k, known.lanes[place],
              rounding_of(0, value) + summing_error(place + 1, known.magnitudes[place]));
      }
    }
  }

 private:
  struct Known {
    std::uint64_t count = 0;
    Request request = 0;
    std::vector<Lanes> lanes{};
    std::vector<double> magnitudes{};  // of what is added up to each place
  };

  void scan(Known& known) {
    // Products of integers keep their low 64 bits.
    const bool wraps =
        op().row->accumulator == Accumulator::kProduct && !is_float(output().type.dtype);
    known.lanes.resize(known.count);
    known.magnitudes.resize(known.count);
    std::vector<double> scratch;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const bool same = lane > 0 && exact(known.request);
      const std::span<const double> in = values(known.request, same ? 0 : lane, scratch);
      double result = in[0];
      double magnitude = std::abs(in[0]);
      std::uint64_t bits = 1;
      for (std::uint64_t k = 0; k < known.count; ++k) {
        if (k > 0) result = op().row->reference(std::array{result, in[k]}, *op().attributes);
        if (wraps) {
          bits *= static_cast<std::uint64_t>(reference::whole(in[k]));
          result = wrapped_to(DType::kI64, bits);
        }
        magnitude =
            k == 0 ? magnitude
                   : op().row->reference(std::array{magnitude, std::abs(in[k])}, *op().attributes);
        known.lanes[k][lane] = result;
        if (lane == 0) known.magnitudes[k] = magnitude;
      }
    }
  }

  AxisRows rows_;
  std::unordered_map<std::uint64_t, Known> known_;
};

// sort and topk: values, and the places that they come from.
class SortStep final : public EvaluationStep {
 public:
  SortStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        from_(operand(0).type.shape, op),
        to_(output().type.shape, op),
        descending_(op.attributes->k ? op.attributes->largest : op.attributes->descending) {}

  void request_inputs() override {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      if (wanted(i) == nullptr) continue;
      for (const StridedRange& range : wanted(i)->ranges()) {
        for (std::uint64_t k = 0; k < range.count; ++k) {
          const std::uint64_t row = to_.row_of(range.first + k * range.step);
          const auto [entry, fresh] = known_.try_emplace(row);
          if (fresh) entry->second.request = request(0, std::array{whole(row)});
        }
      }
    }
  }

  void compute() override {
    for (auto& [row, known] : known_) sort(known);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      Samples* const results = wanted(i);
      if (results == nullptr) continue;
      results->allocate(false);
      const bool keeps = i == 1 || output().type.dtype == operand(0).type.dtype;
      for (std::uint32_t range = 0; range < results->ranges().size(); ++range) {
        const StridedRange& elements = results->ranges()[range];
        for (std::uint64_t k = 0; k < elements.count; ++k) {
          const std::uint64_t element = elements.first + k * elements.step;
          const Known& known = known_.at(to_.row_of(element));
          const std::uint64_t place = to_.place_of(element);
          const Lanes lanes = i == 0 ? known.sorted[place] : places_of(known, place);
          store(i, range, k, lanes, keeps ? 0 : rounding_of(i, lanes[0]));
        }
      }
    }
  }

 private:
  struct Known {
    Request request = 0;
    std::vector<Lanes> row{};
    std::vector<Lanes> sorted{};
    std::vector<std::uint64_t> order{};  // of the exact values
  };

  StridedRange whole(std::uint64_t row) const { return from_.start_of(row, from_.length); }

  std::vector<std::uint64_t> order_of(const std::vector<Lanes>& row, std::size_t lane) const {
    std::vector<std::uint64_t> order(row.size());
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    const auto larger = [&](std::uint64_t a, std::uint64_t b) {
      const double x = row[a][lane];
      const double y = row[b][lane];
      return std::isnan(x) ? !std::isnan(y) : x > y;
    };
    std::ranges::stable_sort(order, [&](std::uint64_t a, std::uint64_t b) {
      return descending_ ? larger(a, b) : larger(b, a);
    });
    return order;
  }

  void sort(Known& known) {
    known.row.resize(from_.length);
    known.sorted.resize(from_.length);
    std::vector<double> scratch;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const bool same = lane > 0 && exact(known.request);
      const std::span<const double> in = values(known.request, same ? 0 : lane, scratch);
      for (std::size_t i = 0; i < in.size(); ++i) known.row[i][lane] = in[i];
      if (!same) order_ = order_of(known.row, lane);
      if (lane == 0) known.order = order_;
      for (std::size_t i = 0; i < in.size(); ++i) known.sorted[i][lane] = in[order_[i]];
    }
  }

  // Any element that may be the one at a place is correct; the lanes cover them.
  Lanes places_of(const Known& known, std::uint64_t place) const {
    Lanes lanes{};
    lanes.fill(static_cast<double>(known.order[place]));
    const Lanes& expected = known.row[known.order[place]];
    for (std::size_t i = 0; i < known.row.size(); ++i) {
      const double margin = 3 * (rms_deviation(known.row[i]) + rms_deviation(expected));
      if (margin == 0 || !(std::abs(known.row[i][0] - expected[0]) <= margin)) continue;
      lanes[1] = std::min(lanes[1], static_cast<double>(i));
      lanes[2] = std::max(lanes[2], static_cast<double>(i));
    }
    return lanes;
  }

  AxisRows from_;
  AxisRows to_;
  bool descending_;
  std::unordered_map<std::uint64_t, Known> known_;
  std::vector<std::uint64_t> order_;
};

}  // namespace

std::unique_ptr<EvaluationStep> scan_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<ScanStep>(evaluation, op);
}

std::unique_ptr<EvaluationStep> sort_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<SortStep>(evaluation, op);
}

}  // namespace fusecalc
