// The rows of ops whose results depend on where their elements are: movements to computed places,
// tensors that nothing but their shape makes, and elements that indices name.

#include <array>

#include "graph/op_rows.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;

using In = std::span<const double>;
using At = const Attributes&;

constexpr std::array kIndexOps = {
    OpRow{.name = "pad",
          .op_class = kMovement,
          .family = OpFamily::kPad,
          .access = Access::kSelect,
          .attributes = kBefore | kAfter | kValue | kBorder,
          .summary = "elements of a value before and after each axis, or of its own as the border "
                     "tells; negative counts cut"},
    OpRow{.name = "roll",
          .op_class = kMovement,
          .family = OpFamily::kRoll,
          .access = Access::kSelect,
          .attributes = kAxes | kShifts,
          .summary = "shifted along axes; what leaves at the end enters at the start"},
    OpRow{.name = "flip",
          .op_class = kMovement,
          .family = OpFamily::kFlip,
          .access = Access::kSelect,
          .attributes = only(kAxes),
          .summary = "reversed along axes (default: all)"},
    OpRow{.name = "repeat",
          .op_class = kMovement,
          .family = OpFamily::kRepeat,
          .access = Access::kSelect,
          .attributes = only(kRepeats),
          .summary = "so many copies along each axis; more counts than axes add axes in front"},
    OpRow{.name = "rotary",
          .op_class = kMovement,
          .family = OpFamily::kRotary,
          .min_inputs = 3,
          .max_inputs = 3,
          .flops = 3,
          .access = Access::kSelect,
          .attributes = kInterleaved | kRotated,
          .summary = "pairs of the first so many elements of the last axis (default: all), half of "
                     "them apart or interleaved, turned by angles (x, cos, sin)"},
    OpRow{.name = "one_hot",
          .op_class = kMovement,
          .family = OpFamily::kOneHot,
          .access = Access::kSelect,
          .attributes = kClasses | kTo,
          .summary = "1 at the class that x names along a new last axis, else 0 (as i64)"},
    OpRow{
        .name = "tril",
        .family = OpFamily::kTriangle,
        .attributes = only(kDiagonal),
        .summary = "of matrices, 0 above a diagonal",
        .device = "$column - $row <= $diagonal ? a : $zero",
        .keeps_range = true,
        .reference =
            [](In x, At at) { return x[2] - x[1] <= static_cast<double>(at.diagonal) ? x[0] : 0; }},
    OpRow{
        .name = "triu",
        .family = OpFamily::kTriangle,
        .attributes = only(kDiagonal),
        .summary = "of matrices, 0 below a diagonal",
        .device = "$column - $row >= $diagonal ? a : $zero",
        .keeps_range = true,
        .reference =
            [](In x, At at) { return x[2] - x[1] >= static_cast<double>(at.diagonal) ? x[0] : 0; }},
    OpRow{.name = "iota",
          .family = OpFamily::kIota,
          .min_inputs = 0,
          .max_inputs = 0,
          .flops = 2,
          .attributes = kShape | kFirst | kDelta | kTo,
          .summary = "first + delta * the index of the element",
          .device = "$first + $index * $delta",
          .reference = [](In x, At at) { return at.first + x[0] * at.delta; }},
    OpRow{.name = "full",
          .family = OpFamily::kFull,
          .min_inputs = 0,
          .max_inputs = 0,
          .attributes = kShape | kValue | kTo,
          .summary = "the value in every element",
          .device = "$value",
          .keeps_range = true,
          .reference = [](In, At at) { return at.value; }},
    OpRow{.name = "gather_elements",
          .op_class = kMovement,
          .family = OpFamily::kGatherElements,
          .min_inputs = 2,
          .max_inputs = 2,
          .access = Access::kGather,
          .attributes = only(kAxes),
          .summary = "the element of x at each index along an axis (x, indices)"},
    OpRow{.name = "scatter_elements",
          .op_class = kMovement,
          .family = OpFamily::kScatterElements,
          .min_inputs = 3,
          .max_inputs = 3,
          .access = Access::kScatter,
          .attributes = kAxes | kCombine,
          .summary = "replaces or combines elements of x in place (x, indices, updates)"},
};

}  // namespace

std::span<const OpRow> index_ops() { return kIndexOps; }

}  // namespace fusecalc
