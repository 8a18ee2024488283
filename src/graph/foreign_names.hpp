#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fusecalc {

enum class NameKind { kOp, kAttribute, kDType };

// What PyTorch, ONNX, NumPy and JAX call something of ours: "bmm", "keepdims", "float16".
struct ForeignName {
  NameKind kind;
  std::string_view foreign;  // the last part, in small letters, without underscores
  std::string_view ours;
};
std::span<const ForeignName> foreign_names();

// ` (did you mean "matmul"?)` of a name that is no candidate: first by foreign names, then the
// nearest in spelling. Empty if neither is a candidate.
std::string did_you_mean(NameKind kind, std::string_view name,
                         std::span<const std::string_view> candidates);

}  // namespace fusecalc
