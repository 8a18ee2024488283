// What a drawing tells, and what it leaves out.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "support/invocation.hpp"

using fusecalc::testing::invoke;
using fusecalc::testing::Outcome;

namespace {

std::string drawn(const std::string& list, const std::string& format) {
  const Outcome outcome = invoke({"analyze", "-", "-f", format}).input(list).outcome();
  CHECK(outcome.exit_code == 0);
  return outcome.out;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// 4 MB through h, which two kernels read; w and b are a thousand times smaller.
constexpr std::string_view kList = R"({"name": "fan \"out\"", "dtype": "f32",
  "tensors": {"x": {"shape": [1024, 1024]}, "w": {"shape": [1024]}, "b": {"shape": [512]}},
  "ops": [{"name": "first", "op": "mul", "inputs": ["x", "w"], "output": "h"},
          {"name": "rows", "op": "matmul", "inputs": ["h", "x"], "output": "p"},
          {"name": "columns", "op": "matmul", "inputs": ["x", "h"], "output": "q"},
          {"name": "half", "op": "relu", "inputs": ["b"], "output": "c"}]})";

// A chain of so many products, which no plan fuses.
std::string chain(int ops) {
  std::string list = R"({"tensors": {"t0": {"shape": [64, 64]}}, "ops": [)";
  for (int i = 0; i < ops; ++i) {
    list += fmt::format(R"({}{{"op": "matmul", "inputs": ["t{}", "t{}"], "output": "t{}"}})",
                        i == 0 ? "" : ",", i, i, i + 1);
  }
  return list + "]}";
}

}  // namespace

TEST_CASE("drawings: a title, and each size once") {
  for (const std::string format : {"dot", "mermaid"}) {
    CAPTURE(format);
    const std::string text = drawn(std::string(kList), format);
    CHECK(count(text, ": auto, 4 kernels, ") == 1);
    CHECK(count(text, "h (4.194 MB)") == 1);
    CHECK(count(text, "x (4.194 MB)") == 1);
    CHECK(count(text, "p (4.194 MB)") == 1);
  }
}

TEST_CASE("drawings: names alone are shortened, what is told behind them stays") {
  const std::string name(100, 'n');
  const std::string list = R"({"name": ")" + name + R"(", "tensors": {")" + name +
                           R"(": {"shape": [1000]}}, "ops": [{"op": "relu", "inputs": [")" + name +
                           R"("], "output": "y"}]})";
  for (const std::string format : {"dot", "mermaid"}) {
    CAPTURE(format);
    const std::string text = drawn(list, format);
    CHECK(count(text, "n...: auto, 1 kernel, 8.000 kB, ") == 1);
    CHECK(count(text, " on h200\"") == 1);
    CHECK(count(text, "n... (4.000 kB)") == 1);
    CHECK(count(text, name) == 0);
  }
}

TEST_CASE("drawings: small tensors are named at their op, and have no node") {
  const std::string dot = drawn(std::string(kList), "dot");
  CHECK(count(dot, "first\\nmul\\n+ w (4.096 kB)") == 1);
  CHECK(count(dot, "[shape=ellipse, label=\"w") == 0);
  CHECK(count(drawn(std::string(kList), "mermaid"), "first: mul<br>+ w (4.096 kB)") == 1);
}

TEST_CASE("drawings: lines are as wide as the square root of the bytes") {
  const std::string dot = drawn(std::string(kList), "dot");
  CHECK(count(dot, "penwidth=8.0") == 7);  // x three times, h twice, p, q
  CHECK(count(dot, "penwidth=1.2") == 1);  // c, of 2 kB
  CHECK(count(drawn(std::string(kList), "mermaid"), "stroke-width:8.0px") == 7);
}

TEST_CASE("drawings: what Mermaid would not draw is refused with its limit") {
  CHECK(drawn(chain(200), "mermaid").find("flowchart TD") != std::string::npos);
  const Outcome outcome = invoke({"analyze", "-", "-f", "mermaid"}).input(chain(600)).outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("too large for Mermaid, which draws 500 edges and 50,000 characters at "
                         "most (here: 601 and ") != std::string::npos);
  CHECK(outcome.err.find("; use dot or html\n") != std::string::npos);
  CHECK(drawn(chain(600), "dot").size() > 50'000);
}
