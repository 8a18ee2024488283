// The rows of contractions, and of custom.

#include <array>

#include "graph/op_rows.hpp"

namespace fusecalc {
namespace {

using enum OpClass;
using enum Attribute;

constexpr std::array kRows = {
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
    OpRow{.name = "conv2d",
          .op_class = kContract,
          .family = OpFamily::kConv2d,
          .min_inputs = 2,
          .max_inputs = 3,
          .has_kernel = false,
          .attributes = kStride | kPadding | kDilation | kGroups,
          .summary = "(x [N,C,H,W], weight [out, C/groups, h, w], bias)"},
    OpRow{.name = "attention",
          .op_class = kContract,
          .family = OpFamily::kAttention,
          .min_inputs = 3,
          .max_inputs = 4,
          .attributes = kCausal | kScale,
          .summary = "softmax(q @ k^T * scale + mask) @ v; fewer key heads are shared"},
    OpRow{.name = "custom",
          .op_class = kOpaque,
          .family = OpFamily::kCustom,
          .min_inputs = 0,
          .max_inputs = kAnyNumber,
          .max_outputs = 255,
          .summary = "anything: declared output shapes, reads, writes, flops, class"},
};

}  // namespace

std::span<const OpRow> contract_ops() { return kRows; }

}  // namespace fusecalc
