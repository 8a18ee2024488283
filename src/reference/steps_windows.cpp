// Pooling and upsampling: results out of windows of the input.

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/windows.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

class WindowStep final : public EvaluationStep {
 public:
  WindowStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        windows_(windows_of(*op.row, *op.attributes, operand(0).type.shape, output().type.shape)),
        largest_(op.row->accumulator == Accumulator::kLargestPlace),
        averages_(op.row->family != OpFamily::kUpsample && !largest_) {}

  void request_inputs() override {
    for (std::size_t i = 0; i < op().outputs.size(); ++i) {
      const Samples* samples = wanted(i);
      if (samples == nullptr) continue;
      for (const StridedRange& range : samples->ranges()) {
        for (std::uint64_t k = 0; k < range.count; ++k) add(range.first + k * range.step);
      }
    }
  }

  void compute() override {
    bool all_exact = largest_ || op().row->accumulator == Accumulator::kNone;
    for (auto& [element, result] : results_) {
      all_exact = all_exact && exact(result.request);
      combine(result);
    }
    for (std::size_t i = 0; i < op().outputs.size(); ++i) {
      Samples* samples = wanted(i);
      if (samples == nullptr) continue;
      samples->allocate(all_exact);
      for (std::uint32_t range = 0; range < samples->ranges().size(); ++range) {
        const StridedRange& elements = samples->ranges()[range];
        for (std::uint64_t k = 0; k < elements.count; ++k) {
          const Result& result = results_.at(elements.first + k * elements.step);
          store(i, range, k, i == 0 ? result.value : result.place, i == 0 ? result.rounding : 0);
        }
      }
    }
  }

 private:
  struct Result {
    Request request = 0;
    std::vector<double> weights;
    std::vector<std::uint64_t> places;  // within the plane
    double count = 1;                   // that a mean is of
    Lanes value{};
    Lanes place{};
    double rounding = 0;
  };

  void add(std::uint64_t element) {
    const auto [entry, fresh] = results_.try_emplace(element);
    if (!fresh) return;
    Result& result = entry->second;
    result.weights = {1};
    result.places = {0};
    std::uint64_t plane_size = 1;
    std::vector<std::uint64_t> coordinates(windows_.axes.size());
    for (std::size_t i = windows_.axes.size(); i-- > 0;) {
      const auto extent = static_cast<std::uint64_t>(windows_.axes[i].out);
      coordinates[i] = element % extent;
      element /= extent;
    }
    for (std::size_t i = 0; i < windows_.axes.size(); ++i) {
      const WindowAxis& axis = windows_.axes[i];
      const auto extent = static_cast<std::uint64_t>(axis.in);
      const std::vector<WindowAxis::Tap> taps = axis.taps(coordinates[i]);
      Result wider;
      wider.count = result.count;
      for (std::size_t t = 0; t < result.places.size(); ++t) {
        for (const WindowAxis::Tap& tap : taps) {
          wider.places.push_back(result.places[t] * extent + tap.place);
          wider.weights.push_back(result.weights[t] * tap.weight);
        }
      }
      const bool padded =
          axis.kind == WindowAxis::Kind::kSteps && op().attributes->count_include_pad;
      wider.count *= padded ? static_cast<double>(axis.padded_taps(coordinates[i]))
                            : static_cast<double>(taps.size());
      result = std::move(wider);
      plane_size *= extent;
    }
    std::vector<std::uint64_t> elements;
    for (const std::uint64_t place : result.places)
      elements.push_back(element * plane_size + place);
    result.request = request(0, ranges_of(elements));
    evaluation().charge(elements.size());
  }

  void combine(Result& result) {
    const std::size_t lanes = exact(result.request) ? 1 : kLanes;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::span<const double> window = values(result.request, lane, scratch_);
      if (largest_) {
        result.place[lane] = static_cast<double>(result.places[find_largest(window)]);
        result.value[lane] = window[find_largest(window)];
        continue;
      }
      double total = 0;
      double magnitude = 0;
      for (std::size_t i = 0; i < window.size(); ++i) {
        // An element without weight counts, too: infinity times 0 is NaN.
        total += window[i] * result.weights[i];
        magnitude += std::abs(window[i] * result.weights[i]);
      }
      const double count = averages_ ? result.count : 1;
      result.value[lane] = total / count;
      if (lane == 0 && op().row->accumulator != Accumulator::kNone) {
        result.rounding =
            rounding_of(0, result.value[0]) + summing_error(window.size(), magnitude / count);
      }
    }
    for (std::size_t lane = lanes; lane < kLanes; ++lane) {
      result.value[lane] = result.value[0];
      result.place[lane] = result.place[0];
    }
    if (largest_ && lanes > 1) find_ties(result);
  }

  // The first of the largest elements; NaN is larger than all.
  static std::size_t find_largest(std::span<const double> window) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < window.size(); ++i) {
      if (window[i] > window[best] || (std::isnan(window[i]) && !std::isnan(window[best]))) {
        best = i;
      }
    }
    return best;
  }

  // Any place whose element may be the largest is correct; the lanes cover them.
  void find_ties(Result& result) {
    std::vector<Lanes> window(result.places.size());
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::span<const double> elements = values(result.request, lane, scratch_);
      for (std::size_t i = 0; i < window.size(); ++i) window[i][lane] = elements[i];
    }
    std::size_t best = 0;
    while (static_cast<double>(result.places[best]) != result.place[0]) ++best;
    const double least = window[best][0] - 3 * rms_deviation(window[best]);
    result.place.fill(result.place[0]);
    for (std::size_t i = 0; i < window.size(); ++i) {
      if (window[i][0] + 3 * rms_deviation(window[i]) < least) continue;
      const auto place = static_cast<double>(result.places[i]);
      result.place[1] = std::min(result.place[1], place);
      result.place[2] = std::max(result.place[2], place);
    }
  }

  Windows windows_;
  bool largest_;
  bool averages_;
  std::unordered_map<std::uint64_t, Result> results_;
  std::vector<double> scratch_;
};

}  // namespace

std::unique_ptr<EvaluationStep> window_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<WindowStep>(evaluation, op);
}

}  // namespace fusecalc
