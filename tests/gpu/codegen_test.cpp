// Every kernel that a plan of the built-in op lists needs compiles, without a GPU.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <variant>

#include "codegen/generate.hpp"
#include "core/embedded.hpp"
#include "core/error.hpp"
#include "gpu/compiler.hpp"
#include "graph/op_list.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "strategy/plans.hpp"

namespace fusecalc::gpu {
namespace {

const KernelCache kNoCache{std::nullopt};

struct Compiled {
  std::size_t kernels = 0;
  std::size_t left_out = 0;
  std::uint64_t spills = 0;
};

// Compiles what unfused and auto need, each text once.
Compiled compile_plans(const OpGraph& graph, const std::string& architecture,
                       std::set<std::string>& done) {
  const Device device = known_devices().front();
  TrafficCounter counter(graph, device);
  std::vector<Kernel> kernels = unfused_plan(graph).kernels;
  for (const Kernel& kernel : auto_plan(counter, compiler_plan(counter)).kernels) {
    kernels.push_back(kernel);
  }
  Compiled result;
  for (const Kernel& kernel : kernels) {
    GeneratedKernel generated;
    try {
      generated = generate(counter, kernel, {.capability = architecture == "sm_80" ? 80U : 90U});
    } catch (const Error& error) {
      // What this version cannot write says so.
      if (error.fault() != Fault::kUnavailable) throw;
      fmt::print("  left out: {}\n", error.what());
      ++result.left_out;
      continue;
    }
    if (!done.insert(generated.source.text).second) continue;
    CAPTURE(graph.ops[kernel.front()].name);
    CAPTURE(generated.source.text);
    const CompiledImage image = compile_image(generated.source, architecture, kNoCache);
    for (const std::string& entry : generated.source.entries) {
      result.spills += spill_bytes(image.log, entry);
    }
    ++result.kernels;
  }
  return result;
}

TEST_CASE("every kernel of the built-in op lists compiles") {
  // Which ones, and for what: for looking closer.
  const char* const only = std::getenv("FUSECALC_ONLY");
  for (const char* architecture : {"sm_90", "sm_80"}) {
    std::set<std::string> done;
    for (const EmbeddedFile& file : embedded_op_lists()) {
      if (only != nullptr && file.name.find(only) == std::string_view::npos) continue;
      CAPTURE(file.name);
      JsonReader reader(ByteSource::from_memory(file.text, std::string(file.name)));
      const OpList list = read_op_list(reader);
      if (!std::holds_alternative<WrittenGraph>(list)) continue;
      const OpGraph graph = build_graph(std::get<WrittenGraph>(list), {});
      try {
        const Compiled compiled = compile_plans(graph, architecture, done);
        fmt::print("{} {}: {} kernels, {} left out, {} bytes spilled\n", architecture, file.name,
                   compiled.kernels, compiled.left_out, compiled.spills);
      } catch (const Error& error) {
        FAIL_CHECK(std::string(error.what()));
      }
    }
  }
}

}  // namespace
}  // namespace fusecalc::gpu
