#include "graph/dim_expression.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "core/text.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kOperators = "+-*/()";

class Evaluator {
 public:
  Evaluator(std::string_view text, const DimScope& scope)
      : text_(text), rest_(text), scope_(scope) {}

  std::int64_t whole() {
    const std::int64_t value = sum();
    if (peek() != '\0') fail(fmt::format("{} is left over", in_quotes(rest_)));
    return value;
  }

 private:
  static constexpr int kDeepest = 64;

  [[noreturn]] void fail(const std::string& what) const {
    scope_.fail(fmt::format("{} is not an expression of dims: {}", in_quotes(text_), what));
    __builtin_unreachable();
  }

  char peek() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }

  bool take(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::int64_t sum() {
    std::int64_t value = product();
    while (true) {
      bool overflow = false;
      if (take('+')) {
        overflow = __builtin_add_overflow(value, product(), &value);
      } else if (take('-')) {
        overflow = __builtin_sub_overflow(value, product(), &value);
      } else {
        return value;
      }
      if (overflow) fail_large();
    }
  }

  std::int64_t product() {
    std::int64_t value = factor();
    while (true) {
      if (take('*')) {
        if (__builtin_mul_overflow(value, factor(), &value)) fail_large();
      } else if (take('/')) {
        value = quotient(value, factor());
      } else {
        return value;
      }
    }
  }

  std::int64_t quotient(std::int64_t a, std::int64_t b) const {
    if (b == 0) fail("it divides by 0");
    if (b == -1) return negative(a);
    if (a % b != 0) fail(fmt::format("{} / {} leaves a rest", a, b));
    return a / b;
  }

  // The smallest number has no positive counterpart.
  std::int64_t negative(std::int64_t value) const {
    if (value == std::numeric_limits<std::int64_t>::min()) fail_large();
    return -value;
  }

  [[noreturn]] void fail_large() const { fail("a result is 2^63 or more"); }

  std::int64_t factor() {
    if (++depth_ > kDeepest) fail(fmt::format("it is nested more than {} deep", kDeepest));
    std::int64_t value = 0;
    if (take('-')) {
      value = negative(factor());
    } else if (take('(')) {
      value = sum();
      if (!take(')')) fail("a parenthesis is not closed");
    } else {
      value = word();
    }
    --depth_;
    return value;
  }

  // A number or a dim.
  std::int64_t word() {
    peek();
    std::string_view word = rest_.substr(0, rest_.find_first_of(kOperators));
    rest_.remove_prefix(word.size());
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (word.empty()) fail("a dim or a number is missing");
    if (word.find_first_not_of("0123456789") != std::string_view::npos) {
      return scope_.dim(std::string(word));
    }
    std::int64_t value = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
    if (parsed.ec != std::errc{}) fail_large();
    return value;
  }

  std::string_view text_;
  std::string_view rest_;
  const DimScope& scope_;
  int depth_ = 0;
};

}  // namespace

bool is_dim_expression(std::string_view text) {
  return text.find_first_of(kOperators) != std::string_view::npos;
}

std::int64_t evaluate_dims(std::string_view text, const DimScope& scope) {
  return Evaluator(text, scope).whole();
}

}  // namespace fusecalc
