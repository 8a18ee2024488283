#include "codegen/value.hpp"

#include <fmt/format.h>

namespace fusecalc {

Value converted(const Value& value, ComputeType type) {
  if (value.number) return {.text = literal(*value.number, type), .type = type, .uniform = true};
  if (value.type == type) return value;
  if (type == ComputeType::kF32 && !value.as_float.empty()) {
    return {.text = value.as_float, .type = type, .uniform = value.uniform};
  }
  return {.text = fmt::format("{}({})", name_of(type), value.text),
          .type = type,
          .uniform = value.uniform};
}

}  // namespace fusecalc
