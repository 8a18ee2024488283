// Each formula of the prediction, against numbers worked out by hand for a device of round numbers:
// one cycle takes a nanosecond, and what a test is not about takes no time.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "analysis/analyze.hpp"
#include "graph/graph_text.hpp"
#include "predict/kernel_model.hpp"

namespace fusecalc {
namespace {

using doctest::Approx;

// 132 multiprocessors of 128 lanes; tensor cores of 4096 FLOP a cycle that never slow down.
Device device_of_cycles() {
  Device device = known_devices().front();
  DeviceConstants& constants = device.constants;
  constants.dram_read_gbps.value = constants.dram_write_gbps.value = 1e9;
  constants.l2_gbps.value = 1e9;
  constants.launch_us.value = 2;
  constants.clock_ghz.value = constants.tensor_clock_ghz.value = 1;
  constants.tensor_slowdown.value = 0;
  return device;
}

// 1000 bytes a microsecond each way, and cycles take no time.
Device device_of_bytes() {
  Device device = device_of_cycles();
  DeviceConstants& constants = device.constants;
  constants.dram_read_gbps.value = constants.dram_write_gbps.value = 1;
  constants.clock_ghz.value = constants.tensor_clock_ghz.value = 1e9;
  return device;
}

// The microseconds of the only kernel of a plan.
Approx time_of(const std::string& tensors, const std::string& ops, const Device& device,
               PlanKind plan = PlanKind::kAuto) {
  const Analysis analysis =
      analyze_graph(testing::graph_of(fmt::format(
                        R"({{"dtype": "bf16", "tensors": {{{}}}, "ops": [{}]}})", tensors, ops)),
                    "t", device, std::nullopt);
  const PlanAnalysis& found = analysis.graph->plan(plan);
  REQUIRE(found.kernels.size() == 1);
  return Approx(found.kernels[0].predicted.time_us).epsilon(1e-4);
}

constexpr const char* kLinear = R"({"op": "linear", "inputs": ["x", "w"], "output": "h"})";
constexpr const char* kLinearNeg =
    R"({"op": "linear", "inputs": ["x", "w"], "output": "h"},
       {"op": "neg", "inputs": ["h"], "output": "y"})";

std::string operands(int rows, int columns, int depth) {
  return fmt::format(R"("x": {{"shape": [{0}, {2}]}}, "w": {{"shape": [{1}, {2}]}})", rows, columns,
                     depth);
}

TEST_CASE("prediction, by hand: arithmetic") {
  // 132 x 128 x 1000 elements, a thousand for each lane. Each element: one negation, a load and a
  // store of 2.5 instructions; those of two bytes are converted, which makes them 1.3 times as
  // many.
  const char* neg = R"({"op": "neg", "inputs": ["x"], "output": "y"})";
  CHECK(2 + 6 == time_of(R"("x": {"shape": [16896000], "dtype": "f32"})", neg, device_of_cycles()));
  CHECK(2 + 7.5 == time_of(R"("x": {"shape": [16896000]})", neg, device_of_cycles()));
}

TEST_CASE("prediction, by hand: a sort takes the steps of a network, then merges") {
  const char* sort = R"({"op": "sort", "inputs": ["x"], "outputs": ["v", "i"]})";
  // A thousand elements for each lane; rows of ten become 16. Each takes ten steps of 16
  // instructions, as a thread has but one.
  CHECK(2 + 1.6 * 10 * 16 ==
        time_of(R"("x": {"shape": [1689600, 10], "dtype": "f32"})", sort, device_of_cycles()));
  // A block sorts 8192 in 91 steps of 9 instructions, as a thread has eight. Two such runs of a row
  // are merged: three microseconds, and a search of 14 steps for each element.
  const double elements = 132 * 16384;
  const double lanes = 132 * 128;
  CHECK(2 + elements * 91 * 9 / lanes / 1000 + 3 + elements * 14 * 100 / lanes / 1000 ==
        time_of(R"("x": {"shape": [132, 16384], "dtype": "f32"})", sort, device_of_cycles()));
}

TEST_CASE("prediction, by hand: special functions") {
  // silu in 16 bits: five instructions, 6.5 to load and store, and two special functions, of which
  // a multiprocessor computes 20 a cycle.
  const char* silu = R"({"op": "silu", "inputs": ["x"], "output": "y"})";
  CHECK(2 + 12.8 == time_of(R"("x": {"shape": [16896000]})", silu, device_of_cycles()));
  // In 32 bits eleven instructions and five.
  CHECK(2 + 16 ==
        time_of(R"("x": {"shape": [16896000], "dtype": "f32"})", silu, device_of_cycles()));
}

// A table of so many rows, 4096 of which are overwritten.
Approx time_to_scatter(int rows) {
  return time_of(fmt::format(R"("t": {{"shape": [{}, 64]}}, "r": {{"shape": [4096, 64]}},
                                "i": {{"shape": [4096], "dtype": "i64"}})",
                             rows),
                 R"({"op": "scatter_update", "inputs": ["t", "i", "r"], "output": "y",
                     "inplace": {"y": "t"}})",
                 device_of_cycles());
}

TEST_CASE("prediction, by hand: a scatter takes the time of its rows, however long the table") {
  // 4096 x 64 elements on 132 x 128 lanes: each takes an instruction, and a load and a store of 2.5
  // that conversions make 1.3 times as many; 4096 indices are loaded.
  const double instructions = 4096 * 64 * (1 + 2 * 2.5 * 1.3) + 4096 * 2.5;
  const auto lanes = 132 * 128;
  CHECK(2 + instructions / lanes / 1000 == time_to_scatter(8192));
  CHECK(2 + instructions / lanes / 1000 == time_to_scatter(10'000'000));
}

TEST_CASE("prediction, by hand: rows") {
  // 4 MB in and 4 kB out, and passes over a row that wait for each other.
  const char* sum = R"({"op": "sum", "inputs": ["x"], "output": "y", "axes": [-1]})";
  CHECK(2 + 0.9 + 4004 ==
        time_of(R"("x": {"shape": [1000, 1000], "dtype": "f32"})", sum, device_of_bytes()));
}

TEST_CASE("prediction, by hand: a product of the library") {
  // 132 tiles of 256 x 128, one for each multiprocessor, and one step of 64: 1024 cycles; 1043 to
  // start, and 0.053 for each element of the tile.
  const double cycles = 1024 + 1043 + 0.053 * 256 * 128;
  CHECK(2 + 1.4 + cycles / 1000 ==
        time_of(operands(256, 16896, 64), kLinear, device_of_cycles(), PlanKind::kUnfused));
  // 16 tiles of 64 x 128, each shared by eight blocks of 32 steps, whose sums are merged.
  const double shared = 32 * 256 + 1043 + 0.053 * 64 * 128 + 2574;
  CHECK(2 + 1.4 + shared / 1000 ==
        time_of(operands(128, 1024, 16384), kLinear, device_of_cycles(), PlanKind::kUnfused));
}

TEST_CASE("prediction, by hand: vectors are streamed, in any type") {
  // Twice a million elements of four bytes at 1e5 bytes a microsecond; the library reaches 0.8 of
  // that, and 13 % of the DRAM's time shows beside it.
  Device device = device_of_cycles();
  device.constants.dram_read_gbps.value = 100;
  const std::string vectors = R"("a": {"shape": [1000000], "dtype": "f32"},
                                 "b": {"shape": [1000000], "dtype": "f32"})";
  const std::string dot = R"({"op": "matmul", "inputs": ["a", "b"], "output": "h"})";
  CHECK(2 + 1.4 + 100 + 0.13 * 80 * 80 / 100 == time_of(vectors, dot, device, PlanKind::kUnfused));
  const std::string neg = R"(, {"op": "neg", "inputs": ["h"], "output": "y"})";
  CHECK(2 + 80 == time_of(vectors, dot + neg, device));
  // We have no such kernel for f64.
  const std::string doubles = R"("a": {"shape": [1000000], "dtype": "f64"},
                                 "b": {"shape": [1000000], "dtype": "f64"})";
  CHECK(2 + 160 + 10 < time_of(doubles, dot + neg, device));
}

TEST_CASE("prediction, by hand: a grouped product, as if its groups were nearly equal") {
  // Four groups of 192 to 320 rows are ten tiles above each other, of 128 x 128, and 33 are side by
  // side, four in a cluster: 90 of these, of which 30 run at once. A step of 512 cycles, and 16 %
  // of what 160 lines take to fetch; 90 and 5 for each column to store.
  const char* grouped = R"({"op": "grouped_matmul", "inputs": ["x", "w", "o"], "output": "y"})";
  const std::string groups = R"("w": {"shape": [4, 64, 4224]},
                                "o": {"shape": [4], "dtype": "i32"})";
  const double fetch = 160.0 * 128 * 120 / (43 * 132);
  const double cycles = 3660 + 3 * (512 + 0.16 * fetch + 90 + 128 * 128 * 0.13 * 0.3);
  CHECK(2 + 1.4 + cycles / 1150 == time_of(R"("x": {"shape": [1024, 64]}, )" + groups, grouped,
                                           device_of_cycles(), PlanKind::kUnfused));
  // One row reads one matrix: 64 x 4224 elements, the row, the offsets, and 4224 written.
  CHECK(2 + 1.4 + 2 * (64 * 4224 + 64 + 4224) / 1e3 + 16 / 1e3 ==
        time_of(R"("x": {"shape": [1, 64]}, )" + groups, grouped, device_of_bytes(),
                PlanKind::kUnfused));
}

TEST_CASE("prediction, by hand: a product of scaled 8-bit types") {
  // 128 elements are as long as 64 halves: the pairs of the product with an epilogue, below.
  const char* scaled = R"({"op": "scaled_matmul", "inputs": ["x", "w", "s", "s"], "output": "y",
                           "transpose_b": true})";
  const double cycles = 3660 + 2 * (24576 / 43.0 + 0.16 * 512 + 90);
  CHECK(2 + 1.4 + cycles / 1150 == time_of(R"("x": {"shape": [256, 128], "dtype": "fp8_e4m3"},
                   "w": {"shape": [16896, 128], "dtype": "fp8_e4m3"},
                   "s": {"shape": [], "dtype": "f32"})",
                                           scaled, device_of_cycles(), PlanKind::kUnfused));
  // A scale for each 128 of k: two steps, of which the multiplications take 1.28 times as long. Two
  // rounds of tiles of 128 x 128, side by side in pairs, each of which fetches 64 lines of one
  // operand and 128 of the other.
  const double step = 1.28 * 512 + 0.16 * 24576 / 43.0;
  const double stepped = 3660 + 2 * (2 * step + 90);
  CHECK(2 + 1.4 + stepped / 1150 ==
        time_of(R"("x": {"shape": [128, 256], "dtype": "fp8_e4m3"},
                   "w": {"shape": [33792, 256], "dtype": "fp8_e4m3"},
                   "s": {"shape": [1, 2], "dtype": "f32"}, "t": {"shape": [2, 1], "dtype": "f32"})",
                R"({"op": "scaled_matmul", "inputs": ["x", "w", "s", "t"], "output": "y",
                    "transpose_b": true})",
                device_of_cycles(), PlanKind::kUnfused));
}

TEST_CASE("prediction, by hand: a transposition by how many elements move together") {
  // 64 x 64 elements, 0.62 a cycle each by itself; 2.2 times as many where the L2 keeps lines.
  const auto time = [](int rows, int columns) {
    return time_of(fmt::format(R"("x": {{"shape": [{}, {}]}})", rows, columns),
                   R"({"op": "transpose", "inputs": ["x"], "output": "y"})", device_of_cycles());
  };
  const auto gathered = [](double elements) { return 2 + elements / (2.2 * 0.62 * 132) / 1000; };
  CHECK(gathered(0.0725 * 2 * 1001 * 1009) == time(1001, 1009));
  CHECK(gathered(0.0725 * 2 * 1002 * 1010) == time(1002, 1010));
  CHECK(gathered(0.1 * 15 * 80090) == time(80090, 15));
}

TEST_CASE("prediction, by hand: a product with an epilogue") {
  // 3660 cycles once, and 264 tiles of 128 x 128 in two rounds of pairs: each fetches 128 lines of
  // one operand and 64 of the other for a step, of 128 bytes each, at 43 a cycle, and multiplies
  // for 512, of which 16 % are not hidden. 90 for a tile, and 0.0058 for each element's negation.
  // Products run at 1.15 times the clock.
  const double cycles = 3660 + 2 * (24576 / 43.0 + 0.16 * 512 + 90 + 128 * 128 * 0.0058);
  CHECK(2 + 1.4 + cycles / 1150 ==
        time_of(operands(256, 16896, 64), kLinearNeg, device_of_cycles()));
}

TEST_CASE("prediction, by hand: a product whose lines straddle those of the L2") {
  // 132 tiles of 160 columns in one round: of two side by side each fetches 64 lines of A and 160
  // of B for each of two steps, of 128 bytes each, at 0.83 of 43 a cycle.
  const double cycles = 3660 + 2 * (28672 / (0.83 * 43) + 0.16 * 640) + 470 + 128 * 160 * 0.0058;
  CHECK(2 + 1.4 + cycles / 1150 ==
        time_of(operands(128, 21120, 72), kLinearNeg, device_of_cycles()));
}

TEST_CASE("prediction, by hand: a product of a short k moves its bytes") {
  // 1000 bytes a microsecond, 2 to launch it and 1 to start: at the rate of a stream, or at 0.86 of
  // it beside an operand as large as the result.
  const double all = 2 * (8192 * 64 + 256 * 64 + 8192 * 256);
  CHECK(2 + 1 + all / 1e3 == time_of(operands(8192, 256, 64), kLinearNeg, device_of_bytes()));
  const std::string added = R"({"op": "linear", "inputs": ["x", "w"], "output": "h"},
                               {"op": "add", "inputs": ["h", "r"], "output": "y"})";
  CHECK(2 + 1 + (all + 2 * 8192 * 256) / 1e3 / 0.86 ==
        time_of(operands(8192, 256, 64) + R"(, "r": {"shape": [8192, 256]})", added,
                device_of_bytes()));
  // Batches have a first operand each, and other kernels.
  const std::string scores = R"({"op": "matmul", "inputs": ["x", "w"], "output": "h"},
                                {"op": "neg", "inputs": ["h"], "output": "y"})";
  CHECK(2 + 1 + 2.0 * 16 * (2 * 512 * 64 + 512 * 512) / 1e3 / 0.92 !=
        time_of(R"("x": {"shape": [16, 512, 64]}, "w": {"shape": [16, 64, 512]})", scores,
                device_of_bytes()));
  // Channels first at 0.92, and at 0.55 where lines of pixels are no whole eights; last as above.
  const auto time_of_pixels = [](int height, int width) {
    return time_of(fmt::format(R"("x": {{"shape": [64, 24, {}, {}]}},
                                  "w": {{"shape": [144, 24, 1, 1]}})",
                               height, width),
                   R"({"op": "conv2d", "inputs": ["x", "w"], "output": "h"})", device_of_bytes());
  };
  const auto bytes = [](int pixels) { return 2.0 * (64 * pixels * (24 + 144) + 24 * 144); };
  CHECK(2 + 1 + bytes(56 * 56) / 1e3 / 0.92 == time_of_pixels(56, 56));
  CHECK(2 + 1 + bytes(14 * 14) / 1e3 / 0.55 == time_of_pixels(14, 14));
  CHECK(2 + 1 + bytes(56 * 56) / 1e3 ==
        time_of(R"("x": {"shape": [64, 56, 56, 24]}, "w": {"shape": [144, 24, 1, 1]})",
                R"({"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 3, 1, 2]},
                   {"op": "conv2d", "inputs": ["t", "w"], "output": "h"})",
                device_of_bytes()));
}

TEST_CASE("prediction, by hand: windows of few channels that lie last") {
  // 132 x 256 pixels: eight times 32 for each multiprocessor, of five steps of 32 elements; 2.5 to
  // start beside the launch.
  const auto time_of_filters = [](int filters) {
    return time_of(fmt::format(R"("x": {{"shape": [132, 16, 16, 16]}},
                                  "w": {{"shape": [{}, 16, 3, 3]}})",
                               filters),
                   R"({"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 3, 1, 2]},
                      {"op": "conv2d", "inputs": ["t", "w"], "output": "h", "padding": 1})",
                   device_of_cycles());
  };
  CHECK(2 + 2.5 + 8 * (50 + 5 * 68) / 1e3 == time_of_filters(32));
  CHECK(2 + 2.5 + 8 * (330 + 5 * 95) / 1e3 == time_of_filters(64));
}

TEST_CASE("prediction, by hand: a product that the copy engine does not fetch") {
  // 128 tiles of 128 x 256 in one round: 800 cycles, and for each 64 bytes of k what the copies
  // take, which are the narrower the less the lengths of lines are multiples of. An instruction for
  // each element, of which 128 run at a time on each of 132 multiprocessors.
  const auto mma = [](int steps, double step) {
    return 2 + 1.4 + (steps * step + 800) / 1150 + 256.0 * 128 * 128 / (132 * 128) / 1000;
  };
  const auto time = [](int depth) {
    return time_of(operands(2048, 2048, depth), kLinearNeg, device_of_cycles());
  };
  CHECK(mma(2, 1500) == time(36));
  CHECK(mma(2, 1880) == time(34));
  CHECK(mma(1, 2560) == time(31));
}

TEST_CASE("prediction, by hand: a product whose lines are copied for the copy engine first") {
  // 4 us more; the device's memory takes no time. 132 tiles of mma would take 9 steps of 2560
  // cycles, of which 0.8 are more than a round of 5 steps of pairs of tiles of 256 columns, which
  // multiply for 1024 cycles and fetch 256 lines at 0.83 of 43 bytes a cycle.
  const double cycles = 3660 + 5 * (1024 + 0.16 * 32768 / (0.83 * 43)) + 1200 + 128 * 256 * 0.0058;
  CHECK(2 + 1.4 + 4 + cycles / 1150 ==
        time_of(operands(256, 16896, 281), kLinearNeg, device_of_cycles()));
}

TEST_CASE("prediction, by hand: two halves of a product, of few rows, too") {
  // 132 tiles of 128 columns, 64 of each half, in one round: pairs side by side fetch 64 lines of A
  // and 128 of B for each. For each of the product's elements half of the instruction that makes an
  // element of two.
  const char* halves = R"({"op": "linear", "inputs": ["x", "w"], "output": "h"},
      {"op": "split_view", "inputs": ["h"], "outputs": ["a", "b"], "axis": 1},
      {"op": "mul", "inputs": ["a", "b"], "output": "y"})";
  const double cycles = 3660 + 24576 / 43.0 + 0.16 * 512 + 90 + 128 * 128 * 0.5 * 0.0058;
  CHECK(2 + 1.4 + cycles / 1150 == time_of(operands(64, 16896, 64), halves, device_of_cycles()));
}

TEST_CASE("prediction, by hand: products of the same rows whose tiles follow each other") {
  // 75, 88, 2 and 1 tiles of 128 columns are 42 clusters of four side by side, which take two
  // rounds of 30, and fetch 32 lines of A and 128 of B for each tile while it multiplies for 512
  // cycles. One of the products is negated.
  const char* four = R"({"op": "linear", "inputs": ["x", "w"], "output": "a"},
      {"op": "neg", "inputs": ["a"], "output": "n"},
      {"op": "linear", "inputs": ["x", "w2"], "output": "b"},
      {"op": "linear", "inputs": ["x", "w3"], "output": "c"},
      {"op": "linear", "inputs": ["x", "w4"], "output": "d"})";
  const std::string weights = R"(, "w2": {"shape": [11200, 64]}, "w3": {"shape": [168, 64]},
      "w4": {"shape": [8, 64]})";
  const double instructions = 9600.0 / (9600 + 11200 + 168 + 8);
  const double fetch = 160 * 128 * 120 / (43 * 132.0);
  const double cycles = 3660 + 2 * (512 + 0.16 * fetch + 90 + 128 * 128 * instructions * 0.0058);
  CHECK(2 + 1.4 + cycles / 1150 ==
        time_of(operands(65, 9600, 64) + weights, four, device_of_cycles()));
}

TEST_CASE("prediction, by hand: two products of the same rows that an epilogue combines") {
  // The same of 65 rows: 132 tiles of 64 columns of each.
  const char* pair = R"({"op": "linear", "inputs": ["x", "w"], "output": "a"},
      {"op": "linear", "inputs": ["x", "w2"], "output": "b"},
      {"op": "mul", "inputs": ["a", "b"], "output": "y"})";
  const std::string weights = R"(, "w2": {"shape": [8448, 64]})";
  const double cycles = 3660 + 24576 / 43.0 + 0.16 * 512 + 90 + 128 * 128 * 0.5 * 0.0058;
  CHECK(2 + 1.4 + cycles / 1150 ==
        time_of(operands(65, 8448, 64) + weights, pair, device_of_cycles()));
}

TEST_CASE("prediction, by hand: a product of few rows") {
  // 8 x 1024 by 1024 x 1024 and the result: 2,129,920 bytes, at 0.98 of the streaming rate; of what
  // the DRAM takes beside that, 13 % of its share shows.
  const double bytes_us = 2129.92;
  const double longest = bytes_us / 0.98;
  CHECK(2 + 2.3 + longest + 0.13 * bytes_us * bytes_us / longest ==
        time_of(operands(8, 1024, 1024), kLinearNeg, device_of_bytes()));
}

TEST_CASE("prediction, by hand: a prologue computes the weights of few rows") {
  // A subtraction, and ten instructions to load and to pack, for each of 1024 x 1024 weights.
  const char* ops = R"({"op": "sub", "inputs": ["w", 8.0], "output": "v"},
                       {"op": "linear", "inputs": ["x", "v"], "output": "h"})";
  CHECK(2 + 2.3 + 11.0 * 1024 * 1024 / (132 * 128 * 1e3) ==
        time_of(operands(8, 1024, 1024), ops, device_of_cycles()));
}

TEST_CASE("prediction, by hand: a warpgroup makes the rows of a product") {
  // One tile of 128 rows and 256 columns, as narrow ones would make the rows twice, for 64 of k: a
  // negation of each element, of two bytes, while 1024 cycles of multiplying are hidden but for 16
  // %.
  const char* ops = R"({"op": "neg", "inputs": ["x"], "output": "v"},
                       {"op": "linear", "inputs": ["v", "w"], "output": "h"})";
  const double share = 128 * 64 * 2 / 68.0 + 44;
  const double rest = 3660 + 0.16 * 1024 + 1200;
  CHECK(2 + 1.4 + (1150 + 300 + share + rest) / 1150 ==
        time_of(operands(128, 256, 64), ops, device_of_cycles()));
  // Two and four blocks beside each other share that; half of eight find the L2 has it.
  CHECK(2 + 1.4 + (1150 + 300 + share / 2 + rest) / 1150 ==
        time_of(operands(128, 512, 64), ops, device_of_cycles()));
  CHECK(2 + 1.4 + (1150 + 300 / 2.0 + share / 4 + rest) / 1150 ==
        time_of(operands(128, 2048, 64), ops, device_of_cycles()));
}

TEST_CASE("prediction, by hand: packed weights are scaled group by group") {
  // Five instructions for each of 1024 x 1024 weights, and eight with more than eight rows.
  const auto shapes = [](int rows) {
    return fmt::format(
        R"("x": {{"shape": [{}, 1024]}}, "q": {{"shape": [1024, 8, 128], "dtype": "u4"}},
                          "s": {{"shape": [1024, 8, 1]}})",
        rows);
  };
  const char* ops = R"({"op": "mul", "inputs": ["q", "s"], "output": "v"},
                       {"op": "view", "inputs": ["v"], "output": "w", "shape": [1024, 1024]},
                       {"op": "linear", "inputs": ["x", "w"], "output": "h"})";
  CHECK(2 + 2.3 + 5.0 * 1024 * 1024 / (132 * 128 * 1e3) ==
        time_of(shapes(8), ops, device_of_cycles()));
  CHECK(2 + 2.3 + 8.0 * 1024 * 1024 / (132 * 128 * 1e3) ==
        time_of(shapes(9), ops, device_of_cycles()));
}

TEST_CASE("prediction, by hand: a convolution of gathered windows copies its operands first") {
  // 132 tiles of 64 filters and 256 pixels, of 9 steps, each of which fetches 320 lines of 128
  // bytes at 52 a cycle; 1300 cycles a tile, and two launches.
  const std::string tensors =
      R"("x": {"shape": [132, 64, 16, 16]}, "w": {"shape": [64, 64, 3, 3]})";
  const std::string conv = R"({"op": "conv2d", "inputs": ["x", "w"], "output": "h", "padding": 1})";
  CHECK(2 + 2 + (9 * 320 * 128 / 52.0 + 1300) / 1000 == time_of(tensors, conv, device_of_cycles()));
  // The result is as large as the input.
  const Analysis analysis =
      analyze_graph(testing::graph_of(fmt::format(
                        R"({{"dtype": "bf16", "tensors": {{{}}}, "ops": [{}]}})", tensors, conv)),
                    "t", device_of_cycles(), std::nullopt);
  const KernelAnalysis& kernel = analysis.graph->plan(PlanKind::kAuto).kernels[0];
  CHECK(kernel.predicted.dram_write == 2 * (2 * 132 * 64 * 256 + 64 * 64 * 9));
}

TEST_CASE("prediction, by hand: blocks share the depth of few tiles of 32-bit floats") {
  // Four tiles of 144 steps of 2500 cycles, by eight blocks each, whose sums take 3500.
  const std::string conv = R"({"op": "conv2d", "inputs": ["x", "w"], "output": "h", "padding": 1})";
  CHECK(2 + 2.5 + 18 * 2.5 + 3.5 == time_of(R"("x": {"shape": [1, 256, 14, 14], "dtype": "f32"},
                   "w": {"shape": [256, 256, 3, 3], "dtype": "f32"})",
                                            conv, device_of_cycles()));
}

TEST_CASE("prediction, by hand: windows with their channels last are rows of a product") {
  // 132 x 128 pixels by 128 filters, of 9 steps: two blocks share the filters, so that each fetches
  // 192 lines of 128 bytes at 43 a cycle, while the tensor cores are busy for 512, which are hidden
  // but for 16 %. 3660 cycles once and 90 for the tile, with the tensor cores at 1 + 0.306 times
  // their share of those, until they are warm. The weights are copied first.
  const std::string tensors =
      R"("x": {"shape": [132, 8, 16, 64]}, "w": {"shape": [128, 64, 3, 3]})";
  const std::string ops =
      R"({"op": "permute_view", "inputs": ["x"], "output": "t", "perm": [0, 3, 1, 2]},
         {"op": "conv2d", "inputs": ["t", "w"], "output": "h", "padding": 1})";
  const double fetch = 24576 / 43.0;
  const double cool = 3660 + 9 * (fetch + 0.16 * 512) + 90;
  const double load = 2.0 * 132 * 128 * 128 * 576 / (cool * 4096 * 132);
  const double slower = 1 + 0.306 * load * cool / 1.9e6;
  const double cycles = 3660 + 9 * (fetch + 0.16 * 512 * slower) + 90;
  CHECK(2 + 1.4 + 2 + cycles / 1150 == time_of(tensors, ops, device_of_cycles()));
}

TEST_CASE("prediction, by hand: pixels are copied to tiles for each 128 filters") {
  // 66 images of two tiles of 104 columns, of two steps, which copy 128 bytes of each at 14 a
  // cycle: a round for each 128 filters, of 1300 cycles beside its steps.
  const double round = (2 * 104 * 128 / 14.0 + 1300) / 1000;
  const auto time_of_filters = [](int filters) {
    return time_of(fmt::format(R"("x": {{"shape": [66, 128, 14, 14]}},
                                  "w": {{"shape": [{}, 128, 1, 1]}})",
                               filters),
                   R"({"op": "conv2d", "inputs": ["x", "w"], "output": "h"})", device_of_cycles());
  };
  CHECK(2 + round == time_of_filters(128));
  CHECK(2 + 3 * round == time_of_filters(384));
}

TEST_CASE("prediction, by hand: planes that blocks hold take half as long as others") {
  // 132 x 64 planes, of nine products for each pixel: 80 a cycle where lines have an odd number of
  // elements, 24 for each of three taps of a line where it is even; planes of 36 kB stay in memory,
  // and it is 43.
  const auto time_of_plane = [](int lines, int columns) {
    return time_of(fmt::format(R"("x": {{"shape": [132, 64, {}, {}]}},
                                  "w": {{"shape": [64, 1, 3, 3]}})",
                               lines, columns),
                   R"({"op": "conv2d", "inputs": ["x", "w"], "output": "h", "padding": 1,
                       "groups": 64})",
                   device_of_cycles());
  };
  CHECK(2 + 64 * 20 * 15 * 9 / 80e3 == time_of_plane(20, 15));
  CHECK(2 + 64 * 20 * 16 * 9 / 72e3 == time_of_plane(20, 16));
  CHECK(2 + 64 * 130 * 136 * 9 / 43e3 == time_of_plane(130, 136));
}

TEST_CASE("prediction, by hand: planes that are put apart first") {
  // 2 x 64 planes of 100 elements; two launches more, and 2.8 times of a copy's 2 x 25,600 bytes.
  const char* weight = R"(, "w": {"shape": [64, 1, 3, 3]})";
  const auto of = [&](const char* more) {
    return time_of(R"("p": {"shape": [2, 10, 10, 64]})" + std::string(weight),
                   R"({"op": "permute_view", "inputs": ["p"], "output": "x", "perm": [0, 3, 1, 2]},
                      {"op": "conv2d", "inputs": ["x", "w"], "output": "y", "padding": 1,
                       "groups": 64})" +
                       std::string(more),
                   device_of_bytes());
  };
  // 25,600 bytes and the weights' 1,152 are read; as many results and the copy are written.
  const double turn = 2 * 2 + 2.8 * 51.2;
  CHECK(2 + turn + 26.752 + 51.2 == of(""));
  CHECK(2 + 26.752 + 25.6 == of(R"(, {"op": "transpose", "inputs": ["y"], "output": "z",
                                      "perm": [0, 2, 3, 1]})"));
}

TEST_CASE("prediction, by hand: attention") {
  // 132 heads of 256 queries and 128 keys, in 4 x 132 blocks of 64 queries, of which a
  // multiprocessor runs three at once: two rounds of a tile each, two products of 3 x 64 x 128 x
  // 64, an exponential for each of 18 scores a cycle, and 1.5 us to load and store.
  const std::string qkv = R"("q": {"shape": [1, 132, 256, 64]}, "k": {"shape": [1, 132, 128, 64]},
                             "v": {"shape": [1, 132, 128, 64]})";
  const char* attention = R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y"})";
  const double three = 192.0 * 128 * 64 * 4 / 4096 + 192.0 * 128 / 18;
  CHECK(2 + 1.5 + 2 * (1.5 + three / 1000) == time_of(qkv, attention, device_of_cycles()));
  // Causal: no block waits for a round to end.
  const char* causal =
      R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y", "causal": true})";
  CHECK(2 + 1.5 + 4.0 / 3 * (1.5 + three / 1000) == time_of(qkv, causal, device_of_cycles()));
  // A mask: 2 x 132 blocks of 128 queries, one at once, that take 2.5 us to load and store; 10
  // instructions for each score, by 128 lanes.
  const double tile = 128.0 * 128 * 64 * 4 / 4096 + 128.0 * 128 / 18;
  const char* masked = R"({"op": "attention", "inputs": ["q", "k", "v", "m"], "output": "y"})";
  CHECK(2 + 1.5 + 2 * (2.5 + (tile + 10 * 128) / 1000) ==
        time_of(qkv + R"(, "m": {"shape": [256, 128], "dtype": "bool"})", masked,
                device_of_cycles()));
}

// 132 heads of 256 queries and 128 keys.
Approx time_to_attend(int head, const char* type, const Device& device = device_of_cycles()) {
  return time_of(fmt::format(R"("q": {{"shape": [1, 132, 256, {0}], "dtype": "{1}"}},
                                "k": {{"shape": [1, 132, 128, {0}], "dtype": "{1}"}},
                                "v": {{"shape": [1, 132, 128, {0}], "dtype": "{1}"}})",
                             head, type),
                 R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y"})", device);
}

TEST_CASE("prediction, by hand: attention without tensor cores") {
  // 128 lanes multiply 0.4 of the time, two FLOPs each.
  const double three = 192.0 * 128 * 64 * 4 / (256 * 0.4) + 192.0 * 128 / 18;
  const double time = 2 + 1.5 + 2 * (1.5 + three / 1000);
  CHECK(time == time_to_attend(64, "tf32"));
  CHECK(time == time_to_attend(64, "fp8_e4m3"));
  // The units for f64 of Hopper are half as many.
  const double doubles = 192.0 * 128 * 64 * 4 / (128 * 0.4) + 192.0 * 128 / 18;
  CHECK(2 + 1.5 + 2 * (1.5 + doubles / 1000) == time_to_attend(64, "f64"));
}

TEST_CASE("prediction, by hand: attention of 32-bit floats") {
  // 4 x 132 blocks of 64 queries, two of which run at once, in two rounds of two tiles of 64 keys:
  // 880 cycles for each tile and 35.6 for each element of a head, and 1 us to begin. Beside each
  // other, two take 1.62 of the time of one.
  const double tile = 880 + 35.6 * 64;
  CHECK(2 + 1.5 + 2 * (1 + 2 * tile * 1.62 / 1000) == time_to_attend(64, "f32"));
  // A longer head leaves no room for two.
  CHECK(2 + 1.5 + 4 * (1 + 2 * (880 + 35.6 * 128) / 1000) == time_to_attend(120, "f32"));
  // Of 132 blocks each is alone.
  CHECK(2 + 1.5 + 1 + 2 * tile / 1000 ==
        time_of(R"("q": {"shape": [1, 132, 64, 64], "dtype": "f32"},
                   "k": {"shape": [1, 132, 128, 64], "dtype": "f32"},
                   "v": {"shape": [1, 132, 128, 64], "dtype": "f32"})",
                R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y"})",
                device_of_cycles()));
  // Causal: a query sees 1.5 tiles in the mean, and no block waits for a round to end.
  CHECK(2 + 1.5 + 2 * (1 + 1.5 * tile * 1.62 / 1000) ==
        time_of(R"("q": {"shape": [1, 132, 256, 64], "dtype": "f32"},
                   "k": {"shape": [1, 132, 128, 64], "dtype": "f32"},
                   "v": {"shape": [1, 132, 128, 64], "dtype": "f32"})",
                R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y", "causal": true})",
                device_of_cycles()));
  // Longer heads yet have no room on chip. Other GPUs: 85 FLOPs a cycle for each of two blocks of
  // 64 queries.
  CHECK(time_to_attend(136, "tf32").m_value == time_to_attend(136, "f32"));
  Device ampere = device_of_cycles();
  ampere.capability = {8, 0};
  CHECK(2 + 1.5 + 2 * (1 + 4 * 64 * 32 * 64 * 4 / 85e3) == time_to_attend(64, "f32", ampere));
}

TEST_CASE("prediction: attention whose rows or heads tensor cores do not take is as that of tf32") {
  for (const int head : {65, 68, 257}) {
    CAPTURE(head);
    CHECK(time_to_attend(head, "bf16").m_value == time_to_attend(head, "tf32"));
  }
  CHECK(5 * time_to_attend(72, "bf16").m_value < time_to_attend(72, "tf32").m_value);
  // Rows of 65 elements, of which 64 are read.
  const std::string rows =
      R"("p": {"shape": [1, 132, 256, 65]}, "k": {"shape": [1, 132, 128, 64]})";
  const std::string views =
      R"({"op": "slice_view", "inputs": ["p"], "output": "s", "axis": 3, "end": 64},
         {"op": "attention", "inputs": ["s", "k", "k"], "output": "y"})";
  CHECK(5 * time_to_attend(64, "bf16").m_value < time_of(rows, views, device_of_cycles()).m_value);
}

TEST_CASE("prediction: products around a softmax that tensor cores do not take stay apart") {
  const auto kernels = [](int head) {
    const Analysis analysis =
        analyze_graph(testing::graph_of(fmt::format(
                          R"({{"dtype": "bf16", "tensors": {{"q": {{"shape": [16, 2048, {0}]}},
                 "k": {{"shape": [16, 2048, {0}]}}, "v": {{"shape": [16, 2048, {0}]}}}},
                 "ops": [{{"op": "matmul", "inputs": ["q", "k"], "output": "s", "transpose_b": true}},
                         {{"op": "softmax", "inputs": ["s"], "output": "p", "axes": [-1]}},
                         {{"op": "matmul", "inputs": ["p", "v"], "output": "y"}}]}})",
                          head)),
                      "t", known_devices().front(), std::nullopt);
    return analysis.graph->plan(PlanKind::kFastest).kernels.size();
  };
  CHECK(kernels(64) == 1);
  CHECK(kernels(68) > 1);
}

TEST_CASE("prediction, by hand: f64 on a GPU with few units for it") {
  // A thousand negations for each of 132 x 2 units.
  Device device = device_of_cycles();
  device.capability = {8, 9};
  const std::string x = R"("x": {"shape": [264000], "dtype": "f64"})";
  CHECK(2 + 1 == time_of(x, R"({"op": "neg", "inputs": ["x"], "output": "y"})", device));
  // An exponential takes 15 instructions.
  CHECK(2 + 15 == time_of(x, R"({"op": "exp", "inputs": ["x"], "output": "y"})", device));
  // 132 tiles of 256 x 128 and one step of 64, four FLOPs a cycle at 0.85 of the peak.
  const std::string doubles = R"("x": {"shape": [256, 64], "dtype": "f64"},
                                 "w": {"shape": [16896, 64], "dtype": "f64"})";
  const double tile = 256.0 * 128 * 64 * 2;
  const double other = 1043 + 0.053 * 256 * 128;
  const auto time = [&] { return time_of(doubles, kLinear, device, PlanKind::kUnfused); };
  CHECK(2 + 1.4 + (tile / (4 * 0.85) + other) / 1000 == time());
  // Hopper's tensor cores take 256.
  device.capability = kHopper;
  CHECK(2 + 1.4 + (tile / (256 * 0.85) + other) / 1000 == time());
}

TEST_CASE("prediction, by hand: ops without elements take no time") {
  CHECK(0 == time_of(R"("x": {"shape": [0, 64]})",
                     R"({"op": "neg", "inputs": ["x"], "output": "y"})", device_of_cycles(),
                     PlanKind::kUnfused));
}

TEST_CASE("prediction: the limit takes no longer than a plan") {
  const auto analysis_of = [](const char* type, const Device& device) {
    return analyze_graph(testing::graph_of(fmt::format(
                             R"({{"dtype": "{}", "tensors": {{"x": {{"shape": [4096, 4096]}},
                 "w": {{"shape": [4096, 4096]}}}}, "ops": [{}]}})",
                             type, kLinearNeg)),
                         "t", device, std::nullopt);
  };
  for (const Device& device : known_devices()) {
    for (const char* type : {"f64", "f32", "tf32", "f16", "bf16"}) {
      CAPTURE(device.name);
      CAPTURE(type);
      const Analysis analysis = analysis_of(type, device);
      const auto time = [&](PlanKind kind) { return analysis.graph->plan(kind).predicted.time_us; };
      CHECK(time(PlanKind::kLimit) <= time(PlanKind::kFastest));
      CHECK(4 * time(PlanKind::kLimit) >= time(PlanKind::kFastest));
    }
  }
}

TEST_CASE("prediction, by hand: attention of few queries") {
  // Four heads of a query share each of 264 key heads, whose 64 keys and values of 64 are 2 x
  // 2,162,688 bytes; queries and result are 2 x 135,168.
  const char* attention = R"({"op": "attention", "inputs": ["q", "k", "v"], "output": "y"})";
  CHECK(2 + 1.5 + 4595.712 ==
        time_of(R"("q": {"shape": [1, 1056, 1, 64]}, "k": {"shape": [1, 264, 64, 64]},
                   "v": {"shape": [1, 264, 64, 64]})",
                attention, device_of_bytes()));
  // One key head of 16 tiles: 16 parts, to merge in 3 us and 16 x 4 x 64 floats at 110 GB/s; 2 x
  // 131,072 and 2 x 512 bytes.
  CHECK(2 + 1.5 + 263.168 + 3 + 16 * 4 * 64 * 4 / 110e3 ==
        time_of(R"("q": {"shape": [1, 4, 1, 64]}, "k": {"shape": [1, 1, 1024, 64]},
                   "v": {"shape": [1, 1, 1024, 64]})",
                attention, device_of_bytes()));
  // In f32 its products take longer: of 132 x 10 key heads' two tiles, padded to 16 rows, 90 FLOPs
  // for each of 132 multiprocessors and cycle.
  CHECK(2 + 1.5 + 10 * 2 * 64.0 * 16 * 64 * 4 / 90e3 ==
        time_of(R"("q": {"shape": [10, 264, 1, 40], "dtype": "f32"},
                   "k": {"shape": [10, 132, 100, 40], "dtype": "f32"},
                   "v": {"shape": [10, 132, 100, 40], "dtype": "f32"})",
                attention, device_of_cycles()));
}

TEST_CASE("prediction, by hand: attention of few queries that looks up its pages") {
  // 264 draws of 264 pages name all but 1 / e of them: 2,162,688 bytes in all, read once for keys
  // and values. Beside them 1,056 of the table, whose first entries take 0.8 us, and 2 x 135,168.
  CHECK(2 + 1.5 + 0.8 + 271.392 + 2162.688 * (1 - std::exp(-1)) ==
        time_of(R"("q": {"shape": [264, 4, 1, 64]}, "p": {"shape": [264, 64, 64]},
                   "t": {"shape": [264], "dtype": "i32"})",
                R"({"op": "gather", "inputs": ["p", "t"], "output": "g"},
                   {"op": "reshape", "inputs": ["g"], "output": "r", "shape": [264, 1, 64, 64]},
                   {"op": "attention", "inputs": ["q", "r", "r"], "output": "y"})",
                device_of_bytes()));
}

TEST_CASE("prediction, by hand: kernels back to back") {
  // The second of two begins 1.6 us before the first ends; it finds h in the L2.
  Device device = device_of_bytes();
  const Analysis analysis =
      analyze_graph(testing::graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [1000]}},
          "ops": [{"op": "relu", "inputs": ["x"], "output": "h"},
                  {"op": "neg", "inputs": ["h"], "output": "y"}]})"),
                    "t", device, std::nullopt);
  const PlanAnalysis& unfused = analysis.graph->plan(PlanKind::kUnfused);
  CHECK(Approx(unfused.predicted.time_us).epsilon(1e-4) == (2 + 8) + (2 - 1.6 + 4));
}

}  // namespace
}  // namespace fusecalc
