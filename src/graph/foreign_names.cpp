#include "graph/foreign_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "core/suggest.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr std::array kForeignNames = {
    ForeignName{NameKind::kOp, "mm", "matmul"},
    ForeignName{NameKind::kOp, "bmm", "matmul"},
    ForeignName{NameKind::kOp, "dot", "matmul"},
    ForeignName{NameKind::kOp, "einsum", "matmul"},
    ForeignName{NameKind::kOp, "batchmatmul", "matmul"},
    ForeignName{NameKind::kOp, "addmm", "linear"},
    ForeignName{NameKind::kOp, "baddbmm", "matmul"},
    ForeignName{NameKind::kOp, "groupedmm", "grouped_matmul"},
    ForeignName{NameKind::kOp, "groupedgemm", "grouped_matmul"},
    ForeignName{NameKind::kOp, "raggeddot", "grouped_matmul"},
    ForeignName{NameKind::kOp, "scaledmm", "scaled_matmul"},
    ForeignName{NameKind::kOp, "gemm", "linear"},
    ForeignName{NameKind::kOp, "dense", "linear"},
    ForeignName{NameKind::kOp, "fullyconnected", "linear"},
    ForeignName{NameKind::kOp, "fc", "linear"},
    ForeignName{NameKind::kOp, "sdpa", "attention"},
    ForeignName{NameKind::kOp, "scaleddotproductattention", "attention"},
    ForeignName{NameKind::kOp, "flashattention", "attention"},
    ForeignName{NameKind::kOp, "multiheadattention", "attention"},
    ForeignName{NameKind::kOp, "mha", "attention"},
    ForeignName{NameKind::kOp, "conv", "conv2d"},
    ForeignName{NameKind::kOp, "convolution", "conv2d"},
    ForeignName{NameKind::kOp, "subtract", "sub"},
    ForeignName{NameKind::kOp, "biasadd", "add"},
    ForeignName{NameKind::kOp, "residual", "add"},
    ForeignName{NameKind::kOp, "multiply", "mul"},
    ForeignName{NameKind::kOp, "hadamard", "mul"},
    ForeignName{NameKind::kOp, "outer", "mul"},
    ForeignName{NameKind::kOp, "divide", "div"},
    ForeignName{NameKind::kOp, "truediv", "div"},
    ForeignName{NameKind::kOp, "power", "pow"},
    ForeignName{NameKind::kOp, "negative", "neg"},
    ForeignName{NameKind::kOp, "negate", "neg"},
    ForeignName{NameKind::kOp, "absolute", "abs"},
    ForeignName{NameKind::kOp, "mod", "remainder"},
    ForeignName{NameKind::kOp, "invert", "bitwise_not"},
    ForeignName{NameKind::kOp, "less", "lt"},
    ForeignName{NameKind::kOp, "lessequal", "le"},
    ForeignName{NameKind::kOp, "greater", "gt"},
    ForeignName{NameKind::kOp, "greaterequal", "ge"},
    ForeignName{NameKind::kOp, "equal", "eq"},
    ForeignName{NameKind::kOp, "notequal", "ne"},
    ForeignName{NameKind::kOp, "and", "logical_and"},
    ForeignName{NameKind::kOp, "or", "logical_or"},
    ForeignName{NameKind::kOp, "xor", "logical_xor"},
    ForeignName{NameKind::kOp, "not", "logical_not"},
    ForeignName{NameKind::kOp, "select", "where"},
    ForeignName{NameKind::kOp, "maskedfill", "where"},
    ForeignName{NameKind::kOp, "swish", "silu"},
    ForeignName{NameKind::kOp, "logistic", "sigmoid"},
    ForeignName{NameKind::kOp, "glu", "gate"},
    ForeignName{NameKind::kOp, "mse", "squared_difference"},
    ForeignName{NameKind::kOp, "mseloss", "squared_difference"},
    ForeignName{NameKind::kOp, "huberloss", "huber"},
    ForeignName{NameKind::kOp, "smoothl1loss", "smooth_l1"},
    ForeignName{NameKind::kOp, "bce", "binary_cross_entropy"},
    ForeignName{NameKind::kOp, "bceloss", "binary_cross_entropy"},
    ForeignName{NameKind::kOp, "clip", "clamp"},
    ForeignName{NameKind::kOp, "hardtanh", "clamp"},
    ForeignName{NameKind::kOp, "relu6", "clamp"},
    ForeignName{NameKind::kOp, "to", "cast"},
    ForeignName{NameKind::kOp, "astype", "cast"},
    ForeignName{NameKind::kOp, "convert", "cast"},
    ForeignName{NameKind::kOp, "convertelementtype", "cast"},
    ForeignName{NameKind::kOp, "reducesum", "sum"},
    ForeignName{NameKind::kOp, "reducemean", "mean"},
    ForeignName{NameKind::kOp, "reducemax", "max"},
    ForeignName{NameKind::kOp, "reducemin", "min"},
    ForeignName{NameKind::kOp, "reduceprod", "prod"},
    ForeignName{NameKind::kOp, "average", "mean"},
    ForeignName{NameKind::kOp, "amax", "max"},
    ForeignName{NameKind::kOp, "norm", "l2_norm"},
    ForeignName{NameKind::kOp, "vectornorm", "l2_norm"},
    ForeignName{NameKind::kOp, "amin", "min"},
    ForeignName{NameKind::kOp, "lse", "logsumexp"},
    ForeignName{NameKind::kOp, "variance", "var"},
    ForeignName{NameKind::kOp, "simplifiedlayernormalization", "rms_norm"},
    ForeignName{NameKind::kOp, "layernormalization", "layer_norm"},
    ForeignName{NameKind::kOp, "nativelayernorm", "layer_norm"},
    ForeignName{NameKind::kOp, "batchnormalization", "batch_norm"},
    ForeignName{NameKind::kOp, "groupnormalization", "group_norm"},
    ForeignName{NameKind::kOp, "instancenorm", "group_norm"},
    ForeignName{NameKind::kOp, "crossentropyloss", "cross_entropy"},
    ForeignName{NameKind::kOp, "softmaxcrossentropy", "cross_entropy"},
    ForeignName{NameKind::kOp, "ce", "cross_entropy"},
    ForeignName{NameKind::kOp, "nll", "nll_loss"},
    ForeignName{NameKind::kOp, "permute", "transpose"},
    ForeignName{NameKind::kOp, "t", "transpose"},
    ForeignName{NameKind::kOp, "swapaxes", "transpose"},
    ForeignName{NameKind::kOp, "cat", "concat"},
    ForeignName{NameKind::kOp, "concatenate", "concat"},
    ForeignName{NameKind::kOp, "stack", "concat"},
    ForeignName{NameKind::kOp, "narrow", "slice"},
    ForeignName{NameKind::kOp, "split", "split_view"},
    ForeignName{NameKind::kOp, "chunk", "split_view"},
    ForeignName{NameKind::kOp, "expand", "expand_view"},
    ForeignName{NameKind::kOp, "broadcast", "broadcast_to"},
    ForeignName{NameKind::kOp, "clone", "copy"},
    ForeignName{NameKind::kOp, "contiguous", "copy"},
    ForeignName{NameKind::kOp, "identity", "copy"},
    ForeignName{NameKind::kOp, "flatten", "reshape"},
    ForeignName{NameKind::kOp, "unsqueeze", "reshape"},
    ForeignName{NameKind::kOp, "squeeze", "reshape"},
    ForeignName{NameKind::kOp, "tile", "repeat"},
    ForeignName{NameKind::kOp, "rope", "rotary"},
    ForeignName{NameKind::kOp, "rotaryembedding", "rotary"},
    ForeignName{NameKind::kOp, "arange", "iota"},
    ForeignName{NameKind::kOp, "zeros", "full"},
    ForeignName{NameKind::kOp, "ones", "full"},
    ForeignName{NameKind::kOp, "take", "gather"},
    ForeignName{NameKind::kOp, "indexselect", "gather"},
    ForeignName{NameKind::kOp, "takealongaxis", "gather_elements"},
    ForeignName{NameKind::kOp, "argsort", "sort"},
    ForeignName{NameKind::kOp, "scatter", "scatter_elements"},
    ForeignName{NameKind::kOp, "scatteradd", "scatter_elements"},
    ForeignName{NameKind::kOp, "indexadd", "scatter_update"},
    ForeignName{NameKind::kOp, "indexput", "scatter_update"},
    ForeignName{NameKind::kOp, "interpolate", "upsample_nearest"},
    ForeignName{NameKind::kOp, "resize", "upsample_nearest"},
    ForeignName{NameKind::kOp, "upsample", "upsample_nearest"},
    ForeignName{NameKind::kOp, "pool", "max_pool"},
    ForeignName{NameKind::kOp, "averagepool", "avg_pool"},
    ForeignName{NameKind::kOp, "globalaveragepool", "adaptive_avg_pool"},
    ForeignName{NameKind::kAttribute, "dim", "axes"},
    ForeignName{NameKind::kAttribute, "dims", "axes"},
    ForeignName{NameKind::kAttribute, "normalizedshape", "axes"},
    ForeignName{NameKind::kAttribute, "permutation", "perm"},
    ForeignName{NameKind::kAttribute, "order", "perm"},
    ForeignName{NameKind::kAttribute, "kernelsize", "kernel"},
    ForeignName{NameKind::kAttribute, "kernelshape", "kernel"},
    ForeignName{NameKind::kAttribute, "pads", "padding"},
    ForeignName{NameKind::kAttribute, "dilations", "dilation"},
    ForeignName{NameKind::kAttribute, "group", "groups"},
    ForeignName{NameKind::kAttribute, "epsilon", "eps"},
    ForeignName{NameKind::kAttribute, "iscausal", "causal"},
    ForeignName{NameKind::kAttribute, "slidingwindow", "window"},
    ForeignName{NameKind::kAttribute, "windowsize", "window"},
    ForeignName{NameKind::kAttribute, "unidirectional", "causal"},
    ForeignName{NameKind::kAttribute, "softmaxscale", "scale"},
    ForeignName{NameKind::kAttribute, "transa", "transpose_a"},
    ForeignName{NameKind::kAttribute, "transb", "transpose_b"},
    ForeignName{NameKind::kAttribute, "unbiased", "correction"},
    ForeignName{NameKind::kAttribute, "ddof", "correction"},
    ForeignName{NameKind::kAttribute, "dtype", "to"},
    ForeignName{NameKind::kAttribute, "numclasses", "classes"},
    ForeignName{NameKind::kAttribute, "nan", "value"},
    ForeignName{NameKind::kAttribute, "neginf", "min"},
    ForeignName{NameKind::kAttribute, "posinf", "max"},
    ForeignName{NameKind::kDType, "float16", "f16"},
    ForeignName{NameKind::kDType, "fp16", "f16"},
    ForeignName{NameKind::kDType, "half", "f16"},
    ForeignName{NameKind::kDType, "bfloat16", "bf16"},
    ForeignName{NameKind::kDType, "float32", "f32"},
    ForeignName{NameKind::kDType, "fp32", "f32"},
    ForeignName{NameKind::kDType, "float", "f32"},
    ForeignName{NameKind::kDType, "single", "f32"},
    ForeignName{NameKind::kDType, "float64", "f64"},
    ForeignName{NameKind::kDType, "fp64", "f64"},
    ForeignName{NameKind::kDType, "double", "f64"},
    ForeignName{NameKind::kDType, "float8e4m3fn", "fp8_e4m3"},
    ForeignName{NameKind::kDType, "float8e4m3", "fp8_e4m3"},
    ForeignName{NameKind::kDType, "e4m3", "fp8_e4m3"},
    ForeignName{NameKind::kDType, "fp8", "fp8_e4m3"},
    ForeignName{NameKind::kDType, "float8e5m2", "fp8_e5m2"},
    ForeignName{NameKind::kDType, "e5m2", "fp8_e5m2"},
    ForeignName{NameKind::kDType, "int64", "i64"},
    ForeignName{NameKind::kDType, "long", "i64"},
    ForeignName{NameKind::kDType, "int32", "i32"},
    ForeignName{NameKind::kDType, "int", "i32"},
    ForeignName{NameKind::kDType, "int16", "i16"},
    ForeignName{NameKind::kDType, "short", "i16"},
    ForeignName{NameKind::kDType, "int8", "i8"},
    ForeignName{NameKind::kDType, "byte", "u8"},
    ForeignName{NameKind::kDType, "uint8", "u8"},
    ForeignName{NameKind::kDType, "boolean", "bool"},
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

std::span<const ForeignName> foreign_names() { return kForeignNames; }

std::string did_you_mean(NameKind kind, std::string_view name,
                         std::span<const std::string_view> candidates) {
  const std::string word = plain(name);
  // As others write a name of ours: "torch.ops.aten.relu", "LayerNorm".
  const auto same = [&](std::string_view candidate) { return plain(candidate) == word; };
  auto meant = std::ranges::find_if(candidates, same);
  for (const ForeignName& row : kForeignNames) {
    if (meant != candidates.end()) break;
    if (row.kind == kind && row.foreign == word) meant = std::ranges::find(candidates, row.ours);
  }
  if (meant == candidates.end()) return did_you_mean(name, candidates);
  return " (did you mean " + in_quotes(*meant) + "?)";
}

}  // namespace fusecalc
