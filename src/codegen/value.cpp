#include "codegen/value.hpp"

#include <fmt/format.h>

namespace fusecalc {

Value converted(const Value& value, ComputeType type) {
  if (value.number) return {.text = literal(*value.number, type), .type = type, .uniform = true};
  if (value.type == type) return value;
  return {.text = fmt::format("{}({})", name_of(type), value.text),
          .type = type,
          .uniform = value.uniform};
}

}  // namespace fusecalc
