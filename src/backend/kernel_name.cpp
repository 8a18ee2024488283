#include "backend/kernel_name.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace fusecalc {
namespace {

// The parameters of a function are the last pair of parentheses outside of angle brackets, which
// "(anonymous namespace)::" and "(int)4" are not.
std::string_view without_parameters(std::string_view name) {
  if (name.ends_with(" const")) name.remove_suffix(6);
  if (!name.ends_with(')')) return name;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return i == 0 ? name : name.substr(0, i);
  }
  return name;
}

// Where the last part of a qualified name begins, outside of its template arguments.
std::size_t start_of_last_part(std::string_view name) {
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(') ++depth;
    if (name[i] == '>' || name[i] == ')') --depth;
    if (depth != 0) continue;
    if (name[i] == ' ') start = i + 1;
    if (name[i] == ':' && i > 0 && name[i - 1] == ':') start = i + 1;
  }
  return start;
}

}  // namespace

std::string demangled(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? text.get() : symbol;
}

std::string short_kernel_name(std::string_view name) {
  constexpr std::size_t kMostArguments = 60;
  const std::string_view whole = without_parameters(name);
  const std::string_view last = whole.substr(start_of_last_part(whole));
  const std::size_t arguments = last.find('<');
  if (arguments == std::string_view::npos || last.size() - arguments <= kMostArguments) {
    return std::string(last);
  }
  return std::string(last.substr(0, arguments + kMostArguments)) + "...>";
}

}  // namespace fusecalc
