#include <fmt/format.h>

#include <set>
#include <string>

#include "compare/compare.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

// Inputs are matched by name, and those whose names differ by their types.
void check_inputs(const ResultDocument& before, const ResultDocument& after,
                  std::vector<std::string>& found) {
  const auto differ = [&](const char* what, const std::string& name, const std::string& now,
                          const std::string& then) {
    if (now == then) return;
    found.push_back(fmt::format("{} of {} is {}, but {} in {}", what, printable(name),
                                now.empty() ? "not recorded" : printable(now), printable(then),
                                before.path));
  };
  std::multiset<InputType> renamed;
  for (const auto& [name, type] : after.inputs) {
    const auto then = before.inputs.find(name);
    if (then == before.inputs.end()) {
      renamed.insert(type);
    } else {
      differ("dtype", name, type.dtype, then->second.dtype);
      differ("shape", name, type.shape, then->second.shape);
    }
  }
  std::size_t replaced = 0;
  for (const auto& [name, type] : before.inputs) {
    if (after.inputs.contains(name)) continue;
    const auto same = renamed.find(type);
    if (same == renamed.end()) {
      ++replaced;
      found.push_back(fmt::format("it has no input {} ({} {}), which {} has", printable(name),
                                  printable(type.dtype), printable(type.shape), before.path));
    } else {
      renamed.erase(same);
    }
  }
  for (const InputType& type : renamed) {
    if (replaced > 0) {
      --replaced;
      continue;
    }
    found.push_back(fmt::format("it has one more input ({} {}) than {}", printable(type.dtype),
                                printable(type.shape), before.path));
  }
}

}  // namespace

std::vector<std::string> mismatches(const ResultDocument& before, const ResultDocument& after) {
  std::vector<std::string> found;
  if (before.schema != after.schema) {
    found.push_back(fmt::format("the schema is {}, but {} has {}", in_quotes(after.schema),
                                before.path, in_quotes(before.schema)));
  }
  const auto differ = [&](const std::string& what, const std::string& now,
                          const std::string& then) {
    found.push_back(fmt::format("{} is {}, but {} in {}", printable(what), printable(now),
                                printable(then), before.path));
  };
  for (const auto& [what, then] : before.conditions) {
    const auto now = after.conditions.find(what);
    if (now == after.conditions.end()) {
      differ(what, "not recorded", then);
    } else if (now->second != then) {
      differ(what, now->second, then);
    }
  }
  for (const auto& [what, now] : after.conditions) {
    if (!before.conditions.contains(what)) differ(what, now, "not recorded");
  }
  check_inputs(before, after, found);
  return found;
}

}  // namespace fusecalc
