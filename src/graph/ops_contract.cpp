// The rows of contractions, and of custom.

#include <array>

#include "graph/op_rows.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;

constexpr OpRow convolution(std::string_view name, std::uint8_t spatial_axes,
                            std::string_view summary) {
  return {.name = name,
          .op_class = kContract,
          .family = OpFamily::kConvolution,
          .min_inputs = 2,
          .max_inputs = 3,
          .spatial_axes = spatial_axes,
          .attributes = kStride | kPadding | kDilation | kGroups,
          .summary = summary};
}

constexpr OpRow transposed(OpRow row) {
  row.family = OpFamily::kTransposedConvolution;
  row.has_kernel = false;
  row.attributes = row.attributes | kOutputPadding;
  return row;
}

constexpr std::array kContractOps = {
    OpRow{.name = "matmul",
          .op_class = kContract,
          .family = OpFamily::kMatmul,
          .min_inputs = 2,
          .max_inputs = 2,
          .attributes = kTransposeA | kTransposeB,
          .summary = "a @ b, over broadcast batches"},
    OpRow{.name = "linear",
          .op_class = kContract,
          .family = OpFamily::kLinear,
          .min_inputs = 2,
          .max_inputs = 3,
          .summary = "x @ weight^T + bias, weight being [out, in]"},
    OpRow{.name = "grouped_matmul",
          .op_class = kContract,
          .family = OpFamily::kGroupedMatmul,
          .min_inputs = 3,
          .max_inputs = 3,
          .attributes = only(kTransposeB),
          .summary =
              "(a [rows,k], b [groups,k,n], offsets [groups]): each row @ its group's matrix; "
              "group i ends before row offsets[i]"},
    OpRow{.name = "scaled_matmul",
          .op_class = kContract,
          .family = OpFamily::kScaledMatmul,
          .min_inputs = 4,
          .max_inputs = 5,
          .attributes = only(kTransposeB),
          .summary = "(a [m,k], b [k,n], scales of a, scales of b, bias): a @ b of scaled 8-bit "
                     "types; a scale is for all, for a row or column, or for a block"},
    convolution("conv1d", 1, "(x [N,C,W], weight [out, C/groups, w], bias)"),
    convolution("conv2d", 2, "(x [N,C,H,W], weight [out, C/groups, h, w], bias)"),
    convolution("conv3d", 3, "(x [N,C,D,H,W], weight [out, C/groups, d, h, w], bias)"),
    transposed(convolution("conv_transpose1d", 1, "(x [N,C,W], weight [C, out/groups, w], bias)")),
    transposed(
        convolution("conv_transpose2d", 2, "(x [N,C,H,W], weight [C, out/groups, h, w], bias)")),
    transposed(convolution("conv_transpose3d", 3,
                           "(x [N,C,D,H,W], weight [C, out/groups, d, h, w], bias)")),
    OpRow{.name = "attention",
          .op_class = kContract,
          .family = OpFamily::kAttention,
          .min_inputs = 3,
          .max_inputs = 4,
          .max_outputs = 2,
          .attributes = kCausal | kScale | kWindow,
          .summary = "softmax(q @ k^T * scale + mask) @ v; fewer key heads are shared; the "
                     "scores' log-sum-exp as a second output; window: the last keys that a query "
                     "sees, if causal"},
    OpRow{.name = "custom",
          .op_class = kOpaque,
          .family = OpFamily::kCustom,
          .min_inputs = 0,
          .max_inputs = kAnyNumber,
          .max_outputs = 255,
          .has_kernel = false,
          .summary = "anything: declared output shapes, reads, writes, flops, class"},
};

}  // namespace

std::span<const OpRow> contract_ops() { return kContractOps; }

}  // namespace fusecalc
