// What launches take kernels for is checked when the kernels are compiled, without a GPU.

#include "codegen/kernel_facts.hpp"

#include <doctest/doctest.h>

#include <string>

#include "codegen/generate.hpp"
#include "core/error.hpp"
#include "cuda/compiler.hpp"
#include "cuda/harness_source.hpp"
#include "graph/graph_text.hpp"
#include "kernel_checks.hpp"
#include "measure/chain_runner.hpp"

namespace fusecalc::cuda {
namespace {

const KernelCache kNoCache{std::nullopt};

constexpr const char* kLinear = R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [512, 256]}, "w": {"shape": [384, 256]}},
    "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
            {"op": "relu", "inputs": ["h"], "output": "y"}]})";
constexpr const char* kAttention = R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"q": {"shape": [1, 2, 256, 64]}},
    "ops": [{"op": "attention", "inputs": ["q", "q", "q"], "output": "a"}]})";

constexpr const char* kNorm = R"({"format": "fusecalc.ops/1", "dtype": "f32",
    "tensors": {"x": {"shape": [256, 512]}, "w": {"shape": [512]}},
    "ops": [{"op": "layer_norm", "inputs": ["x", "w", "w"], "output": "y"}]})";
// One long row, which several blocks share.
constexpr const char* kVector = R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [1, 1048576]}, "w": {"shape": [1048576, 1]}},
    "ops": [{"op": "matmul", "inputs": ["x", "w"], "output": "y"}]})";
// Few tiles, whose k several blocks share.
constexpr const char* kDeep = R"({"format": "fusecalc.ops/1", "dtype": "bf16",
    "tensors": {"x": {"shape": [128, 4096]}, "w": {"shape": [128, 4096]}},
    "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "h"},
            {"op": "relu", "inputs": ["h"], "output": "y"}]})";

// All ops of a list as one kernel.
KernelSource source_of(const char* list, const Architecture& architecture) {
  const OpGraph graph = testing::graph_of(list);
  KernelChecks checks(architecture);
  TrafficCounter counter = checks.counter_of(graph);
  Kernel all;
  for (OpId id = 0; id < graph.ops.size(); ++id) all.push_back(id);
  return generate(counter, all, counter.device()).source;
}

// With one of its constants changed, the source does not compile, and the message names the fact.
void check_refused(KernelSource source, const char* architecture, const std::string& constant,
                   const std::string& changed, const std::string& fact,
                   const std::string& fault = "is not") {
  CAPTURE(constant);
  const std::size_t at = source.text.find(constant);
  REQUIRE(at != std::string::npos);
  source.text.replace(at, constant.size(), changed);
  CHECK_THROWS_WITH_AS(compile_image(source, architecture, kNoCache),
                       doctest::Contains((fact + " " + fault).c_str()), Error);
}

TEST_CASE("a kernel that differs from how it is launched does not compile") {
  // The fact that the host assumes changes,
  const KernelSource sm90 = source_of(kLinear, kArchitectures[1]);
  check_refused(sm90, "sm_90", "Contract::kThreads == 384", "Contract::kThreads == 256",
                "Contract::kThreads");
  const KernelSource sm80 = source_of(kLinear, kArchitectures[0]);
  check_refused(sm80, "sm_80", "Contract::kSharedBytes == 65536", "Contract::kSharedBytes == 32768",
                "Contract::kSharedBytes");
  // or the kernel does.
  check_refused(sm90, "sm_90", "kCopiedBytes = TileA::kBytes + TileB::kBytes;",
                "kCopiedBytes = TileA::kBytes + 2 * TileB::kBytes;", "Contract::kSharedBytes");
  // Half of the rows have half of the warps.
  check_refused(sm80, "sm_80", "kTileRows = Tile::kRows,", "kTileRows = Tile::kRows / 2,",
                "Contract::kThreads");
  check_refused(source_of(kAttention, kArchitectures[1]), "sm_90", "kTileKeys = kKeys;",
                "kTileKeys = kKeys / 2;", "Attention::kTileKeys");
}

TEST_CASE("accumulators and partial sums that need more room than the host gives do not compile") {
  // A mean and a variance: six floats, and no more have room.
  const KernelSource norm = source_of(kNorm, kArchitectures[0]);
  check_refused(norm, "sm_80", "sizeof(Moments<f32>) <= 24", "sizeof(Moments<f32>) <= 20",
                "sizeof(Moments<f32>)", "is above 24");
  check_refused(norm, "sm_80", "  T pivot;\n", "  T pivot, more;\n", "sizeof(Moments<f32>)",
                "is above 24");
  const KernelSource vector = source_of(kVector, kArchitectures[0]);
  check_refused(vector, "sm_80", "kSplit * sizeof(float) + sizeof(u32)",
                "kSplit * sizeof(double) + sizeof(u32)", "Contract::kRowWorkspaceBytes", "is not");
  const KernelSource shared = source_of(kDeep, kArchitectures[0]);
  check_refused(shared, "sm_80", "kSplit * kTileRows * kTileColumns * 4",
                "kSplit * kTileRows * kTileColumns * 2", "Contract::kTileWorkspaceBytes", "is not");
}

TEST_CASE("a harness kernel that differs from what the host assumes does not compile") {
  check_refused(stream_source(), "sm_80", "kThreads = 256", "kThreads = 512", "kThreads");
  check_refused(harness_source(), "sm_80", "kThreads = 256", "kThreads = 128", "kThreads");
  check_refused(harness_source(), "sm_80", "  double magnitude;", "  double magnitude, more;",
                "sizeof(Differences)");
  check_refused(harness_source(), "sm_80", "  kInt16,\n  kInt8,\n", "  kInt8,\n  kInt16,\n",
                "kInt16");
}

}  // namespace
}  // namespace fusecalc::cuda
