// Any text, taken for an expression of dims, has a value or is refused; parentheses around it and
// dims that stand for it change neither.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "graph/dim_expression.hpp"

using namespace fusecalc;

namespace {

struct Refused {};

std::optional<std::int64_t> value_of(std::string_view text, std::int64_t whole) {
  const DimScope scope{.dim = [&](const std::string& name) -> std::int64_t {
                         if (name == "T") return 4096;
                         if (name == "most") return INT64_MAX;
                         if (name == "none") return 0;
                         if (name == "whole") return whole;
                         throw Refused();
                       },
                       .fail = [](const std::string&) { throw Refused(); }};
  try {
    return evaluate_dims(text, scope);
  } catch (const Refused&) {
    return std::nullopt;
  }
}

void require(bool holds, std::string_view what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "dims_fuzzer: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(text.size()), text.data());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::optional<std::int64_t> value = value_of(text, 1);
  // A name that is not a dim is refused by its document, here "whole" alone among those it may be.
  if (text.find("whole") != std::string::npos) return 0;
  if (!value) return 0;
  for (const char* same : {"whole + 0", "whole * 1", "(whole)", "whole / 1"}) {
    require(value_of(same, *value) == value, same, text);
  }
  const std::optional<std::int64_t> inside = value_of("(" + text + ")", 1);
  require(!inside || *inside == *value, "has another value in parentheses", text);
  return 0;
}
