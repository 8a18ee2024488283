#include "measure/measurement.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/fake_backend.hpp"
#include "core/output.hpp"
#include "measure/chain_runner.hpp"
#include "report/formats.hpp"
#include "support/schema_check.hpp"

namespace fusecalc {
namespace {

using nlohmann::json;

// Two operations of 1 MB each way, on a device that counts one kernel's reads 10 % high and takes a
// millisecond for everything but the fused kernel.
Measurement example(const MeasureOptions& options = {.runs = 10}) {
  FakeBackend gpu;
  gpu.info.device.l2_bytes = 1000;
  gpu.counted = [](const FakeBackend::Launches& launches) {
    Bytes bytes = streamed_bytes(launches);
    if (bytes.read == 30'000'000) bytes.read = 33'000'000;
    return bytes;
  };
  const std::vector<SizedOperation> operations = {{"first,\"one\"", 30'000'000, 10'000'000},
                                                  {"second", 10'000'000, 10'000'000}};
  const SizeChain chain{.name = {},
                        .operations = 2,
                        .input_elements = 40'000'000,
                        .output_elements = 20'000'000,
                        .first_input = 30'000'000,
                        .last_output = 10'000'000,
                        .dtype_bytes = 1};
  Measurement result = measure_chain(
      gpu, chain, operations, options, [](const std::string&) {}, "x");
  result.name = "example";
  return result;
}

std::string written(const Measurement& measurement, std::string_view format) {
  std::string folder = (std::filesystem::temp_directory_path() / "fusecalc-test.XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/out";
  Output output = Output::file(path);
  const std::array reports = {MeasurementReport{.measurement = measurement}};
  format_named(format).write_measurement(reports, Style{}, output);
  output.finish();
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove_all(folder);
  return text;
}

TEST_CASE("the JSON of a measurement keeps its schema, in every mode") {
  for (const MeasureOptions& options :
       {MeasureOptions{.runs = 10}, MeasureOptions{.counters = false, .runs = 1},
        MeasureOptions{.isolated = false, .runs = 2},
        MeasureOptions{.pipeline = false, .runs = 2}}) {
    const json document = json::parse(written(example(options), "json"));
    CHECK(schema_violation(document, schema_named("measurement")) == "");
  }
  json broken = json::parse(written(example(), "json"));
  broken["plans"]["auto"]["measured"]["dram_read"] = "many";
  CHECK(schema_violation(broken, schema_named("measurement")) ==
        "/plans/auto/measured/dram_read: is no [\"integer\",\"null\"]");
}

TEST_CASE("the JSON holds the analysis' headline and measured figures beside analytic ones") {
  const json document = json::parse(written(example(), "json"));
  CHECK(document["unfused_bytes"] == 60'000'000);
  CHECK(document["fused_bytes"] == 40'000'000);
  CHECK(document["savings_bytes"] == 20'000'000);
  CHECK(document["savings_pct"] == 33.33);
  CHECK(document["speedup_estimate"] == 1.5);
  CHECK(document["synthetic"] == true);
  const json& kernel = document["plans"]["unfused"]["kernels"][0];
  CHECK(kernel["name"] == "first,\"one\"");
  CHECK(kernel["read"] == 30'000'000);
  CHECK(kernel["measured"]["dram_read"] == 33'000'000);
  CHECK(kernel["measured"]["error_pct"]["read"] == 10);
  CHECK(kernel["measured"]["error_pct"]["write"] == 0);
  CHECK(kernel["measured"]["time_us"]["median"] == 1000);
  CHECK(kernel["measured"]["gbps"] == 40);  // 40 MB in a millisecond
  CHECK(document["plans"]["unfused"]["measured"]["dram_read"] == 43'000'000);
  CHECK(document["plans"]["auto"]["verified"].is_null());
  CHECK(document["plans"]["auto"]["verified_reason"].is_string());
}

TEST_CASE("a counter that was not read is null with its reason, never zero") {
  const json document = json::parse(written(example({.counters = false, .runs = 1}), "json"));
  const json& measured = document["plans"]["auto"]["measured"];
  CHECK(measured["dram_read"].is_null());
  CHECK(measured["error_pct"].is_null());
  CHECK(measured["reason"] == "not counted: --timing-only");
  CHECK(measured["time_us"]["samples"] == 1);
}

TEST_CASE("the table shows measured beside analytic bytes and explains gaps") {
  const std::string table = written(example(), "table");
  for (const char* part :
       {"example: 2 operations, 1 byte an element, on Fake GPU", "40.00 MB", "43.00 MB", "+7.50 %",
        "predicted speedup 1.5x, measured 1.00x",
        "note: synthetic:", "note: unfused, first,\"one\" alone: reads +10.0 %: unexplained"}) {
    CAPTURE(table);
    CHECK(table.find(part) != std::string::npos);
  }
}

TEST_CASE("the choice of variant is reported, once for all kernels that share it") {
  Measurement measurement = example();
  measurement.synthetic = false;
  for (KernelMeasurement& kernel : measurement.unfused.kernels) {
    kernel.schedule = "cuBLASLt";
    kernel.choice = "3 % faster than the generated kernel";
  }
  const std::string table = written(measurement, "table");
  CHECK(table.find("note: unfused, first,\"one\", second: cuBLASLt: 3 % faster than the generated "
                   "kernel\n") != std::string::npos);
  const json document = json::parse(written(measurement, "json"));
  CHECK(document["plans"]["unfused"]["kernels"][1]["choice"] ==
        "3 % faster than the generated kernel");
  CHECK(schema_violation(document, schema_named("measurement")) == "");
}

TEST_CASE("unchecked outputs are reported beside checked ones") {
  Measurement measurement = example();
  measurement.synthetic = false;
  measurement.fused.verified = Verified{.max_rel_err = 3.33123e-9,
                                        .tolerance = 0.5,
                                        .ok = true,
                                        .unchecked = {"y: some elements may overflow"}};
  const std::string table = written(measurement, "table");
  CHECK(table.find("note: auto: not all results were checked in full: y: some elements may "
                   "overflow\n") != std::string::npos);
  const json document = json::parse(written(measurement, "json"));
  CHECK(document["plans"]["auto"]["verified"]["unchecked"][0] == "y: some elements may overflow");
  CHECK(document["plans"]["auto"]["verified"]["max_rel_err"] == 3.331e-9);
  CHECK(schema_violation(document, schema_named("measurement")) == "");
}

TEST_CASE("compile time is reported, also for cached kernels") {
  Measurement measurement = example();
  measurement.synthetic = false;
  // Half a millisecond saved a run; compiling took 2 s.
  measurement.fused.pipeline.time->median = 0.5e-3;
  measurement.unfused.pipeline.time->median = 1e-3;
  measurement.fused.kernels[0].compile_seconds = 2;
  CHECK(written(measurement, "table").find("paid for itself after 4000 runs\n") !=
        std::string::npos);
  measurement.fused.kernels[0].cached = true;
  CHECK(written(measurement, "table")
            .find("after 4000 runs, at the time that it took when it was compiled\n") !=
        std::string::npos);
  CHECK(json::parse(written(measurement, "json"))["payback_runs"] == 4000);
}

TEST_CASE("every CSV row has every column") {
  const std::string csv = written(example({.counters = false, .runs = 1}), "csv");
  std::size_t rows = 0;
  std::size_t begin = 0;
  while (begin < csv.size()) {
    const std::size_t end = csv.find('\n', begin);
    std::string line = csv.substr(begin, end - begin);
    bool quoted = false;
    std::size_t commas = 0;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      commas += c == ',' && !quoted ? 1 : 0;
    }
    CAPTURE(line);
    CHECK(commas == 16);
    ++rows;
    begin = end + 1;
  }
  CHECK(rows == 1 + 2 + 2 + 1 + 2);  // head, kernels and two sums a plan
}

TEST_CASE("Markdown cells escape markup") {
  const std::string text = written(example(), "markdown");
  CHECK(text.find("### example on Fake GPU\n") == 0);
  CHECK(text.find("| **unfused, 2 kernels** | 60.00 MB | 63.00 MB | +5.00 % |") !=
        std::string::npos);
}

}  // namespace
}  // namespace fusecalc
