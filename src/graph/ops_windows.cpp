// The rows of pooling and upsampling: what makes each result out of a few neighbours.

#include <array>

#include "graph/op_rows.hpp"

namespace fusecalc {
namespace {

using enum Attribute;

constexpr OpRow window(std::string_view name, OpFamily family, Accumulator accumulator,
                       AttributeSet attributes, std::string_view summary) {
  return {.name = name,
          .op_class = OpClass::kMovement,
          .family = family,
          .access = Access::kWindow,
          .attributes = attributes,
          .summary = summary,
          .accumulator = accumulator};
}

// The place within a plane is the second output. The first is of the place, too, and a compiler
// leaves out what is not used.
constexpr OpRow largest(OpRow row) {
  row.max_outputs = 2;
  row.device = "s.value";
  row.device_more = {"s.place"};
  row.keeps_range = true;
  return row;
}

constexpr OpRow averaged(OpRow row, std::uint8_t flops, std::string_view device) {
  row.flops = flops;
  row.type_rule = TypeRule::kFloat;
  row.device = device;
  return row;
}

constexpr std::array kWindowOps = {
    largest(window("max_pool", OpFamily::kPool, Accumulator::kLargestPlace,
                   kKernel | kStride | kPadding | kDilation | kCeilMode,
                   "the largest of each window of the last axes; their places as a second output")),
    averaged(window("avg_pool", OpFamily::kPool, Accumulator::kSum,
                    kKernel | kStride | kPadding | kCeilMode | kCountIncludePad,
                    "the mean of each window of the last axes"),
             1, "s.sum / $count"),
    largest(window("adaptive_max_pool", OpFamily::kAdaptivePool, Accumulator::kLargestPlace,
                   only(kSize), "max_pool with windows that lead to a size")),
    averaged(window("adaptive_avg_pool", OpFamily::kAdaptivePool, Accumulator::kSum, only(kSize),
                    "avg_pool with windows that lead to a size"),
             1, "s.sum / $count"),
    window("upsample_nearest", OpFamily::kUpsample, Accumulator::kNone, kSize | kScale,
           "the last axes stretched to a size, or by a factor; elements are repeated"),
    averaged(
        window("upsample_linear", OpFamily::kUpsample, Accumulator::kSum,
               kSize | kScale | kAlignCorners, "the same, interpolated: bilinear over two axes"),
        2, "s.sum"),
};

}  // namespace

std::span<const OpRow> window_ops() { return kWindowOps; }

}  // namespace fusecalc
