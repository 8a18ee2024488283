// The bytes that parts of tensors take from the DRAM, as counted on an H200
// (specs/results/h200/parts.md).

#include "predict/fetched.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "graph/graph_text.hpp"

namespace fusecalc {
namespace {

using doctest::Approx;

const Device kH200 = device_named("h200");

struct Slice {
  std::uint64_t rows, columns, begin, end;
  double read;
};

double read_of(const std::string& tensors, const std::string& op, const Device& device) {
  const std::string text = R"({"dtype": "f32", "tensors": {)" + tensors + R"(}, "ops": [)" + op +
                           R"(, {"op": "exp", "inputs": ["s"], "output": "y"}]})";
  const Analysis analysis = analyze_graph(testing::graph_of(text), "t", device, std::nullopt);
  const PlanAnalysis& plan = analysis.graph->plan(PlanKind::kAuto);
  REQUIRE(plan.kernels.size() == 1);
  return plan.kernels[0].predicted.dram_read;
}

double read_of(const Slice& slice, const Device& device) {
  return read_of(fmt::format(R"("x": {{"shape": [{}, {}]}})", slice.rows, slice.columns),
                 fmt::format(R"({{"op": "slice", "inputs": ["x"], "output": "s", "axis": 1,
                                  "start": {}, "end": {}}})",
                             slice.begin, slice.end),
                 device);
}

TEST_CASE("prediction: a slice takes the pieces of 64 bytes that it has a part of") {
  const std::vector<Slice> counted = {
      {429601, 77, 0, 38, 91076864},   {500000, 64, 0, 32, 63994880},
      {2000000, 16, 0, 8, 128000768},  // all of them
      {1000000, 32, 0, 4, 64001792},   {1000000, 32, 8, 24, 128001280},
      {250000, 128, 8, 40, 48000512},  {1000000, 33, 0, 16, 124001792},
      {300000, 151, 0, 75, 108001792}, {200000, 256, 4, 5, 12799744}};
  for (const Slice& slice : counted) {
    CAPTURE(slice.columns);
    CAPTURE(slice.end);
    CHECK(read_of(slice, kH200) == Approx(slice.read).epsilon(0.001));
  }
  // Half as long before Ampere.
  CHECK(read_of({1000000, 32, 0, 4, 0}, device_named("t4")) == Approx(32e6).epsilon(0.001));
}

TEST_CASE("prediction: two halves of a row take it once") {
  const double read =
      read_of(R"("x": {"shape": [100000, 154]})",
              R"({"op": "slice", "inputs": ["x"], "output": "a", "axis": 1, "start": 0, "end": 77},
         {"op": "slice", "inputs": ["x"], "output": "b", "axis": 1, "start": 77, "end": 154},
         {"op": "mul", "inputs": ["a", "b"], "output": "s"})",
              kH200);
  CHECK(read == Approx(100000 * 154 * 4));
}

TEST_CASE("prediction: short rows that indices name come in whole pieces") {
  const auto read = [](std::uint64_t rows, std::uint64_t length, std::uint64_t draws) {
    return read_of(fmt::format(R"("t": {{"shape": [{}, {}]}},
                                  "i": {{"shape": [{}], "dtype": "i64"}})",
                               rows, length, draws),
                   R"({"op": "embedding", "inputs": ["t", "i"], "output": "s"})", kH200);
  };
  CHECK(read(4000000, 8, 2000000) == Approx(129082880).epsilon(0.01));
  CHECK(read(1000000, 64, 500000) == Approx(123646976).epsilon(0.02));
  CHECK(read(26663, 501, 40000) == Approx(59269376).epsilon(0.02));
}

TEST_CASE("pieces that have a run") {
  CHECK(fetched_bytes_of_run(64, 64) == 64);
  CHECK(fetched_bytes_of_run(32, 64) == 64);
  CHECK(fetched_bytes_of_run(96, 64) == 128);
  CHECK(fetched_bytes_of_run(4, 32) == 32);
  CHECK(fetched_bytes_of_run(100, 64) == Approx(160));  // (100 - 4) / 64 + 1 pieces, in the mean
  CHECK(fetched_bytes_of_run(0, 64) == 0);
}

}  // namespace
}  // namespace fusecalc
