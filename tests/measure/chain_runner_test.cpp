#include "measure/chain_runner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "backend/fake_backend.hpp"
#include "core/error.hpp"

namespace fusecalc {
namespace {

// Three operations of 2-byte elements: 1000 in, 4000 between, 500 out.
struct Example {
  std::vector<SizedOperation> operations = {
      {"up", 1000, 4000}, {"mid", 4000, 4000}, {"down", 4000, 500}};
  SizeChain chain{.name = {},
                  .operations = 3,
                  .input_elements = 9000,
                  .output_elements = 8500,
                  .first_input = 1000,
                  .last_output = 500,
                  .dtype_bytes = 2};
  FakeBackend gpu;
  MeasureOptions options{.runs = 10};

  Example() { gpu.counted = streamed_bytes; }
  Measurement measure() {
    return measure_chain(
        gpu, chain, operations, options, [](const std::string&) {}, "list.json");
  }
  std::ptrdiff_t logged(const std::string& entry) const {
    return std::ranges::count(gpu.log, entry);
  }
};

TEST_CASE("one kernel per operation moves its bytes, and the fused one moves the ends") {
  Example example;
  const Measurement result = example.measure();
  REQUIRE(result.unfused.kernels.size() == 3);
  CHECK(result.unfused.kernels[0].analytic == Bytes{2000, 8000});
  CHECK(result.unfused.kernels[0].observed.dram.value() == Bytes{2000, 8000});
  CHECK(result.unfused.kernels[2].observed.dram.value() == Bytes{8000, 1000});
  CHECK(result.unfused.isolated.dram.value() == Bytes{18000, 17000});
  CHECK(result.unfused.pipeline.dram.value() == Bytes{18000, 17000});
  CHECK(result.unfused.analytic == Bytes{18000, 17000});
  REQUIRE(result.fused.kernels.size() == 1);
  CHECK(result.fused.kernels[0].operations == 3);
  CHECK(result.fused.isolated.dram.value() == Bytes{2000, 1000});
  CHECK(result.fused.pipeline.dram.value() == Bytes{2000, 1000});
  CHECK(result.fused.key == "auto");
}

TEST_CASE("the first of two readings that agree is used, otherwise the median of three") {
  Example example;
  example.measure();
  // Three kernels alone, the chain back to back, the fused one: each read twice.
  CHECK(example.logged("count 1") == 8);
  CHECK(example.logged("count 3") == 2);

  Example disturbed;
  std::uint64_t readings = 0;
  disturbed.gpu.counted = [&](const FakeBackend::Launches&) {
    ++readings;
    return Bytes{readings * 10'000'000, readings % 2 == 0 ? 5'000'000U : 6'000'000U};
  };
  const Measurement result = disturbed.measure();
  // The first kernel alone: 10, 20 and 30 MB read; 6, 5 and 6 MB written.
  CHECK(result.unfused.kernels[0].observed.dram.value() == Bytes{20'000'000, 6'000'000});
  CHECK(readings == 15);
}

TEST_CASE("neighbouring kernels share a buffer as large as either needs") {
  Example example;
  example.operations[1] = {"mid", 1000, 4000};  // reads less than the one before it wrote
  example.measure();
  CHECK(example.logged("allocate 2000") == 1);
  CHECK(example.logged("allocate 8000") == 2);
  CHECK(example.logged("allocate 1000") == 1);
  CHECK(example.gpu.live_buffers == 0);
}

TEST_CASE("all counting ends before the first timing") {
  Example example;
  example.measure();
  const auto& log = example.gpu.log;
  std::size_t last_count = 0;
  std::size_t first_time = log.size();
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (log[i].starts_with("count")) last_count = i;
    if (log[i].starts_with("time")) first_time = std::min(first_time, i);
  }
  CHECK(last_count > 0);
  CHECK(last_count < first_time);
}

TEST_CASE("timing alone reports no counts and the reason, not zero") {
  Example example;
  example.options.counters = false;
  const Measurement result = example.measure();
  CHECK(example.logged("count 1") + example.logged("count 3") == 0);
  CHECK_FALSE(result.unfused.isolated.dram);
  CHECK(result.unfused.isolated.reason == "not counted: --timing-only");
  CHECK(result.fused.pipeline.time.has_value());
}

TEST_CASE("with one cache mode, the figures of the other are missing with the reason") {
  Example example;
  SUBCASE("pipeline") {
    example.options.isolated = false;
    const Measurement result = example.measure();
    CHECK_FALSE(result.unfused.kernels[0].observed.dram);
    CHECK(result.unfused.kernels[0].observed.reason == "not measured: --cache pipeline");
    CHECK_FALSE(result.fused.isolated.time);
    CHECK(result.unfused.pipeline.dram.value() == Bytes{18000, 17000});
    CHECK(result.fused.pipeline.dram.value() == Bytes{2000, 1000});
    CHECK(result.measured_speedup().value() == 1);
  }
  SUBCASE("isolated") {
    example.options.pipeline = false;
    const Measurement result = example.measure();
    CHECK_FALSE(result.unfused.pipeline.time);
    CHECK(result.unfused.pipeline.reason == "not measured: --cache isolated");
    CHECK(result.measured_speedup().value() == doctest::Approx(3));
  }
}

TEST_CASE("the measured speedup is that of the times") {
  Example example;
  example.gpu.timed = [](const FakeBackend::Launches& launches) {
    return TimedRun{.seconds = launches.size() == 3 ? 6e-3 : 1.5e-3};
  };
  CHECK(example.measure().measured_speedup().value() == doctest::Approx(4));
}

TEST_CASE("a counter that reads too much once does not shift the result") {
  Example example;
  int calls = 0;
  example.gpu.counted = [&](const FakeBackend::Launches& launches) {
    Bytes bytes = streamed_bytes(launches);
    if (++calls % 3 == 0) bytes.read += 1'000'000;
    return bytes;
  };
  CHECK(example.measure().unfused.pipeline.dram.value() == Bytes{18000, 17000});
}

TEST_CASE("a list that does not fit is refused with the size it needs, before any allocation") {
  Example example;
  example.gpu.memory_left = std::uint64_t{256} << 20U;
  example.gpu.memory_left += 18'999;  // tensors of 2000, 8000, 8000 and 1000
  try {
    example.measure();
    FAIL("measured a list that does not fit");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    CHECK(std::string(error.what())
              .starts_with(
                  "list.json: its tensors need 19.00 kB of device memory, and Fake GPU has "));
  }
  CHECK(example.logged("compile") == 0);
  example.gpu.memory_left += 1;
  CHECK_NOTHROW(example.measure());
}

TEST_CASE("--runs takes exactly that many samples") {
  Example example;
  example.options.runs = 4;
  CHECK(example.measure().unfused.pipeline.time->samples == 4);
}

TEST_CASE("operations without a name are numbered") {
  Example example;
  example.operations[1].name.clear();
  CHECK(example.measure().unfused.kernels[1].name == "op#1");
}

}  // namespace
}  // namespace fusecalc
