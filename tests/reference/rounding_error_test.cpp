#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "graph/graph_text.hpp"
#include "measure/inputs.hpp"
#include "reference/reference.hpp"
#include "support/results.hpp"

namespace fusecalc {
namespace {

using testing::Given;
using testing::graph_of;
using testing::id_of;

constexpr std::array<std::uint64_t, 1> kFirst = {0};

TEST_CASE("the rounding error covers all roundings up to a result") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [1000]}, "y": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", "y"], "output": "s"},
            {"op": "sub", "inputs": ["s", "x"], "output": "d"},
            {"op": "neg", "inputs": ["x"], "output": "n"},
            {"op": "lt", "inputs": ["d", "y"], "output": "less"},
            {"op": "lt", "inputs": ["x", "y"], "output": "certain"}]})");
  const auto inputs = random_inputs(graph, 0);
  const Reference reference(graph, inputs);
  std::vector<std::uint64_t> all(1000);
  for (std::uint64_t i = 0; i < 1000; ++i) all[i] = i;
  const auto spreads = [&](std::string_view name) {
    return reference.evaluate(id_of(graph, name), all).elements;
  };
  // s is off by up to 2^-8 of itself, and d by that however small it is. (A few sums are as large
  // as an input, which bf16 holds.) What is but negated, or compared unrounded, is exact.
  const auto s = spreads("s");
  const auto d = spreads("d");
  std::size_t wide = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    CHECK(s[i].rounding_error <= std::abs(s[i].value) * 0x1p-6 + 1e-30);
    const double least = std::abs(s[i].value) * 0x1p-9;
    if (s[i].rounding_error >= least && d[i].rounding_error >= least) ++wide;
  }
  CHECK(wide > 990);
  CHECK(std::ranges::all_of(spreads("n"), [](const Expected& e) { return e.rounding_error == 0; }));
  CHECK(std::ranges::all_of(spreads("certain"),
                            [](const Expected& e) { return e.rounding_error == 0; }));
  // d is y, but for rounding: it may come out on either side.
  CHECK(std::ranges::count_if(spreads("less"),
                              [](const Expected& e) { return e.rounding_error > 0; }) > 990);
}

TEST_CASE("a mean of equal terms has rounding errors, an element that is chosen has none") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "max", "inputs": ["x"], "output": "m", "keepdim": true},
            {"op": "maximum", "inputs": ["x", "m"], "output": "equal"},
            {"op": "mean", "inputs": ["equal"], "output": "mean"},
            {"op": "slice", "inputs": ["x"], "output": "one", "end": 1},
            {"op": "sum", "inputs": ["one"], "output": "sum"}]})");
  const auto inputs = random_inputs(graph, 0);
  const Reference reference(graph, inputs);
  const auto expected = [&](std::string_view name) {
    return reference.evaluate(id_of(graph, name), kFirst).elements[0];
  };
  CHECK(expected("m").rounding_error == 0);
  CHECK(expected("mean").value == doctest::Approx(expected("m").value));
  CHECK(expected("mean").rounding_error > std::abs(expected("m").value) * 0x1p-24);
  CHECK(expected("sum").rounding_error == 0);
}

TEST_CASE("sums of products of 8-bit floats may be off by what tensor cores cut off") {
  constexpr std::size_t kTerms = 4096;
  const std::vector<std::int64_t> ones(kTerms, 1);
  std::vector<std::int64_t> signs(kTerms, 1);
  for (std::size_t i = 0; i < kTerms; i += 2) signs[i] = -1;
  const auto spread = [&](const char* dtype) {
    const Given given(fmt::format(R"({{"tensors": {{"x": {{"shape": [1, {0}], "dtype": "{1}"}},
                                               "w": {{"shape": [{0}, 1], "dtype": "{1}"}},
                                               "y": {{"shape": [1, 1], "dtype": "bf16"}}}},
        "ops": [{{"op": "matmul", "inputs": ["x", "w"], "output": "y"}}]}})",
                                  kTerms, dtype),
                      {{"x", ones}, {"w", signs}});
    const Reference reference(given.graph, given.inputs);
    const Expected y = reference.evaluate(id_of(given.graph, "y"), kFirst).elements[0];
    CHECK(y.value == 0);
    return y.rounding_error;
  };
  // 128 times 32 products, each off by 2^-14 of a sum of about 64.
  CHECK(spread("fp8_e4m3") > 0.1);
  CHECK(spread("fp8_e4m3") < 2);
  CHECK(spread("bf16") < 0.05);
}

TEST_CASE(
    "a mean of too many terms is estimated, and its rounding error includes the sampling error") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1",
    "tensors": {"x": {"shape": [20000, 50]}, "t": {"shape": [20000], "dtype": "i64"}},
    "ops": [{"op": "cross_entropy", "inputs": ["x", "t"], "output": "loss"},
            {"op": "exp", "inputs": ["x"], "output": "e"},
            {"op": "sum", "inputs": ["e"], "output": "total"},
            {"op": "max", "inputs": ["x"], "output": "most"}]})");
  const auto inputs = random_inputs(graph, 0);
  const Reference reference(graph, inputs);
  const auto answer = [&](std::string_view name, std::uint64_t work) {
    return reference.evaluate(id_of(graph, name), kFirst, work);
  };
  constexpr std::uint64_t kLittle = 1'000'000;
  for (const std::string_view name : {"loss", "total"}) {
    CAPTURE(name);
    const Answer all = answer(name, kReferenceWork);
    const Answer some = answer(name, kLittle);
    CHECK_FALSE(all.estimated);
    CHECK(some.estimated);
    const double error = some.elements[0].value - all.elements[0].value;
    CHECK(error != 0);
    CHECK(std::abs(error) < 3 * some.elements[0].rounding_error);
    CHECK(some.elements[0].rounding_error < 0.1 * all.elements[0].value);
  }
  // A maximum of a sample says nothing about the other elements.
  CHECK(answer("most", kLittle).reason.starts_with("too much work"));
}

}  // namespace
}  // namespace fusecalc
