#include "plan/plan_kind.hpp"

#include <algorithm>
#include <cassert>

namespace fusecalc {

std::string_view name_of(PlanKind kind) { return kPlanWords[static_cast<std::size_t>(kind)].name; }

std::span<const std::string_view> plan_names() {
  static const std::array names = [] {
    std::array<std::string_view, kPlanWords.size()> all;
    std::ranges::transform(kPlanWords, all.begin(), &PlanWords::name);
    return all;
  }();
  return names;
}

PlanKind plan_named(std::string_view name) {
  const auto* found = std::ranges::find(kPlanWords, name, &PlanWords::name);
  assert(found != kPlanWords.end());
  return found->kind;
}

}  // namespace fusecalc
