#include "input/pt2/symbols.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"

using namespace fusecalc;

namespace {

std::optional<std::int64_t> value(std::string_view text) {
  const auto expression = parse_size_expression(text);
  if (!expression) return std::nullopt;
  return value_of(*expression, [](const std::string& symbol) {
    return symbol == "s0" ? std::optional<std::int64_t>(10) : std::nullopt;
  });
}

Symbols symbols_of(const std::vector<ProgramInt>& sizes,
                   const std::vector<DimOverride>& dims = {}) {
  std::vector<const ProgramInt*> all;
  for (const ProgramInt& size : sizes) all.push_back(&size);
  return {all, {{"s0", {.min = 2, .max = 64}}}, dims, "m.pt2"};
}

}  // namespace

TEST_CASE("sizes: expressions as PyTorch writes them") {
  CHECK(value("Symbol('s0', positive=True, integer=True)") == 10);
  CHECK(value("Mul(Integer(2), Symbol('s0', positive=True, integer=True))") == 20);
  CHECK(value("Add(Symbol('s0', integer=True), Integer(-1))") == 9);
  CHECK(value("FloorDiv(Add(Symbol('s0'), Integer(1)), Integer(4))") == 2);
  CHECK(value("Pow(Symbol('s0'), Integer(2))") == 100);
  CHECK(value("Max(Integer(1), Symbol('s0'), Integer(12))") == 12);
  CHECK(value("Min(Integer(16), Mul(Integer(32), Symbol('s0')))") == 16);
  CHECK(value("Mod(Symbol('s0'), Integer(4))") == 2);
  CHECK(value("PythonMod(Integer(-1), Integer(4))") == 3);
  CHECK(value("2*s0 + 1") == 21);
  CHECK(value("s0//3 - (s0 - 7)*2") == -3);
  CHECK(value("-s0**2") == -100);
}

TEST_CASE("sizes: what has no value") {
  for (const char* text : {"", "s1", "2*", "(s0", "s0)", "Symbol(s0)", "Symbol('", "Unknown(1)",
                           "s0//0", "9223372036854775807*s0", "99999999999999999999", "s0 s0",
                           "Integer(", "Pow(2, 64)", "Pow(2, -1)"}) {
    CAPTURE(text);
    CHECK_FALSE(value(text).has_value());
  }
  CHECK_FALSE(parse_size_expression(std::string(10000, '(')).has_value());
  CHECK_FALSE(parse_size_expression(std::string(10000, '-')).has_value());
}

TEST_CASE("sizes: a symbol's value follows from the sizes that depend on it") {
  CHECK(symbols_of({{.value = 6, .expression = "2*s0"}}).value("s0") == 3);
  CHECK(symbols_of({{.value = 6, .expression = "2*s0"}, {.value = 5, .expression = "s0"}})
            .value("s0") == 5);
  // Without a value of the exporting run: the least that the range allows.
  CHECK(symbols_of({{.value = {}, .expression = "s0"}}).value("s0") == 2);
  Symbols symbols = symbols_of({{.value = 6, .expression = "2*s0"}}, {{"s0", 20}});
  CHECK(symbols.value(ProgramInt{.value = 6, .expression = "2*s0"}) == 40);
  // What is not understood keeps its value.
  CHECK(symbols.value(ProgramInt{.value = 6, .expression = "Unknown(s0)"}) == 6);
  CHECK_FALSE(symbols.value(ProgramInt{.value = {}, .expression = "Unknown(s0)"}).has_value());
}

TEST_CASE("sizes: a value outside of the range that the model was exported for is refused") {
  CHECK_THROWS_WITH_AS(symbols_of({{.value = 6, .expression = "s0"}}, {{"s0", 65}}),
                       "m.pt2: --dim s0=65: the model was exported for 2 to 64", Error);
}
