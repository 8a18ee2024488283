// The rows of ops whose every result depends on a whole row in an order of its own. Scans are fused
// with pointwise ops alone, sorts with none.

#include <array>

#include "graph/op_rows.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;

using In = std::span<const double>;
using At = const Attributes&;

constexpr OpRow scan(std::string_view name, Accumulator accumulator, std::string_view summary,
                     ReferenceFunction reference) {
  return {.name = name,
          .op_class = kOpaque,
          .family = OpFamily::kScan,
          .flops = 1,
          .type_rule = TypeRule::kAccumulate,
          .attributes = only(kAxes),
          .summary = summary,
          .accumulator = accumulator,
          .reference = reference};
}

constexpr std::array kWholeRowOps = {
    scan("cumsum", Accumulator::kSum,
         "sums of the elements so far along an axis (default: the last)",
         [](In x, At) { return x[0] + x[1]; }),
    scan("cumprod", Accumulator::kProduct,
         "products of the elements so far along an axis (default: the last)",
         [](In x, At) { return x[0] * x[1]; }),
    OpRow{.name = "sort",
          .op_class = kOpaque,
          .family = OpFamily::kSort,
          .max_outputs = 2,
          .access = Access::kSelect,
          .attributes = kAxes | kDescending,
          .summary = "along an axis (default: the last), stable; the indices as a second output"},
    OpRow{.name = "topk",
          .op_class = kOpaque,
          .family = OpFamily::kSort,
          .max_outputs = 2,
          .access = Access::kSelect,
          .attributes = kAxes | kK | kLargest,
          .summary = "the first k of an axis when sorted; their indices as a second output"},
};

}  // namespace

std::span<const OpRow> whole_row_ops() { return kWholeRowOps; }

}  // namespace fusecalc
