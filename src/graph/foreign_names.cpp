#include "graph/foreign_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/suggest.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

using Row = ForeignName;

constexpr std::array kRows = {
    Row{NameKind::kOp, "mm", "matmul"},
    Row{NameKind::kOp, "bmm", "matmul"},
    Row{NameKind::kOp, "dot", "matmul"},
    Row{NameKind::kOp, "einsum", "matmul"},
    Row{NameKind::kOp, "batchmatmul", "matmul"},
    Row{NameKind::kOp, "addmm", "linear"},
    Row{NameKind::kOp, "baddbmm", "matmul"},
    Row{NameKind::kOp, "groupedmm", "grouped_matmul"},
    Row{NameKind::kOp, "groupedgemm", "grouped_matmul"},
    Row{NameKind::kOp, "raggeddot", "grouped_matmul"},
    Row{NameKind::kOp, "scaledmm", "scaled_matmul"},
    Row{NameKind::kOp, "gemm", "linear"},
    Row{NameKind::kOp, "dense", "linear"},
    Row{NameKind::kOp, "fullyconnected", "linear"},
    Row{NameKind::kOp, "sdpa", "attention"},
    Row{NameKind::kOp, "scaleddotproductattention", "attention"},
    Row{NameKind::kOp, "flashattention", "attention"},
    Row{NameKind::kOp, "multiheadattention", "attention"},
    Row{NameKind::kOp, "conv", "conv2d"},
    Row{NameKind::kOp, "convolution", "conv2d"},
    Row{NameKind::kOp, "subtract", "sub"},
    Row{NameKind::kOp, "multiply", "mul"},
    Row{NameKind::kOp, "divide", "div"},
    Row{NameKind::kOp, "truediv", "div"},
    Row{NameKind::kOp, "power", "pow"},
    Row{NameKind::kOp, "negative", "neg"},
    Row{NameKind::kOp, "absolute", "abs"},
    Row{NameKind::kOp, "mod", "remainder"},
    Row{NameKind::kOp, "invert", "bitwise_not"},
    Row{NameKind::kOp, "less", "lt"},
    Row{NameKind::kOp, "lessequal", "le"},
    Row{NameKind::kOp, "greater", "gt"},
    Row{NameKind::kOp, "greaterequal", "ge"},
    Row{NameKind::kOp, "equal", "eq"},
    Row{NameKind::kOp, "notequal", "ne"},
    Row{NameKind::kOp, "and", "logical_and"},
    Row{NameKind::kOp, "or", "logical_or"},
    Row{NameKind::kOp, "xor", "logical_xor"},
    Row{NameKind::kOp, "not", "logical_not"},
    Row{NameKind::kOp, "select", "where"},
    Row{NameKind::kOp, "swish", "silu"},
    Row{NameKind::kOp, "logistic", "sigmoid"},
    Row{NameKind::kOp, "clip", "clamp"},
    Row{NameKind::kOp, "hardtanh", "clamp"},
    Row{NameKind::kOp, "relu6", "clamp"},
    Row{NameKind::kOp, "to", "cast"},
    Row{NameKind::kOp, "astype", "cast"},
    Row{NameKind::kOp, "convert", "cast"},
    Row{NameKind::kOp, "convertelementtype", "cast"},
    Row{NameKind::kOp, "reducesum", "sum"},
    Row{NameKind::kOp, "reducemean", "mean"},
    Row{NameKind::kOp, "reducemax", "max"},
    Row{NameKind::kOp, "reducemin", "min"},
    Row{NameKind::kOp, "reduceprod", "prod"},
    Row{NameKind::kOp, "average", "mean"},
    Row{NameKind::kOp, "amax", "max"},
    Row{NameKind::kOp, "amin", "min"},
    Row{NameKind::kOp, "variance", "var"},
    Row{NameKind::kOp, "simplifiedlayernormalization", "rms_norm"},
    Row{NameKind::kOp, "layernormalization", "layer_norm"},
    Row{NameKind::kOp, "nativelayernorm", "layer_norm"},
    Row{NameKind::kOp, "batchnormalization", "batch_norm"},
    Row{NameKind::kOp, "groupnormalization", "group_norm"},
    Row{NameKind::kOp, "instancenorm", "group_norm"},
    Row{NameKind::kOp, "crossentropyloss", "cross_entropy"},
    Row{NameKind::kOp, "softmaxcrossentropy", "cross_entropy"},
    Row{NameKind::kOp, "permute", "transpose"},
    Row{NameKind::kOp, "t", "transpose"},
    Row{NameKind::kOp, "swapaxes", "transpose"},
    Row{NameKind::kOp, "cat", "concat"},
    Row{NameKind::kOp, "concatenate", "concat"},
    Row{NameKind::kOp, "stack", "concat"},
    Row{NameKind::kOp, "narrow", "slice"},
    Row{NameKind::kOp, "split", "split_view"},
    Row{NameKind::kOp, "chunk", "split_view"},
    Row{NameKind::kOp, "expand", "expand_view"},
    Row{NameKind::kOp, "broadcast", "broadcast_to"},
    Row{NameKind::kOp, "clone", "copy"},
    Row{NameKind::kOp, "contiguous", "copy"},
    Row{NameKind::kOp, "identity", "copy"},
    Row{NameKind::kOp, "flatten", "reshape"},
    Row{NameKind::kOp, "unsqueeze", "reshape"},
    Row{NameKind::kOp, "squeeze", "reshape"},
    Row{NameKind::kOp, "tile", "repeat"},
    Row{NameKind::kOp, "arange", "iota"},
    Row{NameKind::kOp, "zeros", "full"},
    Row{NameKind::kOp, "ones", "full"},
    Row{NameKind::kOp, "take", "gather"},
    Row{NameKind::kOp, "indexselect", "gather"},
    Row{NameKind::kOp, "takealongaxis", "gather_elements"},
    Row{NameKind::kOp, "scatter", "scatter_elements"},
    Row{NameKind::kOp, "indexput", "scatter_update"},
    Row{NameKind::kOp, "interpolate", "upsample_nearest"},
    Row{NameKind::kOp, "resize", "upsample_nearest"},
    Row{NameKind::kAttribute, "dim", "axes"},
    Row{NameKind::kAttribute, "dims", "axes"},
    Row{NameKind::kAttribute, "normalizedshape", "axes"},
    Row{NameKind::kAttribute, "permutation", "perm"},
    Row{NameKind::kAttribute, "order", "perm"},
    Row{NameKind::kAttribute, "kernelsize", "kernel"},
    Row{NameKind::kAttribute, "kernelshape", "kernel"},
    Row{NameKind::kAttribute, "pads", "padding"},
    Row{NameKind::kAttribute, "dilations", "dilation"},
    Row{NameKind::kAttribute, "group", "groups"},
    Row{NameKind::kAttribute, "epsilon", "eps"},
    Row{NameKind::kAttribute, "iscausal", "causal"},
    Row{NameKind::kAttribute, "unidirectional", "causal"},
    Row{NameKind::kAttribute, "softmaxscale", "scale"},
    Row{NameKind::kAttribute, "transa", "transpose_a"},
    Row{NameKind::kAttribute, "transb", "transpose_b"},
    Row{NameKind::kAttribute, "unbiased", "correction"},
    Row{NameKind::kAttribute, "ddof", "correction"},
    Row{NameKind::kAttribute, "dtype", "to"},
    Row{NameKind::kAttribute, "numclasses", "classes"},
    Row{NameKind::kDType, "float16", "f16"},
    Row{NameKind::kDType, "fp16", "f16"},
    Row{NameKind::kDType, "half", "f16"},
    Row{NameKind::kDType, "bfloat16", "bf16"},
    Row{NameKind::kDType, "float32", "f32"},
    Row{NameKind::kDType, "fp32", "f32"},
    Row{NameKind::kDType, "float", "f32"},
    Row{NameKind::kDType, "single", "f32"},
    Row{NameKind::kDType, "float64", "f64"},
    Row{NameKind::kDType, "fp64", "f64"},
    Row{NameKind::kDType, "double", "f64"},
    Row{NameKind::kDType, "float8e4m3fn", "fp8_e4m3"},
    Row{NameKind::kDType, "float8e4m3", "fp8_e4m3"},
    Row{NameKind::kDType, "e4m3", "fp8_e4m3"},
    Row{NameKind::kDType, "fp8", "fp8_e4m3"},
    Row{NameKind::kDType, "float8e5m2", "fp8_e5m2"},
    Row{NameKind::kDType, "e5m2", "fp8_e5m2"},
    Row{NameKind::kDType, "int64", "i64"},
    Row{NameKind::kDType, "long", "i64"},
    Row{NameKind::kDType, "int32", "i32"},
    Row{NameKind::kDType, "int", "i32"},
    Row{NameKind::kDType, "int16", "i16"},
    Row{NameKind::kDType, "short", "i16"},
    Row{NameKind::kDType, "int8", "i8"},
    Row{NameKind::kDType, "byte", "u8"},
    Row{NameKind::kDType, "uint8", "u8"},
    Row{NameKind::kDType, "boolean", "bool"},
};

// "torch.nn.functional.Layer_Norm_" -> "layernorm": the last part, in small letters, without
// underscores.
std::string plain(std::string_view name) {
  if (name.ends_with(".default")) name.remove_suffix(std::string_view(".default").size());
  const std::size_t end = name.find_last_of(".:");
  std::string text;
  for (const char c : end == std::string_view::npos ? name : name.substr(end + 1)) {
    if (c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

std::span<const ForeignName> foreign_names() { return kRows; }

std::string did_you_mean(NameKind kind, std::string_view name,
                         std::span<const std::string_view> candidates) {
  const std::string word = plain(name);
  // As others write a name of ours: "torch.ops.aten.relu", "LayerNorm".
  const auto same = [&](std::string_view candidate) { return plain(candidate) == word; };
  auto meant = std::ranges::find_if(candidates, same);
  for (const Row& row : kRows) {
    if (meant != candidates.end()) break;
    if (row.kind == kind && row.foreign == word) meant = std::ranges::find(candidates, row.ours);
  }
  if (meant == candidates.end()) return did_you_mean(name, candidates);
  return " (did you mean " + in_quotes(*meant) + "?)";
}

}  // namespace fusecalc
