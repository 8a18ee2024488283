#include "codegen/scope.hpp"

#include <fmt/format.h>

namespace fusecalc {

std::string KernelCode::fresh(std::string_view prefix) {
  return fmt::format("{}{}", prefix, ++names_);
}

std::string KernelCode::accumulator(OpId id) {
  std::string& name = accumulators_[id];
  if (name.empty()) name = fresh("s");
  return name;
}

Value Scope::define(ComputeType type, const std::string& text, bool uniform) const {
  const std::string name = fresh("v");
  std::string& code = uniform ? block.before : block.lanes;
  code += fmt::format("const {} {} = {};\n", name_of(type), name, text);
  return {.text = name, .type = type, .uniform = uniform};
}

Value Scope::define_term(const std::string& text) const {
  const std::string& name = block.terms.names.emplace_back(fresh("t"));
  block.terms.lanes += fmt::format("{}[j] = {};\n", name, text);
  return {.text = name + "[j]", .type = ComputeType::kF32, .of_column = true};
}

Index Scope::define_index(const std::string& text, LanePattern pattern, bool aligned) const {
  Index result{.name = fresh("e"), .pattern = pattern, .aligned = aligned, .path = std::nullopt};
  std::string& code = pattern == LanePattern::kScattered ? block.lanes : block.before;
  code += fmt::format("const idx {} = {};\n", result.name, text);
  return result;
}

}  // namespace fusecalc
