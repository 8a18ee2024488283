// How concat finds the part that has an element.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

std::string source(std::string_view tensors, std::string_view ops) {
  const OpGraph graph =
      graph_of(fmt::format(R"({{"tensors": {{{}}}, "ops": [{}]}})", tensors, ops));
  const Device& device = known_devices().front();
  TrafficCounter counter(graph, device);
  Kernel kernel;
  for (OpId id = 0; id < graph.ops.size(); ++id) kernel.push_back(id);
  const std::string text = generate(counter, kernel, device).source.text;
  return text.substr(text.rfind("typedef"));
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

TEST_CASE("parts in memory are selected by address, and one is read") {
  const std::string concat = R"({"op": "concat", "inputs": ["a", "b", "c"], "output": "y"})";
  // Groups of 4 lie in one part.
  const std::string whole = source(
      R"("a": {"shape": [1, 64]}, "b": {"shape": [2, 64]}, "c": {"shape": [5, 64]})", concat);
  CHECK(count(whole, "load_pack") == 1);
  CHECK(count(whole, "fetch(") == 0);
  CHECK(count(whole, "if (i >= ") == 2);
  // Here they do not: each lane selects.
  const std::string odd =
      source(R"("a": {"shape": [3]}, "b": {"shape": [7]}, "c": {"shape": [54]})", concat);
  CHECK(count(odd, "load_pack") == 0);
  CHECK(count(odd, "fetch(") == 1);
}

TEST_CASE(
    "parts of several types, of half bytes, in another order or computed are selected by value") {
  const auto reads = [](std::string_view tensors, std::string_view ops) {
    const std::string text = source(tensors, ops);
    return count(text, "load_pack") + count(text, "load_nibbles") + count(text, "fetch(");
  };
  const std::string_view concat = R"({"op": "concat", "inputs": ["a", "b"], "output": "y"})";
  CHECK(reads(R"("a": {"shape": [64]}, "b": {"shape": [64], "dtype": "f16"})", concat) == 2);
  CHECK(reads(R"("a": {"shape": [64]}, "x": {"shape": [64]})",
              fmt::format(R"({{"op": "exp", "inputs": ["x"], "output": "b"}}, {})", concat)) == 2);
  CHECK(reads(R"("a": {"shape": [8, 16]}, "x": {"shape": [16, 8]})",
              fmt::format(R"({{"op": "permute_view", "inputs": ["x"], "output": "b"}}, {})",
                          concat)) == 2);
}
