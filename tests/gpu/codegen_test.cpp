// Every kernel that a plan of the built-in op lists needs compiles, without a GPU.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <variant>

#include "core/embedded.hpp"
#include "graph/op_list.hpp"
#include "json/reader.hpp"
#include "kernel_checks.hpp"
#include "strategy/plans.hpp"

namespace fusecalc::gpu {
namespace {

void check_library(const Architecture& architecture) {
  // Which ones: for looking closer.
  const char* const only = std::getenv("FUSECALC_ONLY");
  KernelChecks checks(architecture);
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
    checks.check(counter, auto_plan(counter, compiler).kernels);
  }
  MESSAGE(checks.compiled(), " kernels, ", checks.left_out(), " left out");
  CHECK(checks.compiled() > (only == nullptr ? 150 : 0));
}

TEST_CASE("every kernel of the built-in op lists compiles for sm_80") {
  check_library(kArchitectures[0]);
}
TEST_CASE("every kernel of the built-in op lists compiles for sm_90") {
  check_library(kArchitectures[1]);
}
TEST_CASE("every kernel of the built-in op lists compiles for sm_100") {
  check_library(kArchitectures[2]);
}

}  // namespace
}  // namespace fusecalc::gpu
