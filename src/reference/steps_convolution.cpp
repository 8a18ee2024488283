// Convolutions over any number of spatial axes, and transposed ones.

#include "reference/product_step.hpp"
#include "reference/steps.hpp"

namespace fusecalc {
namespace {

class ConvolutionStep final : public ProductStep {
 public:
  ConvolutionStep(Evaluation& evaluation, const Op& op)
      : ProductStep(evaluation, op),
        transposed_(op.row->family == OpFamily::kTransposedConvolution),
        groups_(static_cast<std::uint64_t>(op.attributes->groups)),
        axes_(op.row->spatial_axes) {}

 private:
  // An element of x within its plane, and the weight that it is multiplied by.
  struct Pair {
    std::uint64_t place = 0;
    std::uint64_t tap = 0;
  };

  std::uint64_t ask_element(std::uint64_t element) override {
    const Shape& x = operand(0).type.shape;
    const Shape& weight = operand(1).type.shape;
    const Shape& y = output().type.shape;
    const std::uint64_t y_plane = elements_between(y, 2, y.size());
    const std::uint64_t x_plane = elements_between(x, 2, x.size());
    const std::uint64_t taps = elements_between(weight, 2, weight.size());
    const std::uint64_t channel = element / y_plane % y[1];
    const std::uint64_t image = element / y_plane / y[1];
    const std::uint64_t per_group = y[1] / groups_;
    const std::uint64_t inputs_per_group = x[1] / groups_;
    const std::vector<Pair> pairs = pairs_of(element % y_plane);
    std::vector<std::uint64_t> inputs;
    std::vector<std::uint64_t> weights;
    for (std::uint64_t c = 0; c < inputs_per_group; ++c) {
      const std::uint64_t input = channel / per_group * inputs_per_group + c;
      const std::uint64_t filter =
          transposed_ ? input * per_group + channel % per_group : channel * inputs_per_group + c;
      for (const Pair& pair : pairs) {
        inputs.push_back((image * x[1] + input) * x_plane + pair.place);
        weights.push_back(filter * taps + pair.tap);
      }
    }
    request(0, ranges_of(inputs));
    request(1, ranges_of(weights));
    if (has_bias()) request(2, std::array{StridedRange{.first = channel}});
    return inputs.size();
  }

  // What is multiplied for one element of a plane of the result.
  std::vector<Pair> pairs_of(std::uint64_t element) const {
    std::vector<Pair> pairs = {{}};
    std::uint64_t inner = elements_between(output().type.shape, 2, axes_ + 2);
    for (std::size_t axis = 0; axis < axes_; ++axis) {
      inner /= output().type.shape[axis + 2];
      const std::uint64_t result = element / inner % output().type.shape[axis + 2];
      std::vector<Pair> wider;
      for (const Pair& pair : pairs) {
        for (std::uint64_t tap = 0; tap < taps_along(axis); ++tap) {
          const std::uint64_t place = place_of(axis, result, tap);
          if (place >= extent(axis)) continue;
          wider.push_back({pair.place * extent(axis) + place, pair.tap * taps_along(axis) + tap});
        }
      }
      pairs = std::move(wider);
    }
    return pairs;
  }

  std::uint64_t extent(std::size_t axis) const { return operand(0).type.shape[axis + 2]; }
  std::uint64_t taps_along(std::size_t axis) const { return operand(1).type.shape[axis + 2]; }

  // The place along an axis of x that a tap multiplies for a result; beyond the extent if there is
  // none. What is before 0 wraps to a large number.
  std::uint64_t place_of(std::size_t axis, std::uint64_t result, std::uint64_t tap) const {
    const Attributes& at = *op().attributes;
    const auto stride = static_cast<std::uint64_t>(along(at.stride, axis, 1));
    const auto padding = static_cast<std::uint64_t>(along(at.padding, axis, 0));
    const std::uint64_t offset = tap * static_cast<std::uint64_t>(along(at.dilation, axis, 1));
    if (!transposed_) return result * stride + offset - padding;
    const bool hits = result + padding >= offset && (result + padding - offset) % stride == 0;
    return hits ? (result + padding - offset) / stride : kMaxCount;
  }

  bool transposed_;
  std::uint64_t groups_;
  std::size_t axes_;
};

}  // namespace

std::unique_ptr<EvaluationStep> convolution_step(Evaluation& evaluation, const Op& op) {
  return std::make_unique<ConvolutionStep>(evaluation, op);
}

}  // namespace fusecalc
