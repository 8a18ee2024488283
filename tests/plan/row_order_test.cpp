// What a kernel may make of rows that it has reduced: in which order, and of which elements.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "graph/graph_text.hpp"
#include "plan/legality.hpp"
#include "support/generated_code.hpp"
#include "support/plans.hpp"

namespace fusecalc::testing {
namespace {

// Heads of queries: 2 x 24 x 4 rows of 64. `m` has the order of the transposed ones.
OpGraph heads(const std::string& ops) {
  return graph_of(R"({"dtype": "bf16", "tensors": {"q": {"shape": [2, 24, 4, 64]},
      "w": {"shape": [64]}, "m": {"shape": [2, 4, 24, 64]}, "cos": {"shape": [24, 64]},
      "sin": {"shape": [24, 64]}}, "ops": [)" +
                  ops + "]}");
}

// The same where the transposed rows have the shape of the others: 2 x 4 x 4 rows.
OpGraph square(const std::string& ops) {
  return graph_of(R"({"tensors": {"q": {"shape": [2, 4, 4, 64]}, "w": {"shape": [64]},
      "m": {"shape": [2, 4, 4, 64]}}, "ops": [)" +
                  ops + "]}");
}

constexpr const char* kNorm = R"({"op": "rms_norm", "inputs": ["q", "w"], "output": "n"},)";
constexpr const char* kTurned =
    R"({"op": "permute_view", "inputs": ["n"], "output": "p", "perm": [0, 2, 1, 3]},)";

std::string turned_norm(const std::string& ops) { return std::string(kNorm) + kTurned + ops; }

// Why all ops of the graph cannot be one kernel of ours, or of a general compiler.
std::string obstacle(const OpGraph& graph, bool epilogues = true) {
  PhaseFinder phases(graph);
  const Rules rules{.epilogues = epilogues, .on_chip_bytes = 232'448};
  return explain(graph, check_kernel(phases, all_ops(graph), rules));
}

std::size_t count(const GeneratedKernel& kernel, std::string_view what) {
  const std::string& text = kernel.source.text;
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("rows that are normalised are stored in another order, without a second look at memory") {
  const OpGraph graph = heads(turned_norm(R"({"op": "mul", "inputs": ["p", "m"], "output": "y"})"));
  CHECK(obstacle(graph).empty());
  TrafficCounter counter(graph, known_devices().front());
  const FusionPlan plan = make_plan(counter, PlanKind::kAuto);
  REQUIRE(plan.kernels.size() == 1);
  // q, m and y, of 12,288 elements, and the weight, 2 bytes each.
  CHECK(counter.bytes(plan.kernels[0]).total() == (3 * 12'288 + 64) * 2);
  const GeneratedKernel kernel = generated(graph);
  CHECK(count(kernel, "(p0 + ") == 1);
  // Element (b, s, h, d) goes to (b, h, s, d).
  CHECK(contains(kernel, "/ 6144 * 6144"));
  CHECK(contains(kernel, "/ 256 % 24 * 64"));
  CHECK(contains(kernel, "/ 64 % 4 * 1536"));
}

TEST_CASE("a rotary embedding reads the partners of a normalised row again, out of the caches") {
  const OpGraph op =
      heads(turned_norm(R"({"op": "rotary", "inputs": ["p", "cos", "sin"], "output": "y"})"));
  CHECK(obstacle(op).empty());
  CHECK(count(generated(op), "(p0 + ") == 2);
  const OpGraph written = heads(turned_norm(
      R"({"op": "slice_view", "inputs": ["p"], "output": "first", "axis": 3, "end": 32},
         {"op": "slice_view", "inputs": ["p"], "output": "second", "axis": 3, "start": 32},
         {"op": "neg", "inputs": ["second"], "output": "minus"},
         {"op": "concat", "inputs": ["minus", "first"], "output": "partners", "axis": 3},
         {"op": "mul", "inputs": ["p", "cos"], "output": "a"},
         {"op": "mul", "inputs": ["partners", "sin"], "output": "b"},
         {"op": "add", "inputs": ["a", "b"], "output": "y"})"));
  CHECK(obstacle(written).empty());
  for (const OpGraph* graph : {&op, &written}) {
    TrafficCounter counter(*graph, known_devices().front());
    CHECK(make_plan(counter, PlanKind::kAuto).kernels.size() == 1);
    // q and y; the angles, and the weight.
    CHECK(counter.bytes(all_ops(*graph)).total() == (2 * 12'288 + 2 * 24 * 64 + 64) * 2);
  }
}

TEST_CASE("results of rows are known in the order of the kernel, and seen in any") {
  const std::string mean =
      R"({"op": "mean", "inputs": ["q"], "output": "r", "axis": 3, "keepdim": true},)";
  const std::string both =
      R"({"op": "permute_view", "inputs": ["q"], "output": "p", "perm": [0, 2, 1, 3]},
         {"op": "permute_view", "inputs": ["r"], "output": "s", "perm": [0, 2, 1, 3]},)";
  CHECK(obstacle(heads(mean + both + R"({"op": "sub", "inputs": ["p", "s"], "output": "y"})"))
            .empty());
  CHECK(
      obstacle(heads(mean + both + R"({"op": "exp", "inputs": ["s"], "output": "t"},
         {"op": "sub", "inputs": ["p", "t"], "output": "y"})")) ==
      "mean and exp work in different orders, and a kernel that holds whole rows for mean changes "
      "their order only as it stores them, or where views (permute_view) of its inputs do");
}

TEST_CASE("rows are loaded in another order where a view of memory shows them so") {
  const auto list = [](const char* moved) {
    return graph_of(std::string(R"({"tensors": {"x": {"shape": [64, 48]}}, "ops": [)") + moved +
                    R"(, {"op": "softmax", "inputs": ["t"], "output": "y"}]})");
  };
  CHECK(obstacle(list(R"({"op": "permute_view", "inputs": ["x"], "output": "v", "perm": [1, 0]},
      {"op": "copy", "inputs": ["v"], "output": "t"})"))
            .empty());
  CHECK(obstacle(list(R"({"op": "transpose", "inputs": ["x"], "output": "t", "perm": [1, 0]})")) ==
        "transpose and softmax work in different orders, and a kernel that holds whole rows for "
        "softmax changes their order only as it stores them, or where views (permute_view) of its "
        "inputs do");
}

TEST_CASE("only whole rows change places, after the last reduction, and not in a compiler") {
  const OpGraph graph = heads(turned_norm(R"({"op": "mul", "inputs": ["p", "m"], "output": "y"})"));
  CHECK(obstacle(graph, false) ==
        "rms_norm and mul have the rows of rms_norm in different orders, and a general compiler "
        "keeps to one");
  const auto refused = [](const std::string& first, const std::string& second) {
    return fmt::format(
        "{} and {} work in different orders, and a kernel that holds whole rows for rms_norm "
        "changes their order only as it stores them, or where views (permute_view) of its inputs "
        "do",
        first, second);
  };
  CHECK(obstacle(heads(
            std::string(kNorm) +
            R"({"op": "transpose", "inputs": ["n"], "output": "y", "perm": [0, 1, 3, 2]})")) ==
        refused("rms_norm", "transpose"));
  CHECK(obstacle(heads(turned_norm(R"({"op": "mul", "inputs": ["p", "m"], "output": "y"},
         {"op": "softmax", "inputs": ["y"], "output": "z"})"))) == refused("mul", "softmax"));
}

TEST_CASE("a kernel has each value in one order of rows") {
  CHECK(!obstacle(square(turned_norm(R"({"op": "add", "inputs": ["p", "n"], "output": "y"})")))
             .empty());
  // Or it would read it twice.
  CHECK(!obstacle(square(turned_norm(R"({"op": "add", "inputs": ["p", "q"], "output": "y"})")))
             .empty());
  CHECK(!obstacle(square(turned_norm(R"({"op": "exp", "inputs": ["m"], "output": "e"},
         {"op": "add", "inputs": ["p", "e"], "output": "y"})")))
             .empty());
  const std::string again =
      R"({"op": "permute_view", "inputs": ["q"], "output": "v", "perm": [0, 2, 1, 3]},)";
  CHECK(
      obstacle(square(turned_norm(again + R"({"op": "add", "inputs": ["p", "v"], "output": "y"})")))
          .empty());
  // What is stored in both orders is read in one.
  CHECK(obstacle(square(turned_norm(R"({"op": "neg", "inputs": ["p"], "output": "y"},
         {"op": "exp", "inputs": ["n"], "output": "z"})")))
            .empty());
}

TEST_CASE("memory is overwritten in another order only by what alone reads it, in that order") {
  const std::string mul =
      R"({"op": "mul", "inputs": ["p", "m"], "output": "y", "inplace": {"y": "m"}})";
  CHECK(obstacle(square(turned_norm(mul))).empty());
  CHECK(
      !obstacle(square(turned_norm(R"({"op": "add", "inputs": ["n", "m"], "output": "z"},)" + mul)))
           .empty());
}

TEST_CASE("an index for each row picks an element of it, whatever the row has elsewhere") {
  const auto picks = [](const std::string& indices, const std::string& axis) {
    return graph_of(R"({"tensors": {"x": {"shape": [300, 40]}, "i": {"shape": )" + indices +
                    R"(, "dtype": "i64"}}, "ops": [
        {"op": "log_softmax", "inputs": ["x"], "output": "l"},
        {"op": "gather_elements", "inputs": ["l", "i"], "output": "y", "axis": )" +
                    axis + "}]}");
  };
  const OpGraph graph = picks("[300, 1]", "1");
  CHECK(obstacle(graph).empty());
  TrafficCounter counter(graph, known_devices().front());
  REQUIRE(make_plan(counter, PlanKind::kAuto).kernels.size() == 1);
  // x, in f32; 300 indices of 8 bytes, and as many results.
  CHECK(counter.bytes(all_ops(graph)).total() == 300 * (40 * 4 + 8 + 4));
  CHECK(!obstacle(picks("[1, 40]", "0")).empty());
  // Of fewer rows, and more than one of each.
  CHECK(!obstacle(picks("[299, 1]", "1")).empty());
  CHECK(!obstacle(picks("[300, 2]", "1")).empty());
}

TEST_CASE("of rows that were reduced, parts are read and not stored") {
  const auto parts = [](const std::string& more) {
    return heads(std::string(kNorm) +
                 R"({"op": "slice", "inputs": ["n"], "output": "a", "axis": 3, "end": 32},
         {"op": "slice_view", "inputs": ["n"], "output": "b", "axis": 3, "start": 32},
         {"op": "concat", "inputs": ["b", "a"], "output": "y", "axis": 3})" +
                 more);
  };
  CHECK(obstacle(parts("")).empty());
  const OpGraph needed = parts(R"(], "outputs": ["a", "y")");
  CHECK(obstacle(needed) ==
        "rms_norm and slice loop over different numbers of elements (12,288 and 6,144)");
}

}  // namespace
}  // namespace fusecalc::testing
