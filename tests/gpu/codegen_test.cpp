// Every kernel that a plan of the built-in op lists needs compiles, without a GPU.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <variant>
#include <vector>

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

// Bytes that its entries spill.
std::uint64_t compile(const GeneratedKernel& kernel, const std::string& architecture) {
  CAPTURE(kernel.source.text);
  const CompiledImage image = compile_image(kernel.source, architecture, kNoCache);
  std::uint64_t spills = 0;
  for (const std::string& entry : kernel.source.entries) spills += spill_bytes(image.log, entry);
  return spills;
}

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
    result.spills += compile(generated, architecture);
    for (const GeneratedKernel& other : generated.others) compile(other, architecture);
    ++result.kernels;
  }
  return result;
}

OpGraph graph_of(const std::string& text) {
  JsonReader reader(ByteSource::from_memory(text, "test"));
  return build_graph(std::get<WrittenGraph>(read_op_list(reader)), {});
}

TEST_CASE("bounds that are infinite compile behind a product") {
  const OpGraph graph = graph_of(R"({"format": "fusecalc.ops/1", "dtype": "bf16",
      "tensors": {"x": {"shape": [256, 64]}, "w": {"shape": [64, 64]}},
      "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
              {"op": "clamp", "inputs": ["h"], "output": "y", "min": 0}]})");
  TrafficCounter counter(graph, known_devices().front());
  for (const char* architecture : {"sm_90", "sm_80"}) {
    compile(generate(counter, {0, 1}, {.capability = architecture[3] == '8' ? 80U : 90U}),
            architecture);
  }
}

// Sums, maxima, exponentials, squares and moments of rows; results of rows; a result on the way.
TEST_CASE("whole rows of products compile, whatever is done with them") {
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
  for (const std::string& end : ends) {
    CAPTURE(end);
    const OpGraph graph = graph_of(begin + end);
    TrafficCounter counter(graph, known_devices().front());
    Kernel all;
    for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
    compile(generate(counter, all, {.capability = 90}), "sm_90");
  }
}

TEST_CASE("several sources compile side by side, in their order, and tell how far they are") {
  std::vector<KernelSource> sources;
  for (int i = 0; i < 5; ++i) {
    const std::string name = fmt::format("k{}", i);
    sources.push_back(
        {.text = fmt::format("extern \"C\" __global__ void {}() {{}}", name), .entries = {name}});
  }
  std::size_t told = 0;
  const std::vector<CompiledImage> images =
      compile_images(sources, "sm_90", kNoCache, [&](std::size_t done) {
        CHECK(done >= told);
        told = done;
      });
  REQUIRE(images.size() == 5);
  for (std::size_t i = 0; i < images.size(); ++i) {
    CHECK(images[i].log.find(fmt::format("'k{}'", i)) != std::string::npos);
    CHECK(images[i].seconds > 0);
  }
  sources[3].text = "nonsense";
  CHECK_THROWS_WITH_AS(compile_images(sources, "sm_90", kNoCache, [](std::size_t) {}),
                       doctest::Contains("nonsense"), Error);
}

TEST_CASE("whoever is told how far the compiler is may end it") {
  std::vector<KernelSource> sources(64);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources[i].text =
        fmt::format("extern \"C\" __global__ void k(float* p) {{ p[0] = sinf(p[{}]); }}", i);
    sources[i].entries = {"k"};
  }
  std::size_t told = 0;
  const auto stop = [&](std::size_t done) {
    told = done;
    throw Error(Fault::kInterrupted, "interrupted");
  };
  CHECK_THROWS_WITH_AS(compile_images(sources, "sm_90", kNoCache, stop), "interrupted", Error);
  CHECK(told < 64);
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
