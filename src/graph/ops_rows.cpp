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

constexpr OpRow with_correction(OpRow row) {
  row.attributes = row.attributes | kCorrection;
  return row;
}

constexpr OpRow with_place(OpRow row) {
  row.max_outputs = 2;
  row.device_more = {"s.place"};
  row.keeps_range = true;
  return row;
}

// What normalisations hand out besides: functions of x, the mean, the variance and epsilon.
constexpr ReferenceFunction kMean = [](In x, At) { return x[1]; };
constexpr ReferenceFunction kVariance = [](In x, At) { return x[2]; };
constexpr ReferenceFunction kDeviation = [](In x, At) { return 1 / std::sqrt(x[2] + x[3]); };

constexpr std::array kRowOps = {
    in_softmax(reduction("sum", kAccumulate, 1, "sum over axes", Accumulator::kSum, "s.sum",
                         reference::sum),
               SoftmaxPart::kSum),
    reduction("mean", kFloat, 1, "mean over axes", Accumulator::kSum, "s.sum / $count",
              reference::mean),
    in_softmax(keeping_range(reduction("max", kPromote, 0, "maximum over axes",
                                       Accumulator::kLargest, "s.value", reference::max)),
               SoftmaxPart::kMaximum),
    keeping_range(reduction("min", kPromote, 0, "minimum over axes", Accumulator::kSmallest,
                            "s.value", reference::min)),
    reduction("amax_abs", kPromote, 0, "largest magnitude over axes",
              Accumulator::kLargestMagnitude, "s.value", reference::amax_abs),
    with_correction(reduction("var", kFloat, 4,
                              "variance over axes: squares / (count - correction)",
                              Accumulator::kMoments, "s.variance * $unbias", reference::var)),
    with_correction(reduction("std", kFloat, 4, "square root of the variance over axes",
                              Accumulator::kMoments, "sqrt(s.variance * $unbias)",
                              reference::std_dev)),
    reduction("l2_norm", kFloat, 2, "square root of the sum of squares over axes",
              Accumulator::kSquareSum, "sqrt(s.sum)", reference::l2_norm),
    reduction("prod", kAccumulate, 1, "product over axes", Accumulator::kProduct, "s.value",
              reference::prod),
    reduction("any", kBool, 0, "whether any element over axes is not 0", Accumulator::kAny,
              "s.value", reference::any),
    reduction("all", kBool, 0, "whether no element over axes is 0", Accumulator::kAll, "s.value",
              reference::all),
    reduction("argmax", kIndex, 0, "index of the maximum over axes (the first, as i64)",
              Accumulator::kLargestPlace, "s.place", reference::argmax),
    reduction("argmin", kIndex, 0, "index of the minimum over axes (the first, as i64)",
              Accumulator::kSmallestPlace, "s.place", reference::argmin),
    with_place(reduction("max_with_index", kPromote, 0,
                         "maximum over axes, and its index as a second output",
                         Accumulator::kLargestPlace, "s.value", reference::max)),
    with_place(reduction("min_with_index", kPromote, 0,
                         "minimum over axes, and its index as a second output",
                         Accumulator::kSmallestPlace, "s.value", reference::min)),
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
          .max_outputs = 3,
          .flops = 7,
          .passes = 2,
          .attributes = kAxes | kEps,
          .summary = "over the last axes, those of the weight (x, weight, bias); the mean and "
                     "1 / deviation as further outputs",
          .device = "(a - s.mean) * s.rstd * $weight + $bias",
          .device_more = {"s.mean", "s.rstd"},
          .accumulator = Accumulator::kMoments,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); },
          .reference_more = {kMean, kDeviation}},
    OpRow{.name = "rms_norm",
          .op_class = kNormalise,
          .family = OpFamily::kRowNorm,
          .max_inputs = 2,
          .max_outputs = 2,
          .flops = 4,
          .passes = 2,
          .attributes = kAxes | kEps,
          .summary =
              "over the last axes, those of the weight (x, weight); 1 / deviation as a second "
              "output",
          .device = "a * s.scale * $weight",
          .device_more = {"s.scale"},
          .accumulator = Accumulator::kSquareSum,
          .reference = [](In x, At) { return x[0] / std::sqrt(x[1] * x[1] + x[2] + x[3]); },
          .reference_more = {[](In x, At) { return 1 / std::sqrt(x[1] * x[1] + x[2] + x[3]); }}},
    OpRow{.name = "batch_norm",
          .op_class = kNormalise,
          .family = OpFamily::kBatchNorm,
          .min_inputs = 3,
          .max_inputs = 5,
          .max_outputs = 5,
          .flops = 7,
          .passes = 2,
          .holds_rows = false,  // a channel is spread over all samples
          .attributes = kMode | kEps | kMomentum,
          .summary =
              "per channel (x, weight, bias, and mean, variance for inference); training: mean "
              "and variance as further outputs, or, with running ones as inputs, mean, 1 / "
              "deviation and what the running ones become",
          .device = "(a - $mean) * $gain + $bias",
          .device_more = {"s.mean", "s.variance"},
          .device_running = {"s.mean", "s.rstd", "d + $momentum * (s.mean - d)",
                             "e + $momentum * (s.variance * $sample - e)"},
          .quick = "a * $gain + $shift",
          .accumulator = Accumulator::kMoments,
          .per_channel = true,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); },
          .reference_more = {kMean, kVariance}},
    OpRow{.name = "group_norm",
          .op_class = kNormalise,
          .family = OpFamily::kGroupNorm,
          .max_inputs = 3,
          .max_outputs = 3,
          .flops = 7,
          .passes = 2,
          .attributes = kGroups | kEps,
          .summary =
              "per group of channels (x, weight, bias); the mean and 1 / deviation as further "
              "outputs",
          .device = "(a - s.mean) * s.rstd * $weight + $bias",
          .device_more = {"s.mean", "s.rstd"},
          .accumulator = Accumulator::kMoments,
          .per_channel = true,
          .reference = [](In x, At) { return (x[0] - x[1]) / std::sqrt(x[2] + x[3]); },
          .reference_more = {kMean, kDeviation}},
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

std::span<const OpRow> row_ops() { return kRowOps; }

}  // namespace fusecalc
