// Rotary embeddings: pairs of elements that are turned by angles.

#include <array>
#include <cmath>
#include <vector>

#include "graph/rotary.hpp"
#include "graph/strided_map.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

class RotaryStep final : public EvaluationStep {
 public:
  RotaryStep(Evaluation& evaluation, const Op& op)
      : EvaluationStep(evaluation, op),
        rotary_(rotary_of(graph(), op)),
        rows_(row_map(operand(1).type.shape)) {}

  // Of each range: the elements, their partners, the cosines and the sines. What is not turned
  // reads itself, and the row's first angle.
  void request_inputs() override {
    for (const StridedRange& range : wanted()->ranges()) {
      std::vector<std::uint64_t> own;
      std::vector<std::uint64_t> partners;
      std::vector<std::uint64_t> angles;
      for (std::uint64_t k = 0; k < range.count; ++k) {
        const std::uint64_t element = range.first + k * range.step;
        const std::uint64_t place = element % rotary_.length;
        const bool turns = rotary_.turns(place);
        own.push_back(element);
        partners.push_back(turns ? element - place + rotary_.partner(place) : element);
        angles.push_back(rows_(element / rotary_.length) + (turns ? rotary_.angle(place) : 0));
      }
      request(0, ranges_of(own));
      request(0, ranges_of(partners));
      request(1, ranges_of(angles));
      request(2, ranges_of(angles));
    }
  }

  void compute() override {
    Samples& results = *wanted();
    results.allocate(false);
    const bool keeps = output().type.dtype == operand(0).type.dtype;
    std::array<std::vector<double>, kReads> scratch;
    for (std::uint32_t range = 0; range < results.ranges().size(); ++range) {
      const StridedRange& elements = results.ranges()[range];
      std::vector<Lanes> made(elements.count);
      std::vector<double> sizes(elements.count);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        std::array<std::span<const double>, kReads> in;
        for (std::uint32_t i = 0; i < kReads; ++i) {
          in[i] = values(range * kReads + i, lane, scratch[i]);
        }
        for (std::uint64_t k = 0; k < elements.count; ++k) {
          const std::uint64_t place = (elements.first + k * elements.step) % rotary_.length;
          made[k][lane] = in[0][k];
          if (!rotary_.turns(place)) continue;
          const double turned = in[0][k] * in[2][k];
          const double other = in[1][k] * in[3][k];
          made[k][lane] = rotary_.is_first(place) ? turned - other : turned + other;
          if (lane == 0) sizes[k] = std::abs(turned) + std::abs(other);
        }
      }
      for (std::uint64_t k = 0; k < elements.count; ++k) {
        const std::uint64_t place = (elements.first + k * elements.step) % rotary_.length;
        const bool moved = keeps && !rotary_.turns(place);
        const double rounding = rounding_of(0, made[k][0]) + summing_error(2, sizes[k]);
        store(0, range, k, made[k], moved ? 0 : rounding);
      }
    }
  }

 private:
  static constexpr std::uint32_t kReads = 4;

  // From a row of the result to where the angles of that row begin.
  StridedMap row_map(const Shape& angles) const {
    Shape rows = output().type.shape;
    rows.pop_back();
    Shape of_rows = angles;
    of_rows.pop_back();
    StridedMap map = broadcast_map(of_rows, rows);
    for (StridedMap::Axis& axis : map.axes) axis.stride *= angles.back();
    return map;
  }

  Rotary rotary_;
  StridedMap rows_;
};

}  // namespace

std::unique_ptr<EvaluationStep> rotary_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<RotaryStep>(evaluation, op);
}

}  // namespace fusecalc
