// The rows of reductions, normalisations and losses.

#include <array>
#include <cmath>

#include "graph/op_rows.hpp"
#include "graph/reference_ops.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;
using enum TypeRule;

using In = std::span<const double>;
using At = const Attributes&;

constexpr OpRow reduction(std::string_view name, TypeRule types, std::uint8_t flops,
                          std::string_view summary, Accumulator accumulator,
                          std::string_view device, ReferenceFunction reference) {
  return {.name = name,
          .op_class = kReduce,
          .family = OpFamily::kReduce,
          .flops = flops,
          .type_rule = types,
          .attributes = kAxes | kKeepdim,
          .summary = summary,
          .device = device,
          .accumulator = accumulator,
          .reference = reference};
}

constexpr std::array kRows = {
    in_softmax(reduction("sum", kAccumulate, 1, "sum over axes", Accumulator::kSum, "s.sum",
                         reference::sum),
               SoftmaxPart::kSum),
    reduction("mean", kFloat, 1, "mean over axes", Accumulator::kSum, "s.sum / $count",
              reference::mean),
    in_softmax(reduction("max", kPromote, 0, "maximum over axes", Accumulator::kLargest, "s.value",
                         reference::max),
               SoftmaxPart::kMaximum),
    reduction("min", kPromote, 0, "minimum over axes", Accumulator::kSmallest, "s.value",
              reference::min),
    reduction("amax_abs", kPromote, 0, "largest magnitude over axes",
              Accumulator::kLargestMagnitude, "s.value", reference::amax_abs),
    reduction("var", kFloat, 4, "variance over axes (of the whole population)",
              Accumulator::kMoments, "s.variance", reference::var),
    reduction("argmax", kIndex, 0, "index of the maximum over axes (the first, as i64)",
              Accumulator::kLargestPlace, "s.place", reference::argmax),
    reduction("logsumexp", kFloat, 3, "log of the sum of exponentials over axes",
              Accumulator::kExponentialSum, "s.log", reference::logsumexp),
    OpRow{.name = "softmax",
          .op_class = kNormalise,
          .family = OpFamily::kSoftmax,
          .flops = 3,
          .passes = 2,
          .attributes = only(kAxes),
          .summary = "softmax over an axis (default: the last)",
          .device = "exp_below(a - s.most) * s.inverse",
          .accumulator = Accumulator::kExponentialSum,
          .softmax = SoftmaxPart::kWhole,
          .reference = [](In x, At) { return std::exp(x[0] - x[1]) / x[2]; }},
    OpRow{.name = "log_softmax",
          .op_class = kNormalise,
          .family = OpFamily::kSoftmax,
          .flops = 3,
          .passes = 2,
          .attributes = only(kAxes),
          .summary = "log of softmax over an axis (default: the last)",
          .device = "a - s.log",
          .accumulator = Accumulator::kExponentialSum,
          .reference = [](In x, At) { return x[0] - x[1] - std::log(x[2]); }},
    OpRow{.name = "layer_norm",
          .op_class = kNormalise,
          .family = OpFamily::kRowNorm,
          .max_inputs = 3,
          .flops = 7,
          .passes = 2,
          .attributes = kAxes | kEps,
          .summary = "over the last axes, those of the weight (x, weight, bias)",
          .device = "(a - s.mean) * s.rstd * $weight + $bias",
          .accumulator = Accumulator::kMoments,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); }},
    OpRow{.name = "rms_norm",
          .op_class = kNormalise,
          .family = OpFamily::kRowNorm,
          .max_inputs = 2,
          .flops = 4,
          .passes = 2,
          .attributes = kAxes | kEps,
          .summary = "over the last axes, those of the weight (x, weight)",
          .device = "a * s.scale * $weight",
          .accumulator = Accumulator::kSquareSum,
          .reference = [](In x, At) { return x[0] / std::sqrt(x[1] * x[1] + x[2] + x[3]); }},
    OpRow{.name = "batch_norm",
          .op_class = kNormalise,
          .family = OpFamily::kBatchNorm,
          .min_inputs = 3,
          .max_inputs = 5,
          .max_outputs = 3,
          .flops = 7,
          .passes = 2,
          .holds_rows = false,  // a channel is spread over all samples
          .attributes = kMode | kEps,
          .summary = "per channel (x, weight, bias, and mean, variance for inference)",
          .device = "(a - $mean) * $rstd * $weight + $bias",
          .device_more = {"s.mean", "s.variance"},
          .accumulator = Accumulator::kMoments,
          .per_channel = true,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); }},
    OpRow{.name = "group_norm",
          .op_class = kNormalise,
          .family = OpFamily::kGroupNorm,
          .max_inputs = 3,
          .flops = 7,
          .passes = 2,
          .attributes = kGroups | kEps,
          .summary = "per group of channels (x, weight, bias)",
          .device = "(a - s.mean) * s.rstd * $weight + $bias",
          .accumulator = Accumulator::kMoments,
          .per_channel = true,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); }},
    OpRow{.name = "cross_entropy",
          .op_class = kNormalise,
          .family = OpFamily::kLoss,
          .min_inputs = 2,
          .max_inputs = 2,
          .max_outputs = 2,
          .flops = 3,
          .attributes = only(kReduction),
          .summary = "(logits, class indices); the log-normaliser as a second output",
          .device = "s.log - a",
          .device_more = {"s.log"},
          .accumulator = Accumulator::kExponentialSum},
    OpRow{.name = "nll_loss",
          .op_class = kNormalise,
          .family = OpFamily::kLoss,
          .min_inputs = 2,
          .max_inputs = 2,
          .flops = 1,
          .access = Access::kGather,  // one score of each row
          .attributes = only(kReduction),
          .summary = "(log-probabilities, class indices)",
          .device = "-a"},
};

}  // namespace

std::span<const OpRow> row_ops() { return kRows; }

}  // namespace fusecalc
