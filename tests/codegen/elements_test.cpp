#include "codegen/elements.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "codegen/indices.hpp"
#include "codegen/memory_access.hpp"
#include "graph/graph_text.hpp"

namespace fusecalc {
namespace {

using testing::graph_of;

Kernel all_of(const OpGraph& graph) {
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  return all;
}

// A kernel of all ops of a graph, to write blocks of 4 elements for.
struct Written {
  explicit Written(const std::string& text)
      : graph(graph_of(text)), finder(graph), view(graph, finder, all_of(graph)), code(view) {}

  TensorId input(OpId id) const { return graph.ops[id].operands[0].tensor; }
  TensorId output(OpId id) const { return graph.ops[id].outputs[0]; }

  OpGraph graph;
  PhaseFinder finder;
  KernelView view;
  KernelCode code;
  CodeBlock block = block_of(4);
};

constexpr const char* kChain = R"({"format": "fusecalc.ops/1", "dtype": "f32",
    "tensors": {"x": {"shape": [1000]}},
    "ops": [{"op": "add", "inputs": ["x", 1], "output": "a"},
            {"op": "mul", "inputs": ["a", "a"], "output": "y"}]})";

Index element_index() { return {.name = "i", .pattern = LanePattern::kUnit}; }

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

// A mean's gradient is one number for all rows: a read of it at the element's place ends outside.
TEST_CASE("the gradient of a loss's mean reads the loss's gradient at its one place") {
  Written kernel(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"y": {"shape": [64, 1000]}, "one": {"shape": [], "dtype": "f32"},
                  "classes": {"shape": [64], "dtype": "i64"}},
      "ops": [{"op": "nll_loss_backward", "inputs": ["one", "y", "classes"], "output": "m"}]})");
  const Loop loop{.element = element_index()};
  element({kernel.code, loop, kernel.block}, kernel.output(0), loop.element);
  CHECK(count(kernel.block.before, "load_pack") == 0);
  CHECK(count(kernel.block.before, "fetch") == 2);
}

TEST_CASE("narrow integers that another op reads have the low bits of their type") {
  const auto written = [](const std::string& first, const std::string& more = "") {
    Written kernel(R"({"format": "fusecalc.ops/1", "dtype": "u8",
        "tensors": {"x": {"shape": [1000]}, "w": {"shape": [1000], "dtype": "i32"}},
        "ops": [{"op": )" +
                   first + more + "]}");
    const Loop loop{.element = element_index()};
    const OpId last = static_cast<OpId>(kernel.graph.ops.size()) - 1;
    element({kernel.code, loop, kernel.block}, kernel.output(last), loop.element);
    return count(kernel.block.lanes, "wrap_bits<8, false>(i32(");
  };
  const std::string read = R"(, {"op": "cast", "inputs": ["a"], "to": "f32", "output": "y"})";
  CHECK(written(R"("sub", "inputs": ["x", "x"], "output": "a"})", read) == 1);
  CHECK(written(R"("cast", "inputs": ["w"], "to": "u8", "output": "a"})", read) == 1);
  CHECK(written(R"("maximum", "inputs": ["x", 256], "output": "a"})", read) == 1);
  CHECK(written(R"("clamp", "inputs": ["x"], "min": -1, "output": "a"})", read) == 1);
  // Their results are within the range.
  CHECK(written(R"("maximum", "inputs": ["x", 255], "output": "a"})", read) == 0);
  CHECK(written(R"("where", "inputs": ["w", "x", 7], "output": "a"})", read) == 0);
  CHECK(written(R"("bitwise_and", "inputs": ["x", 15], "output": "a"})", read) == 0);
  // The store keeps low bits.
  CHECK(written(R"("sub", "inputs": ["x", "x"], "output": "a"})") == 0);
}

TEST_CASE("a block loads and computes an element once, however often it is used") {
  Written kernel(kChain);
  const Loop loop{.element = element_index()};
  const Value value = element({kernel.code, loop, kernel.block}, kernel.output(1), loop.element);
  CHECK(count(kernel.block.before, "load_pack") == 1);
  CHECK(count(kernel.block.lanes, "\n") == 3);  // x, x + 1 and its square
  CHECK(value.type == ComputeType::kF32);
  CHECK(!value.uniform);
  CHECK(kernel.code.parameters().storages() == std::vector{kernel.input(0)});
}

TEST_CASE("a block records the values that it holds, and a later pass does not read them again") {
  Written kernel(kChain);
  const TensorId x = kernel.input(0);
  Loop loop{.element = element_index()};
  loop.held = {{.tensor = x, .name = "h"}};
  element({kernel.code, loop, kernel.block}, kernel.output(1), loop.element);
  CHECK(kernel.block.held == std::vector{x});
  CHECK(count(kernel.block.before, "load_pack") == 1);

  loop.held[0].ready = true;
  CodeBlock later = block_of(4);
  element({kernel.code, loop, later}, kernel.output(1), loop.element);
  CHECK(later.held.empty());
  CHECK(count(later.before, "load_pack") == 0);
  CHECK(count(later.before, "= h@;") == 1);
}

TEST_CASE("the result of a row is computed once per kernel, ahead of the loop that needs it") {
  Written kernel(R"({"format": "fusecalc.ops/1", "dtype": "f32",
      "tensors": {"x": {"shape": [64, 256]}},
      "ops": [{"op": "sum", "inputs": ["x"], "axes": [1], "keepdims": true, "output": "s"},
              {"op": "div", "inputs": ["x", "s"], "output": "y"}]})");
  Loop loop{.element = element_index()};
  loop.row.index.name = "q";
  element({kernel.code, loop, kernel.block}, kernel.output(1), loop.element);
  CHECK(count(kernel.block.row_results, "[0].sum") == 1);
  CodeBlock later = block_of(4);
  element({kernel.code, loop, later}, kernel.output(1), loop.element);
  CHECK(later.row_results.empty());
}

TEST_CASE("in the loop over a matrix only row numbers are divided") {
  Written kernel(kChain);
  Loop loop{.element = element_index()};
  loop.matrix = MatrixLoop{.rows = 6, .columns = 8};
  const Scope scope{kernel.code, loop, kernel.block};
  const Index bias = mapped(scope, loop.element, broadcast_map({8}, {6, 8}));
  CHECK(bias.pattern == LanePattern::kUnit);
  CHECK(bias.align == 8);
  const Index per_row = mapped(scope, loop.element, broadcast_map({6, 1}, {6, 8}));
  CHECK(per_row.pattern == LanePattern::kUniform);
  // Two matrices of three rows: one element for each.
  const Index per_matrix = mapped(scope, loop.element, broadcast_map({2, 1, 1}, {2, 3, 8}));
  CHECK(per_matrix.pattern == LanePattern::kUniform);
  CHECK(kernel.block.before == "const idx " + bias.name + " = (idx)(0) + column;\nconst idx " +
                                   per_row.name + " = q * 1;\nconst idx " + per_matrix.name +
                                   " = (idx)(q32 / 3);\n");
}

TEST_CASE("pointers are numbered as they are asked for, and const where memory is only read") {
  Written kernel(kChain);
  KernelParameters parameters(kernel.graph);
  CHECK(parameters.output(kernel.output(1)) == "p0");
  CHECK(parameters.input(kernel.input(0)) == "p1");
  CHECK(parameters.input(kernel.input(0)) == "p1");
  CHECK(parameters.declarations() == "f32* p0, const f32* __restrict__ p1");
  CHECK(parameters.members() == "  f32* p0;\n  const f32* p1;\n");
  CHECK(parameters.arguments() == "p0, p1");
}

TEST_CASE("a resolved kernel is unchanged after the finder resolves another") {
  Written kernel(kChain);
  kernel.finder.resolve({0});
  CHECK(kernel.view.contains(1));
  CHECK(!kernel.view.needed_outside(kernel.output(0)));
  CHECK(kernel.view.needed_outside(kernel.output(1)));
  CHECK(kernel.view.makes(kernel.output(0)));
  CHECK(!kernel.view.makes(kernel.input(0)));
}

}  // namespace
}  // namespace fusecalc
