// Plans of graphs with thousands of ops: what they look like, not how long they take.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph_text.hpp"
#include "plan/partition.hpp"
#include "planner/plans.hpp"
#include "support/sanitizers.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

struct Plans {
  std::vector<Kernel> compiler;
  std::vector<Kernel> best;
};

Plans plans_of(const OpGraph& graph) {
  PlanMaker maker(graph, known_devices().front());
  Plans plans{maker.compiler_partition().kernels, maker.auto_partition().kernels};
  for (const std::vector<Kernel>& kernels : {plans.compiler, plans.best}) {
    REQUIRE(is_partition(graph, kernels));
    REQUIRE(can_run(orders_of(graph), kernels));
  }
  return plans;
}

// Decoder blocks of 20 ops, each on the result of the one before.
std::string blocks(std::size_t count) {
  std::vector<std::string> tensors = {R"("x0": {"shape": [2048, 1024]}, "g": {"shape": [1024]})"};
  std::vector<std::string> ops;
  for (std::size_t b = 0; b < count; ++b) {
    // One head of 128 elements.
    for (const std::string_view weight : {"q", "k", "v"}) {
      tensors.push_back(fmt::format(R"("w{}{}": {{"shape": [128, 1024]}})", weight, b));
    }
    tensors.push_back(
        fmt::format(R"("wo{0}": {{"shape": [1024, 128]}}, "wg{0}": {{"shape": [4096, 1024]}},
      "wu{0}": {{"shape": [4096, 1024]}}, "wd{0}": {{"shape": [1024, 4096]}})",
                    b));
    constexpr std::string_view kRow = R"(, "axis": -1, "keepdim": true)";
    const auto op = [&](std::string_view kind, std::vector<std::string> inputs,
                        std::string_view output, std::string_view more = "") {
      std::vector<std::string> names;
      for (const std::string& input : inputs) {
        names.push_back(input == "g" || input.starts_with("0.") ? input
                                                                : input + std::to_string(b));
        if (!names.back().starts_with("0.")) names.back() = "\"" + names.back() + "\"";
      }
      const std::size_t made_in = output == "x" ? b + 1 : b;
      ops.push_back(fmt::format(R"({{"op": "{}", "inputs": [{}], "output": "{}{}"{}}})", kind,
                                fmt::join(names, ", "), output, made_in, more));
    };
    op("rms_norm", {"x", "g"}, "h");
    op("linear", {"h", "wq"}, "q");
    op("linear", {"h", "wk"}, "k");
    op("linear", {"h", "wv"}, "v");
    op("matmul", {"q", "k"}, "s", R"(, "transpose_b": true)");
    op("mul", {"s", "0.03"}, "t");
    op("max", {"t"}, "m", kRow);
    op("sub", {"t", "m"}, "d");
    op("exp", {"d"}, "e");
    op("sum", {"e"}, "n", kRow);
    op("div", {"e", "n"}, "p");
    op("matmul", {"p", "v"}, "a");
    op("linear", {"a", "wo"}, "b");
    op("add", {"b", "x"}, "r");
    op("rms_norm", {"r", "g"}, "f");
    op("linear", {"f", "wg"}, "l");
    op("silu", {"l"}, "i");
    op("linear", {"f", "wu"}, "u");
    op("mul", {"u", "i"}, "c");
    op("linear", {"c", "wd"}, "y");
    op("add", {"y", "r"}, "x");
  }
  return fmt::format(R"({{"tensors": {{{}}}, "ops": [{}]}})", fmt::join(tensors, ", "),
                     fmt::join(ops, ",\n"));
}

// Ops 0, 1, 2... on x, or each on the one before.
std::string pointwise(std::size_t count, bool chain) {
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string input = i == 0 || !chain ? "x" : fmt::format("t{}", i - 1);
    ops.push_back(fmt::format(R"({{"op": "relu", "inputs": ["{}"], "output": "t{}"}})", input, i));
  }
  return fmt::format(R"({{"tensors": {{"x": {{"shape": [100]}}}}, "ops": [{}]}})",
                     fmt::join(ops, ",\n"));
}

}  // namespace

TEST_CASE("every block of a deep network is planned alike") {
  // 1008 and 10080 ops.
  for (const std::size_t count :
       {std::size_t{48}, kSanitized ? std::size_t{96} : std::size_t{480}}) {
    CAPTURE(count);
    const OpGraph graph = graph_of(blocks(count));
    REQUIRE(graph.ops.size() == 21 * count);
    // Norm; q, k and v; attention; output projection and residual; norm; gate and up; down.
    const std::vector<Kernel> first = {
        {0}, {1, 2, 3}, {4, 5, 6, 7, 8, 9, 10, 11}, {12, 13}, {14}, {15, 16, 17, 18}, {19, 20}};
    const std::vector<Kernel> kernels = plans_of(graph).best;
    REQUIRE(kernels.size() == first.size() * count);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      Kernel expected = first[k % first.size()];
      for (OpId& op : expected) op += static_cast<OpId>(21 * (k / first.size()));
      REQUIRE(kernels[k] == expected);
    }
  }
}

TEST_CASE("a chain is split into as few kernels as possible, or one more") {
  const std::size_t least = kSanitized ? 2 : 10;  // kernels of at most 1024 ops
  const OpGraph graph = graph_of(pointwise(least * 1'000, true));
  const Plans plans = plans_of(graph);
  CHECK(plans.best.size() >= least);
  CHECK(plans.best.size() <= 2 * least);
}

TEST_CASE("thousands of readers of one tensor share it in full kernels, or nearly") {
  const std::size_t readers = kSanitized ? 1'000 : 10'000;
  const OpGraph graph = graph_of(pointwise(readers, false));
  // Each writes a tensor of its own, and a kernel has at most 96.
  CHECK(plans_of(graph).best.size() <= 2 * (readers / 94));
}
