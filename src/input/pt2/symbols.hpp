#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/pt2/exported_program.hpp"

namespace fusecalc {

// An expression of symbolic sizes, as SymPy prints it: "Mul(Integer(2), Symbol('s0', ...))" or
// "2*s0".
struct SizeExpression {
  enum class Kind : std::uint8_t {
    kNumber,
    kSymbol,
    kSum,
    kProduct,
    kPower,
    kQuotient,  // rounded down
    kMaximum,
    kMinimum,
    kRemainder,
  };

  Kind kind = Kind::kNumber;
  std::int64_t number = 0;
  std::string symbol;
  std::vector<SizeExpression> terms;
};

// Nothing if the text is not understood.
std::optional<SizeExpression> parse_size_expression(std::string_view text);

// The value of a symbol, if it is known.
using SymbolValue = std::function<std::optional<std::int64_t>(const std::string&)>;

// Nothing if a symbol is unknown, or on overflow or division by zero.
std::optional<std::int64_t> value_of(const SizeExpression& expression, const SymbolValue& symbol);

// As an op list writes it: "2*s0". Nothing if an op list has no such operation.
std::optional<std::string> dim_text(const SizeExpression& expression);

// Adds the symbols of an expression, each once.
void collect_symbols(const SizeExpression& expression, std::vector<std::string>& symbols);

// The values of a program's symbols, and of the sizes that depend on them.
class Symbols {
 public:
  // `sizes`: all of the program. A symbol has the value that a dim states, or else that of the
  // exporting run, as far as the sizes tell it, or else the least that its range allows. Throws
  // Error where a stated value is not in the range.
  Symbols(const std::vector<const ProgramInt*>& sizes,
          const std::vector<std::pair<std::string, ProgramRange>>& ranges,
          const std::vector<DimOverride>& dims, const std::string& document);

  // Nothing if the size is not understood and has no value of its own.
  std::optional<std::int64_t> value(const ProgramInt& size);
  std::optional<std::int64_t> value(const std::string& symbol) const;
  // Those of which neither the exporting run nor a dim tells the value, in order.
  const std::vector<std::string>& unstated() const { return unstated_; }

 private:
  std::map<std::string, std::int64_t> values_;
  std::vector<std::string> unstated_;
  std::unordered_map<std::string, std::optional<std::int64_t>> sizes_;  // by expression
};

}  // namespace fusecalc
