// Every kernel that a plan of the built-in op lists needs compiles, without a GPU.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/embedded.hpp"
#include "graph/op_graph.hpp"
#include "input/op_list.hpp"
#include "json/reader.hpp"
#include "kernel_checks.hpp"
#include "plan/legality.hpp"
#include "planner/plans.hpp"
#include "support/plans.hpp"

namespace fusecalc {

std::span<const EmbeddedFile> unusual_op_lists();  // those of oplists/

namespace cuda {
namespace {

OpGraph graph_of(const std::string& text) {
  JsonReader reader(ByteSource::from_memory(text, "test"));
  return build_graph(std::get<WrittenGraph>(read_op_list(reader)), {});
}

// All ops of a list as one kernel, if that can be launched; else the kernels of auto.
void check_kernel_of(const std::string& text, KernelChecks& checks) {
  CAPTURE(text);
  const OpGraph graph = graph_of(text);
  const std::size_t left_out = checks.left_out();
  TrafficCounter counter = checks.counter_of(graph);
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  if (check_launch(counter.phases(), all, runner_rules(counter.device())).legal()) {
    checks.check(counter, all);
  } else {
    checks.check(counter, testing::make_plan(counter, PlanKind::kAuto).kernels);
  }
  // Before sm_80, heads of attention may be too large.
  if (counter.device().capability >= kFirstWithCopies) CHECK(checks.left_out() == left_out);
}

void check_kernel_of(const std::string& text, const Architecture& architecture) {
  KernelChecks checks(architecture);
  check_kernel_of(text, checks);
}

TEST_CASE("bounds that are infinite compile behind a product") {
  for (const Architecture& architecture : kArchitectures) {
    check_kernel_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
        "tensors": {"x": {"shape": [256, 64]}, "w": {"shape": [64, 64]}},
        "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
                {"op": "clamp", "inputs": ["h"], "output": "y", "min": 0}]})",
                    architecture);
  }
}

// 1,024 ops one after the other, 128 values that are needed at once, and 500 tensors.
TEST_CASE("the largest kernels compile, and their values fit in registers") {
  const auto list = [](const std::string& tensors, const std::vector<std::string>& ops) {
    return fmt::format(R"({{"tensors": {{{}}}, "ops": [{}]}})", tensors, fmt::join(ops, ","));
  };
  const std::string x = R"("x0": {"shape": [4096]})";
  constexpr std::array<std::string_view, 3> kKinds = {"relu", "square", "neg"};
  std::vector<std::string> chain;
  for (std::size_t i = 0; i < kMostOps; ++i) {
    chain.push_back(fmt::format(R"({{"op": "{}", "inputs": ["x{}"], "output": "x{}"}})",
                                kKinds[i % kKinds.size()], i, i + 1));
  }
  check_kernel_of(list(x, chain), kArchitectures[1]);
  // Each value is used for the sum of all, and after it.
  std::vector<std::string> wide;
  const auto add = [&](std::string_view kind, const std::string& inputs,
                       const std::string& output) {
    wide.push_back(
        fmt::format(R"({{"op": "{}", "inputs": [{}], "output": "{}"}})", kind, inputs, output));
  };
  constexpr std::size_t kValues = kMostWords - 2;
  for (std::size_t i = 0; i < kValues; ++i) {
    add("maximum", fmt::format(R"("x0", {})", i), fmt::format("v{}", i));
  }
  std::string last = "v0";
  for (const std::string_view round : {"s", "y"}) {
    const std::string total = last;
    for (std::size_t i = 1; i < kValues; ++i) {
      const std::string next = fmt::format("{}{}", round, i);
      add("fma", fmt::format(R"("v{}", "{}", "{}")", i, total, last), next);
      last = next;
    }
  }
  check_kernel_of(list(x, wide), kArchitectures[1]);
  std::vector<std::string> names;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < 499; ++i) {
    names.push_back(fmt::format("\"p{}\"", i));
    parts.push_back(names.back() + R"(: {"shape": [1, 64]})");
  }
  check_kernel_of(list(fmt::format("{}", fmt::join(parts, ",")),
                       {fmt::format(R"({{"op": "concat", "inputs": [{}], "output": "y"}})",
                                    fmt::join(names, ","))}),
                  kArchitectures[1]);
}

// What no tensor core takes, or no building block that is made for one chip. Hopper first; then the
// texts that it has not on one of the others, which differ in little but tilings. The built-in
// lists compile for each by themselves. Every second list is in a share, so that the two run beside
// each other.
void check_unusual(std::size_t share) {
  REQUIRE(unusual_op_lists().size() > 10);
  const char* const only = std::getenv("FUSECALC_ONLY");  // for looking closer
  KernelChecks checks(kArchitectures[1]);
  for (const std::size_t each : {1U, 0U, 2U}) {
    checks.turn_to(kArchitectures[each]);
    for (std::size_t i = share; i < unusual_op_lists().size(); i += 2) {
      if (each != 1 && i / 2 % 2 != each / 2) continue;
      const EmbeddedFile& file = unusual_op_lists()[i];
      if (only != nullptr && file.name.find(only) == std::string_view::npos) continue;
      check_kernel_of(std::string(file.text), checks);
    }
  }
  CHECK(checks.compiled() > (only == nullptr ? 150 : 0));
}

TEST_CASE("unusual operands compile on any architecture, as one kernel where they can be") {
  check_unusual(0);
}
TEST_CASE("unusual operands compile on any architecture, second share") { check_unusual(1); }

// Sums, maxima, exponentials, squares and moments of rows; results of rows; a result on the way.
TEST_CASE("whole rows of products compile with every epilogue") {
  const std::string begin = R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [300, 64]}, "w": {"shape": [320, 64]}},
      "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
              {"op": "square", "inputs": ["h"], "output": "s"}, )";
  const std::vector<std::string> ends = {
      R"({"op": "sum", "inputs": ["s"], "output": "t", "axes": [-1], "keepdim": true},
         {"op": "div", "inputs": ["s", "t"], "output": "y"}], "outputs": ["t", "y"]})",
      R"({"op": "max", "inputs": ["s"], "output": "t", "axes": [-1], "keepdim": true},
         {"op": "sub", "inputs": ["s", "t"], "output": "y"}]})",
      R"({"op": "softmax", "inputs": ["s"], "output": "y"}], "outputs": ["s", "y"]})",
      R"({"op": "log_softmax", "inputs": ["s"], "output": "y"}]})",
      R"({"op": "rms_norm", "inputs": ["s"], "output": "t"},
         {"op": "silu", "inputs": ["t"], "output": "y"}]})",
      R"({"op": "layer_norm", "inputs": ["s"], "output": "y"}]})",
  };
  for (const Architecture& architecture : kArchitectures) {
    for (const std::string& end : ends) check_kernel_of(begin + end, architecture);
  }
}

// With those of the built-in lists that FUSECALC_ONLY names, for looking closer.
void check_library(KernelChecks& checks) {
  const char* const only = std::getenv("FUSECALC_ONLY");
  for (const EmbeddedFile& file : embedded_op_lists()) {
    if (only != nullptr && file.name.find(only) == std::string_view::npos) continue;
    CAPTURE(file.name);
    JsonReader reader(ByteSource::from_memory(file.text, std::string(file.name)));
    const OpList list = read_op_list(reader);
    if (!std::holds_alternative<WrittenGraph>(list)) continue;
    const OpGraph graph = build_graph(std::get<WrittenGraph>(list), {});
    TrafficCounter counter = checks.counter_of(graph);
    const FusionPlan compiler = compiler_plan(counter);
    checks.check(counter, unfused_plan(graph).kernels);
    checks.check(counter, compiler.kernels);
    checks.check(counter, testing::make_plan(counter, PlanKind::kAuto).kernels);
    checks.check(counter, testing::make_plan(counter, PlanKind::kFastest).kernels);
  }
  MESSAGE(checks.compiled(), " kernels, ", checks.left_out(), " left out");
  CHECK(checks.compiled() > (only == nullptr ? 150 : 0));
}

TEST_CASE("every kernel of the built-in op lists compiles for sm_75") {
  KernelChecks checks(kOtherArchitectures[0]);
  check_library(checks);
}
TEST_CASE("every kernel of the built-in op lists compiles for sm_90") {
  KernelChecks checks(kArchitectures[1]);
  check_library(checks);
}
TEST_CASE("every kernel of the built-in op lists compiles for sm_80, sm_100 and sm_120") {
  KernelChecks checks(kArchitectures[0]);
  check_library(checks);
  for (const Architecture& newer : {kArchitectures[2], kOtherArchitectures[1]}) {
    checks.turn_to(newer);
    check_library(checks);
  }
}

}  // namespace
}  // namespace cuda
}  // namespace fusecalc
