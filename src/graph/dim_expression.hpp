#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fusecalc {

// What an expression of dims needs from its document.
struct DimScope {
  // The value of a dim; throws where there is none.
  std::function<std::int64_t(const std::string&)> dim;
  // Throws an Error at the expression.
  std::function<void(const std::string&)> fail;
};

// Whether the text is more than a name: whether it has an operator or a parenthesis.
bool is_dim_expression(std::string_view text);

// The value of an exact integer expression over dims: + - * / and parentheses, as in "(T+1)*2". A
// division that leaves a rest, and a result of 2^63 or more, are refused.
std::int64_t evaluate_dims(std::string_view text, const DimScope& scope);

}  // namespace fusecalc
