// Predictions of whole plans, and what holds for all of them.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>

#include "analysis/analyze.hpp"
#include "graph/graph_text.hpp"
#include "predict/kernel_model.hpp"

namespace fusecalc {
namespace {

using doctest::Approx;

// Round numbers: 1000 bytes a microsecond each way, and arithmetic that takes no time.
Device round_device() {
  Device device = known_devices().front();
  DeviceConstants& constants = device.constants;
  constants.dram_read_gbps.value = constants.dram_write_gbps.value = 1;
  constants.l2_gbps.value = 1e6;
  constants.launch_us.value = 2;
  constants.clock_ghz.value = 1e6;
  return device;
}

Analysis analysis_of(const std::string& text, const Device& device) {
  return analyze_graph(testing::graph_of(text), "t", device, std::nullopt);
}

constexpr const char* kChain = R"({"dtype": "f32", "tensors": {"x": {"shape": [250000]}},
  "ops": [{"op": "relu", "inputs": ["x"], "output": "h"},
          {"op": "neg", "inputs": ["h"], "output": "y"}]})";

TEST_CASE("prediction: a kernel takes its launch and its bytes") {
  const Analysis analysis = analysis_of(kChain, round_device());
  const PlanAnalysis& fused = analysis.graph->plan(PlanKind::kAuto);
  REQUIRE(fused.kernels.size() == 1);
  // 1 MB in and 1 MB out at 1 kB a microsecond each.
  CHECK(fused.predicted.dram_read == Approx(1e6));
  CHECK(fused.predicted.dram_write == Approx(1e6));
  CHECK(fused.kernels[0].predicted.time_us == Approx(2 + 2000));
  CHECK(fused.predicted.bound == Bound::kMemory);
}

TEST_CASE("prediction: rows in batches read the weights that they share as one product does") {
  const auto predicted = [](const std::string& shape) {
    const Analysis analysis =
        analysis_of(R"({"dtype": "bf16", "tensors": {"x": {"shape": )" + shape +
                        R"(}, "w": {"shape": [4096, 4096]}},
            "ops": [{"op": "matmul", "inputs": ["x", "w"], "output": "y"}]})",
                    known_devices().front());
    return analysis.graph->plan(PlanKind::kUnfused).predicted;
  };
  const Prediction batches = predicted("[64, 128, 4096]");
  const Prediction rows = predicted("[8192, 4096]");
  CHECK(batches.dram_read == rows.dram_read);
  CHECK(batches.time_us == rows.time_us);
}

// A product alone is what it takes with kernels of ours, where the library's for odd lines are
// slower; without tensor cores lines do not matter, nor does a clock fall.
TEST_CASE("prediction: products of odd lines take what they took on an H200") {
  struct Recorded {
    const char* dtype;
    std::uint64_t m, n, k;
    double time_us;
  };
  constexpr std::array kRecorded = {
      Recorded{"bf16", 8192, 4095, 4096, 389.5},   Recorded{"bf16", 8192, 4096, 4095, 404.1},
      Recorded{"bf16", 8192, 50257, 1024, 1504.9}, Recorded{"bf16", 512, 1023, 1024, 11.8},
      Recorded{"bf16", 2048, 300, 301, 13.9},      Recorded{"tf32", 2048, 4095, 4096, 188.5},
      Recorded{"f16", 64, 50257, 4096, 102.5},     Recorded{"f32", 8192, 4095, 4096, 2705.7},
      Recorded{"f32", 2048, 50257, 1024, 1929.4},  Recorded{"f32", 2048, 1021, 4096, 151.8}};
  for (const Recorded& each : kRecorded) {
    CAPTURE(each.dtype);
    CAPTURE(each.n);
    const Analysis analysis =
        analysis_of(fmt::format(R"({{"dtype": "{}", "tensors": {{"x": {{"shape": [{}, {}]}},
            "w": {{"shape": [{}, {}]}}}},
            "ops": [{{"op": "linear", "inputs": ["x", "w"], "output": "y"}}]}})",
                                each.dtype, each.m, each.k, each.n, each.k),
                    device_named("h200"));
    const double predicted = analysis.graph->plan(PlanKind::kUnfused).predicted.time_us;
    CHECK(predicted == Approx(each.time_us).epsilon(0.15));
  }
}

TEST_CASE("prediction: products of 32-bit floats take what they took on an H200") {
  struct Recorded {
    std::uint64_t m, n, k;
    bool across;  // k, the second operand's lines
    double time_us;
  };
  constexpr std::array kRecorded = {
      Recorded{4096, 4096, 4096, false, 1087.2}, Recorded{4096, 4096, 4096, true, 1399.2},
      Recorded{2048, 3072, 768, false, 83.7},    Recorded{2048, 3072, 768, true, 103.9},
      Recorded{1024, 50257, 768, false, 733.3},  Recorded{1024, 50257, 768, true, 921.9},
      Recorded{8192, 4096, 512, false, 284.0},   Recorded{8192, 4096, 512, true, 351.4},
      Recorded{2048, 1021, 1023, false, 61.3},   Recorded{256, 1024, 1024, false, 17.2}};
  for (const Recorded& each : kRecorded) {
    CAPTURE(each.n);
    CAPTURE(each.across);
    const Analysis analysis =
        analysis_of(fmt::format(R"({{"dtype": "f32", "tensors": {{"x": {{"shape": [{}, {}]}},
            "w": {{"shape": [{}, {}]}}}},
            "ops": [{{"op": "matmul", "inputs": ["x", "w"], "output": "y", "transpose_b": {}}}]}})",
                                each.m, each.k, each.across ? each.k : each.n,
                                each.across ? each.n : each.k, !each.across),
                    device_named("h200"));
    const double predicted = analysis.graph->plan(PlanKind::kUnfused).predicted.time_us;
    CHECK(predicted == Approx(each.time_us).epsilon(0.15));
  }
}

// Where indices name other rows after one another, so that the L2 has most of them.
TEST_CASE("prediction: rows that are scattered take what they took on an H200") {
  struct Recorded {
    const char* dtype;
    const char* combine;
    std::uint64_t table, rows, columns;
    double time_us;
  };
  constexpr std::array kRecorded = {Recorded{"bf16", "add", 50000, 8192, 1024, 12.7},
                                    Recorded{"bf16", "add", 1000, 65536, 512, 34.6},
                                    Recorded{"bf16", "add", 100000, 200000, 127, 203.4},
                                    Recorded{"f16", "add", 1000, 65536, 511, 251.3},
                                    Recorded{"f32", "add", 1000, 65536, 512, 64.5},
                                    Recorded{"f32", "add", 1000, 65536, 511, 94.1},
                                    Recorded{"f32", "add", 300000, 300000, 64, 61.3},
                                    Recorded{"bf16", "replace", 9000, 8192, 4096, 33.9},
                                    Recorded{"bf16", "replace", 9000, 8192, 4098, 57.5},
                                    Recorded{"bf16", "replace", 400000, 200000, 127, 82.8}};
  for (const Recorded& each : kRecorded) {
    CAPTURE(each.dtype);
    CAPTURE(each.combine);
    CAPTURE(each.columns);
    const Analysis analysis =
        analysis_of(fmt::format(R"({{"dtype": "{0}", "tensors": {{"e": {{"shape": [{2}, {4}]}},
            "i": {{"shape": [{3}], "dtype": "i64"}}, "d": {{"shape": [{3}, {4}]}},
            "s": {{"shape": [{3}, 1]}}}},
            "ops": [{{"op": "mul", "inputs": ["d", "s"], "output": "w"}},
                    {{"op": "scatter_update", "inputs": ["e", "i", "w"], "output": "y",
                      "combine": "{1}"}}]}})",
                                each.dtype, each.combine, each.table, each.rows, each.columns),
                    device_named("h200"));
    const double predicted = analysis.graph->plan(PlanKind::kAuto).predicted.time_us;
    CHECK(predicted == Approx(each.time_us).epsilon(0.2));
  }
}

TEST_CASE("prediction: what one kernel leaves in the L2 serves the next") {
  const Analysis analysis = analysis_of(kChain, round_device());
  const PlanAnalysis& unfused = analysis.graph->plan(PlanKind::kUnfused);
  REQUIRE(unfused.kernels.size() == 2);
  // Alone, each reads 1 MB; back to back, h is still there. Both are written.
  CHECK(unfused.kernels[1].predicted.dram_read == Approx(1e6));
  CHECK(unfused.predicted.dram_read == Approx(1e6));
  CHECK(unfused.predicted.dram_write == Approx(2e6));
}

TEST_CASE("prediction: tensors larger than the L2 are read again") {
  std::string large = kChain;
  large.replace(large.find("250000"), 6, "250000000");
  const Analysis analysis = analysis_of(large, round_device());
  CHECK(analysis.graph->plan(PlanKind::kUnfused).predicted.dram_read == Approx(2e9));
}

TEST_CASE("prediction: a tiny kernel is bound by its launch") {
  const Analysis analysis = analysis_of(
      R"({"dtype": "f32", "tensors": {"x": {"shape": [4]}},
          "ops": [{"op": "relu", "inputs": ["x"], "output": "y"}]})",
      round_device());
  CHECK(analysis.graph->plan(PlanKind::kAuto).kernels[0].predicted.bound == Bound::kLaunch);
}

TEST_CASE("prediction: constants of a datasheet widen the ranges") {
  Device device = round_device();
  const auto width = [&] {
    const Interval range =
        analysis_of(kChain, device).graph->plan(PlanKind::kAuto).predicted.time_range;
    return range.high - range.low;
  };
  const double calibrated = width();
  device.constants.launch_us.origin = ConstantOrigin::kDatasheet;
  CHECK(width() > 2 * calibrated);
}

TEST_CASE("prediction: fastest is never predicted slower than unfused or auto") {
  for (const char* text :
       {R"({"dtype": "bf16", "tensors": {"x": {"shape": [128, 768]}, "u": {"shape": [3072, 768]},
            "w": {"shape": [768, 3072]}, "g": {"shape": [768]}, "c": {"shape": [768]}},
            "ops": [{"op": "linear", "inputs": ["x", "u"], "output": "a"},
                    {"op": "gelu", "inputs": ["a"], "output": "e"},
                    {"op": "linear", "inputs": ["e", "w"], "output": "o"},
                    {"op": "add", "inputs": ["o", "x"], "output": "s"},
                    {"op": "layer_norm", "inputs": ["s", "g", "c"], "output": "y"}]})",
        kChain}) {
    const Analysis analysis = analysis_of(text, known_devices().front());
    const double fastest = analysis.graph->plan(PlanKind::kFastest).predicted.time_us;
    CHECK(fastest <= analysis.graph->plan(PlanKind::kUnfused).predicted.time_us * 1.0001);
    CHECK(fastest <= analysis.graph->plan(PlanKind::kAuto).predicted.time_us * 1.0001);
  }
}

TEST_CASE("prediction: whole rows on few multiprocessors lose to the parts, and fastest knows") {
  const Analysis analysis = analysis_of(
      R"({"dtype": "bf16", "tensors": {"x": {"shape": [128, 3072]}, "w": {"shape": [768, 3072]},
          "r": {"shape": [128, 768]}, "g": {"shape": [768]}, "c": {"shape": [768]}},
          "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "o"},
                  {"op": "add", "inputs": ["o", "r"], "output": "s"},
                  {"op": "layer_norm", "inputs": ["s", "g", "c"], "output": "y"}]})",
      known_devices().front());
  CHECK(analysis.graph->plan(PlanKind::kAuto).kernels.size() == 1);
  CHECK(analysis.graph->plan(PlanKind::kFastest).kernels.size() > 1);
}

}  // namespace
}  // namespace fusecalc
