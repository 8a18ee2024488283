// Products of operands whose lines begin at odd places.

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>

#include "codegen/generate.hpp"
#include "graph/graph_text.hpp"
#include "support/generated_code.hpp"

namespace fusecalc {
namespace {

using testing::contains;

// All ops as one kernel.
GeneratedKernel kernel_of(const std::string& tensors, const std::string& ops,
                          const std::string& device, const std::string& dtype = "bf16") {
  const OpGraph graph =
      testing::graph_of(R"({"format": "fusecalc.ops/1", "dtype": ")" + dtype +
                        R"(", "tensors": {)" + tensors + R"(}, "ops": [)" + ops + "]}");
  TrafficCounter counter(graph, device_named(device));
  return generate(counter, testing::all_ops(graph), counter.device());
}

const std::string kReluOp = R"({"op": "relu", "inputs": ["h"], "output": "y"})";
const std::string kLinearOp = R"({"op": "linear", "inputs": ["x", "w"], "output": "h"}, )";

// Lines of 777 become lines of 784, 1568 bytes: 4096 of them are 392 times 16 KiB, 5000 are 478.5.
TEST_CASE("lines at odd places are copied for the copy engine, those of all weights") {
  const GeneratedKernel kernel = kernel_of(
      R"("x": {"shape": [4096, 777]}, "g": {"shape": [5000, 777]}, "u": {"shape": [5000, 777]})",
      R"({"op": "linear", "inputs": ["x", "g"], "output": "a"},
         {"op": "linear", "inputs": ["x", "u"], "output": "b"},
         {"op": "silu", "inputs": ["a"], "output": "s"},
         {"op": "mul", "inputs": ["s", "b"], "output": "y"})",
      "h100");
  CHECK(contains(kernel, "ContractSm90<bf16, 256, 2, false, LinesOfB::kInOrder, Epilogue>"));
  REQUIRE(kernel.maps.size() == 3);
  constexpr std::array<std::uint64_t, 3> kAt = {0, 4096 * 1568, 4096 * 1568 + 5000 * 1568};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(kernel.maps[i].storage == kNone);
    CHECK(kernel.maps[i].offset == kAt[i]);
    CHECK(kernel.maps[i].extents[0] == 777);
  }
  CHECK(kernel.maps[0].strides[0] == 1568);
  CHECK(kernel.workspace_bytes == kAt[2] + 5000 * 1568);
  REQUIRE(kernel.packing);
  CHECK(kernel.packing->blocks == 392 + 2 * 479);
  CHECK(kernel.packing->threads == 256);
  CHECK(kernel.source.entries.back() == "pack");
  CHECK(contains(kernel, "PaddedLines{777, 784, 5000, 1, 1, 0, 777, 0, 0}"));
}

TEST_CASE("lines across k are copied in their order, and those that are in order are not") {
  const std::string product =
      R"({"op": "matmul", "inputs": ["x", "w"], "output": "h", "transpose_a": true}, )" + kReluOp;
  const GeneratedKernel both = kernel_of(
      R"("x": {"shape": [3, 8192, 1001]}, "w": {"shape": [3, 8192, 770]})", product, "a100");
  CHECK(contains(both, "kStrides = {1008, 8257536, 0, 776, 6356992, 0}"));
  CHECK(contains(both, "PadLines<bf16, 1>::copy(blockIdx.x - 0, "));
  CHECK(contains(both, "PaddedLines{1001, 1008, 8192, 3, 1, 0, 1001, 8200192, 0}"));
  CHECK(contains(both, "PaddedLines{770, 776, 8192, 3, 1, 0, 770, 6307840, 0}"));
  CHECK(contains(both, ", 8, 8, true, true, Epilogue> Contract"));
  const GeneratedKernel one =
      kernel_of(R"("x": {"shape": [8192, 1024]}, "w": {"shape": [8192, 770]})", product, "a100");
  REQUIRE(one.packing);
  CHECK(one.workspace_bytes == 8192 * 776 * 2);
}

TEST_CASE("copies, partial results and shares of k have room of their own") {
  const GeneratedKernel kernel =
      kernel_of(R"("x": {"shape": [4096, 2047]}, "w": {"shape": [3000, 2047]})",
                kLinearOp + R"({"op": "logsumexp", "inputs": ["h"], "output": "y", "axes": [1]})",
                "h100", "tf32");
  CHECK(contains(kernel, "ContractSm90<f32, "));
  CHECK(kernel.packed_at > 0);
  CHECK(kernel.packed_at % 256 == 0);
  CHECK(kernel.workspace_bytes == kernel.packed_at + (4096 + 3000) * 2048 * 4);
  CHECK(kernel.source.entries == std::vector<std::string>{"fused", "merge", "pack"});
}

// 300 lines of 784, with room for 304, are 29.1 times 16 KiB, 320 are 30.6.
TEST_CASE(
    "lines at odd places are copied for whole rows in clusters, which are tiled in all ways") {
  const GeneratedKernel kernel =
      kernel_of(R"("x": {"shape": [300, 777]}, "w": {"shape": [320, 777]})",
                kLinearOp + R"({"op": "softmax", "inputs": ["h"], "output": "y"})", "h100");
  CHECK(contains(kernel, "ContractRowsSm90<bf16, "));
  CHECK(kernel.maps[1].offset == 304 * 1568);
  CHECK(kernel.workspace_bytes == 304 * 1568 + 320 * 1568);
  REQUIRE(kernel.packing);
  CHECK(kernel.packing->blocks == 30 + 31);
  for (const GeneratedKernel& other : kernel.others) {
    CHECK(other.packing);
    CHECK(other.workspace_bytes == kernel.workspace_bytes);
  }
}

// 1001 x 15 strips of 64 rows are partial maxima in f32, and 1001 results in 8 bytes.
TEST_CASE("tiles by mma find copies behind partial results") {
  const GeneratedKernel kernel = kernel_of(
      R"("x": {"shape": [960, 4097]}, "w": {"shape": [1001, 4097]})",
      kLinearOp + R"({"op": "max", "inputs": ["h"], "output": "y", "axes": [0]})", "a100");
  REQUIRE(kernel.packing);
  REQUIRE(kernel.packed_at > 0);
  const std::string at = "reinterpret_cast<const bf16*>(work + ";
  CHECK(contains(kernel, "Contract::run(" + at + std::to_string(kernel.packed_at) + "), " + at +
                             std::to_string(kernel.packed_at + 960 * 4104 * 2) + "), kShape"));
}

TEST_CASE("lines are not copied where that takes longer than their product gains") {
  const GeneratedKernel few = kernel_of(
      R"("x": {"shape": [70, 1001]}, "w": {"shape": [256, 1001]})", kLinearOp + kReluOp, "h100");
  CHECK_FALSE(few.packing);
  CHECK(contains(few, ", 1, 1, false, false, Epilogue> Contract"));
  // Of f32, mma takes no less time with whole lines, but wgmma does.
  constexpr const char* kFloats = R"("x": {"shape": [4096, 777]}, "w": {"shape": [4096, 777]})";
  CHECK_FALSE(kernel_of(kFloats, kLinearOp + kReluOp, "a100", "f32").packing);
  CHECK(kernel_of(kFloats, kLinearOp + kReluOp, "h100", "f32").packing);
}

}  // namespace
}  // namespace fusecalc
