#include "input/pt2/symbols.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <unordered_set>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

using Kind = SizeExpression::Kind;
using Result = std::optional<SizeExpression>;

struct Function {
  std::string_view name;
  Kind kind;
};

constexpr std::array kFunctions = {
    Function{"Add", Kind::kSum},
    Function{"Mul", Kind::kProduct},
    Function{"Pow", Kind::kPower},
    Function{"FloorDiv", Kind::kQuotient},
    Function{"CleanDiv", Kind::kQuotient},
    Function{"Max", Kind::kMaximum},
    Function{"Min", Kind::kMinimum},
    Function{"Mod", Kind::kRemainder},
    Function{"PythonMod", Kind::kRemainder},
};

SizeExpression number_of(std::int64_t value) {
  return {.number = value, .symbol = {}, .terms = {}};
}

SizeExpression combined(Kind kind, std::vector<SizeExpression> terms) {
  return {.kind = kind, .symbol = {}, .terms = std::move(terms)};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Result whole() {
    Result result = sum();
    return result && peek() == '\0' ? result : std::nullopt;
  }

 private:
  // Deeper than any size is written.
  static constexpr int kDeepest = 64;

  char peek() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }

  bool take(std::string_view token) {
    peek();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  Result sum() {
    if (++depth_ > kDeepest) return std::nullopt;
    Result left = product();
    while (left) {
      const bool minus = peek() == '-';
      if (!take("+") && !take("-")) break;
      Result right = product();
      if (!right) return std::nullopt;
      if (minus) right = combined(Kind::kProduct, {number_of(-1), std::move(*right)});
      left = combined(Kind::kSum, {std::move(*left), std::move(*right)});
    }
    --depth_;
    return left;
  }

  Result product() {
    Result left = power();
    while (left) {
      Kind kind = Kind::kProduct;
      if (take("//") || take("/")) {
        kind = Kind::kQuotient;
      } else if (take("%")) {
        kind = Kind::kRemainder;
      } else if (!take("*")) {
        break;
      }
      Result right = power();
      if (!right) return std::nullopt;
      left = combined(kind, {std::move(*left), std::move(*right)});
    }
    return left;
  }

  Result power() {
    if (take("-")) {
      if (++depth_ > kDeepest) return std::nullopt;
      Result negated = power();
      --depth_;
      if (!negated) return std::nullopt;
      return combined(Kind::kProduct, {number_of(-1), std::move(*negated)});
    }
    Result base = atom();
    if (!base || !take("**")) return base;
    Result exponent = atom();
    if (!exponent) return std::nullopt;
    return combined(Kind::kPower, {std::move(*base), std::move(*exponent)});
  }

  Result atom() {
    if (take("(")) {
      Result inner = sum();
      return inner && take(")") ? inner : std::nullopt;
    }
    const std::string_view word = this->word();
    if (word.empty()) return std::nullopt;
    if (word.front() >= '0' && word.front() <= '9') return number(word);
    if (take("(")) return call(word);
    return SizeExpression{.kind = Kind::kSymbol, .symbol = std::string(word), .terms = {}};
  }

  std::string_view word() {
    peek();
    const auto in_word = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    const auto end = std::ranges::find_if_not(rest_, in_word);
    const std::string_view word = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(word.size());
    return word;
  }

  static Result number(std::string_view digits) {
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
    return number_of(value);
  }

  // After the opening parenthesis.
  Result call(std::string_view name) {
    if (name == "Symbol") return symbol();
    if (name == "Integer") {
      Result value = sum();
      return value && take(")") ? value : std::nullopt;
    }
    const auto* function = std::ranges::find(kFunctions, name, &Function::name);
    if (function == kFunctions.end()) return std::nullopt;
    std::vector<SizeExpression> terms;
    do {
      Result term = sum();
      if (!term) return std::nullopt;
      terms.push_back(std::move(*term));
    } while (take(","));
    if (!take(")")) return std::nullopt;
    return combined(function->kind, std::move(terms));
  }

  // 's0', positive=True)
  Result symbol() {
    if (!take("'")) return std::nullopt;
    const std::string name(word());
    const std::size_t end = rest_.find(')');
    if (name.empty() || !take("'") || end == std::string_view::npos) return std::nullopt;
    rest_.remove_prefix(end);  // one for the quote, less the parenthesis
    return SizeExpression{.kind = Kind::kSymbol, .symbol = name, .terms = {}};
  }

  std::string_view rest_;
  int depth_ = 0;
};

std::optional<std::int64_t> raised(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 62) return std::nullopt;
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

std::optional<std::int64_t> divided(std::int64_t a, std::int64_t b) {
  if (b <= 0) return std::nullopt;
  return a / b - (a % b < 0 ? 1 : 0);
}

std::optional<std::int64_t> apply(Kind kind, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (kind) {
    case Kind::kSum:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::kProduct:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::kPower: return raised(a, b);
    case Kind::kQuotient: return divided(a, b);
    case Kind::kMaximum: return std::max(a, b);
    case Kind::kMinimum: return std::min(a, b);
    case Kind::kRemainder: {
      const auto quotient = divided(a, b);
      return quotient ? std::optional(a - *quotient * b) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

std::optional<std::string> joined(const SizeExpression& expression, char sign) {
  std::string text;
  for (const SizeExpression& term : expression.terms) {
    const std::optional<std::string> part = dim_text(term);
    if (!part) return std::nullopt;
    const bool minus = sign == '+' && term.kind == Kind::kNumber && term.number < 0;
    if (!text.empty() && !minus) text += sign;
    if (minus) {
      text += *part;
      continue;
    }
    const bool plain =
        term.kind == Kind::kSymbol || (term.kind == Kind::kNumber && term.number >= 0);
    text += plain ? *part : "(" + *part + ")";
  }
  return text;
}

}  // namespace

std::optional<SizeExpression> parse_size_expression(std::string_view text) {
  return Parser(text).whole();
}

std::optional<std::int64_t> value_of(const SizeExpression& expression, const SymbolValue& symbol) {
  if (expression.kind == Kind::kNumber) return expression.number;
  if (expression.kind == Kind::kSymbol) return symbol(expression.symbol);
  std::optional<std::int64_t> result;
  for (const SizeExpression& term : expression.terms) {
    const std::optional<std::int64_t> value = value_of(term, symbol);
    if (!value) return std::nullopt;
    result = result ? apply(expression.kind, *result, *value) : value;
    if (!result) return std::nullopt;
  }
  return result;
}

std::optional<std::string> dim_text(const SizeExpression& expression) {
  switch (expression.kind) {
    case Kind::kNumber: return std::to_string(expression.number);
    case Kind::kSymbol: return expression.symbol;
    case Kind::kSum: return joined(expression, '+');
    case Kind::kProduct: return joined(expression, '*');
    case Kind::kQuotient: return joined(expression, '/');
    default: return std::nullopt;
  }
}

void collect_symbols(const SizeExpression& expression, std::vector<std::string>& symbols) {
  const bool symbol = expression.kind == Kind::kSymbol;
  if (symbol && std::ranges::find(symbols, expression.symbol) == symbols.end()) {
    symbols.push_back(expression.symbol);
  }
  for (const SizeExpression& term : expression.terms) collect_symbols(term, symbols);
}

namespace {

// A size of one symbol, and its value in the exporting run.
struct Equation {
  SizeExpression expression;
  std::int64_t value = 0;
};

// The symbol's value: sizes grow with their symbols, so the smallest that fits is the right one.
std::optional<std::int64_t> solution(const std::vector<Equation>& equations) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20U;
  for (const Equation& equation : equations) {
    if (equation.expression.kind == Kind::kSymbol) return equation.value;
  }
  const Equation& equation = equations.front();
  for (std::int64_t value = 0; value <= kMost; ++value) {
    const auto symbol = [&](const std::string&) { return std::optional(value); };
    if (value_of(equation.expression, symbol) == equation.value) return value;
  }
  return std::nullopt;
}

void check_range(const std::string& symbol, std::int64_t value, const ProgramRange& range,
                 const std::string& document) {
  const std::int64_t least = range.min.value_or(0);
  const std::int64_t most = range.max.value_or(std::numeric_limits<std::int64_t>::max());
  if (value >= least && value <= most) return;
  throw Error(Fault::kBadInput, fmt::format("{}: --dim {}={}: the model was exported for {} to {}",
                                            document, printable(symbol), value, least, most));
}

}  // namespace

Symbols::Symbols(const std::vector<const ProgramInt*>& sizes,
                 const std::vector<std::pair<std::string, ProgramRange>>& ranges,
                 const std::vector<DimOverride>& dims, const std::string& document) {
  std::map<std::string, std::vector<Equation>> equations;
  std::unordered_set<std::string_view> seen;
  for (const ProgramInt* size : sizes) {
    if (size->expression.empty() || !seen.insert(size->expression).second) continue;
    std::optional<SizeExpression> expression = parse_size_expression(size->expression);
    if (!expression) continue;
    std::vector<std::string> symbols;
    collect_symbols(*expression, symbols);
    for (const std::string& symbol : symbols) values_.emplace(symbol, 1);
    if (symbols.size() != 1 || !size->value) continue;
    equations[symbols.front()].push_back({std::move(*expression), *size->value});
  }
  for (auto& [symbol, value] : values_) {
    const auto range =
        std::ranges::find(ranges, symbol, [](const auto& entry) { return entry.first; });
    if (range != ranges.end()) value = std::max<std::int64_t>(1, range->second.min.value_or(1));
    const auto known = equations.find(symbol);
    const std::optional<std::int64_t> solved =
        known == equations.end() ? std::nullopt : solution(known->second);
    value = solved.value_or(value);
    const auto stated = std::ranges::find(dims, symbol, &DimOverride::name);
    if (stated == dims.end() && !solved) unstated_.push_back(symbol);
    if (stated == dims.end()) continue;
    value = static_cast<std::int64_t>(stated->extent);
    if (range != ranges.end()) check_range(symbol, value, range->second, document);
  }
}

std::optional<std::int64_t> Symbols::value(const std::string& symbol) const {
  const auto found = values_.find(symbol);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> Symbols::value(const ProgramInt& size) {
  if (size.expression.empty()) return size.value;
  const auto [entry, inserted] = sizes_.emplace(size.expression, std::nullopt);
  if (inserted) {
    const std::optional<SizeExpression> expression = parse_size_expression(size.expression);
    if (expression) {
      entry->second =
          value_of(*expression, [&](const std::string& symbol) { return value(symbol); });
    }
  }
  return entry->second ? entry->second : size.value;
}

}  // namespace fusecalc
