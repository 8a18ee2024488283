#include "graph/dim_expression.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

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

TEST_CASE("dims: a dim may be an expression of others, in any order") {
  const char* text = R"({"dims": {"D": "H*P", "H": 32, "P": "Q", "Q": 128, "F": "4*D/(H/8) "},
      "tensors": {"x": {"shape": ["D", "F"]}},
      "ops": [{"op": "relu", "inputs": ["x"], "output": "y"}]})";
  CHECK(graph_of(text).tensors[0].type.shape == Shape{4096, 4096});
  // What depends on a dim that is set follows it; a dim that is set stands, whatever it was.
  CHECK(graph_of(text, {{"H", 16}}).tensors[0].type.shape == Shape{2048, 4096});
  CHECK(graph_of(text, {{"D", 64}}).tensors[0].type.shape == Shape{64, 64});
  CHECK(graph_of(text).dims == std::vector<std::pair<std::string, std::uint64_t>>{
                                   {"D", 4096}, {"H", 32}, {"P", 128}, {"Q", 128}, {"F", 4096}});
}

TEST_CASE("dims: what is wrong with a dim that is an expression") {
  const auto fault_of_dims = [](const std::string& dims) {
    return fault_of(R"({"dims": )" + dims + R"(, "ops": []})");
  };
  CHECK(fault_of_dims(R"({"A": "B+1", "B": "A"})") == "/dims/A: it depends on itself");
  CHECK(fault_of_dims(R"({"A": "A"})") == "/dims/A: it depends on itself");
  CHECK(fault_of_dims(R"({"Heads": 4, "D": "heads*2"})") ==
        "/dims/D: unknown dim \"heads\" (did you mean \"Heads\"?)");
  CHECK(fault_of_dims(R"({"A": 4, "B": "A-5"})") == "/dims/B: \"A-5\" is -1");
  CHECK(fault_of_dims(R"({"A": 5, "B": "A/2"})") ==
        "/dims/B: \"A/2\" is not an expression of dims: 5 / 2 leaves a rest");
  CHECK(fault_of_dims(R"({"A": "8"})") ==
        "/dims/A: unknown dim \"8\"; write numbers without quotes");
  CHECK(fault_of_dims(R"({"A": "8*"})") ==
        "/dims/A: \"8*\" is not an expression of dims: a dim or a number is missing");
  // Each dim needs the next one: too deep to follow.
  std::string chain = "{";
  for (int i = 0; i < 100000; ++i) {
    chain += fmt::format(R"("d{}": "d{}+1", )", i, i + 1);
  }
  CHECK(fault_of_dims(chain + R"("d100000": 1})") ==
        "/dims/d32: more than 32 dims depend on each other");
}
