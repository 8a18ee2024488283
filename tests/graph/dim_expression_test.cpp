#include "graph/dim_expression.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "graph/graph_text.hpp"

using namespace fusecalc;
using fusecalc::testing::fault_of;
using fusecalc::testing::graph_of;

namespace {

std::int64_t value(std::string_view text) {
  const DimScope scope{
      .dim = [](const std::string& name) -> std::int64_t {
        if (name == "T") return 10;
        if (name == "D.in") return 6;
        throw std::runtime_error("unknown " + name);
      },
      .fail = [](const std::string& message) { throw std::runtime_error(message); }};
  return evaluate_dims(text, scope);
}

std::string fault(std::string_view text) {
  try {
    return "no fault: " + std::to_string(value(text));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("dims: expressions are exact") {
  CHECK(value("T*2") == 20);
  CHECK(value("(T+1)*2") == 22);
  CHECK(value(" T + 1 * 2 ") == 12);
  CHECK(value("T-3-2") == 5);
  CHECK(value("60/D.in/5") == 2);
  CHECK(value("T+-1") == 9);
  CHECK(value("-(T-20)") == 10);
  CHECK(value("2*(3)") == 6);
  CHECK(value("9223372036854775807+0") == 9223372036854775807);
}

TEST_CASE("dims: what is wrong with an expression") {
  CHECK(fault("T/3") == "\"T/3\" is not an expression of dims: 10 / 3 leaves a rest");
  CHECK(fault("T/0") == "\"T/0\" is not an expression of dims: it divides by 0");
  CHECK(fault("T*") == "\"T*\" is not an expression of dims: a dim or a number is missing");
  CHECK(fault("(T") == "\"(T\" is not an expression of dims: a parenthesis is not closed");
  CHECK(fault("T)") == "\"T)\" is not an expression of dims: \")\" is left over");
  CHECK(fault("T(2)") == "\"T(2)\" is not an expression of dims: \"(2)\" is left over");
  CHECK(fault("x+1") == "unknown x");
  CHECK(fault("9223372036854775807*T").ends_with("a result is 2^63 or more"));
  CHECK(fault("9223372036854775808+0").ends_with("a result is 2^63 or more"));
  CHECK(fault(std::string(1000, '(')).ends_with("it is nested more than 64 deep"));
  CHECK(fault(std::string(1000, '-')).ends_with("it is nested more than 64 deep"));
}

TEST_CASE("dims: expressions in shapes and attributes follow --dim") {
  const char* text = R"({"dims": {"T": 8}, "tensors": {"x": {"shape": ["T*2", "(T+1)*2"]}},
      "ops": [{"op": "reshape", "inputs": ["x"], "output": "y", "shape": ["(T+1)*T", 4]},
              {"op": "relu", "inputs": ["y"], "output": "z"}]})";
  CHECK(graph_of(text).tensors[0].type.shape == Shape{16, 18});
  CHECK(graph_of(text, {{"T", 2}}).tensors[0].type.shape == Shape{4, 6});
  CHECK(fault_of(R"({"dims": {"T": 8}, "tensors": {"x": {"shape": ["T/3"]}},
      "ops": [{"op": "relu", "inputs": ["x"], "output": "y"}]})") ==
        "/tensors/x/shape/0: \"T/3\" is not an expression of dims: 8 / 3 leaves a rest");
  CHECK(fault_of(R"({"dims": {"T": 8}, "tensors": {"x": {"shape": ["T-9"]}},
      "ops": [{"op": "relu", "inputs": ["x"], "output": "y"}]})") ==
        "/tensors/x/shape/0: must not be negative, but is -1");
}
