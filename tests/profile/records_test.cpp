#include "profile/records.hpp"

#include <doctest/doctest.h>

#include <string>

#include "backend/injection.hpp"
#include "backend/kernel_name.hpp"
#include "core/error.hpp"
#include "profile/run_program.hpp"

using namespace fusecalc;

namespace {

std::string line(RecordKind kind, std::vector<std::string> fields) {
  return record_line(kind, fields);
}

std::string launch(int index, const std::string& name, const std::string& kind = "kernel",
                   const std::string& ranges = "") {
  return line(RecordKind::kLaunch, {std::to_string(index), "77", kind, "0", "1", "2", "128 1 1",
                                    "256 2 1", std::to_string(1000 + index), name, ranges});
}

std::string bytes(int index, int read, int write, int together = 0) {
  return line(RecordKind::kBytes, {std::to_string(index), std::to_string(read),
                                   std::to_string(write), std::to_string(together)});
}

const std::string kProcess =
    line(RecordKind::kProcess, {"42", "41", "123", "0.1.0", "python train.py"});

}  // namespace

TEST_CASE("records keep tabs, line ends and backslashes of names") {
  const std::string text =
      record_line(RecordKind::kFault, std::vector<std::string>{"a\tb\\n\nc", ""});
  CHECK(text == "fault\ta\\tb\\\\n\\nc\t\n");
  const auto record = read_record(text.substr(0, text.size() - 1));
  REQUIRE(record);
  CHECK(record->fields == std::vector<std::string>{"a\tb\\n\nc", ""});
  CHECK_FALSE(read_record("nonsense\t1"));
}

TEST_CASE("settings reach the injected library as they were given") {
  const InjectionSettings settings = read_settings(settings_text({.counters = false,
                                                                  .isolated = true,
                                                                  .wait_for_start = true,
                                                                  .skip = 7,
                                                                  .count = 9,
                                                                  .range = "step\t1",
                                                                  .kernel = "a\\d"}));
  CHECK_FALSE(settings.counters);
  CHECK(settings.isolated);
  CHECK(settings.wait_for_start);
  CHECK(settings.skip == 7);
  CHECK(settings.count == 9);
  CHECK(settings.range == "step\t1");
  CHECK(settings.kernel == "a\\d");
  CHECK(read_settings(settings_text({})).counters);
  CHECK_FALSE(read_settings(settings_text({})).count);
}

TEST_CASE("launches of a process are added up by name, with what was drained") {
  const ProfiledProcess process = read_records(
      kProcess + line(RecordKind::kDevice, {"0", "GPU-1", "3201000000", "6144"}) +
      launch(0, "_Z5scalePffm", "kernel", "outer\x1finner") +
      launch(1, "cuMemcpyHtoDAsync_v2", "copy") + launch(2, "_Z5scalePffm") + bytes(0, 100, 10) +
      bytes(1, 5, 200) + bytes(2, 101, 20) + line(RecordKind::kDrained, {"0", "70"}) +
      line(RecordKind::kCost, {"2000000000", "5000000000", "600000000"}) +
      line(RecordKind::kEnd, {}));
  CHECK(process.pid == 42);
  CHECK(process.command == "python train.py");
  CHECK(process.ended);
  CHECK(process.uncounted.empty());
  REQUIRE(process.launches.size() == 3);
  CHECK(process.launches[0].name == "scale");
  CHECK(process.launches[0].ranges == std::vector<std::string>{"outer", "inner"});
  CHECK(process.launches[0].block == std::array<std::uint64_t, 3>{256, 2, 1});
  CHECK(process.launches[0].stream == 2);
  REQUIRE(process.kernels.size() == 2);
  CHECK(process.kernels[0].name == "scale");
  CHECK(process.kernels[0].launches == 2);
  CHECK(process.kernels[0].dram == Bytes{201, 30});
  CHECK(process.kernels[1].name == "copy host to device");
  CHECK(process.totals == Bytes{206, 300});
  CHECK(process.drained == 70);
  CHECK(process.cost_s == 2.0);
  CHECK(process.opening_s == doctest::Approx(0.6));
  CHECK(process.wall_s == 5.0);
  CHECK(process.peak_bytes_per_s == 3201e6 * 2 * 768);
}

TEST_CASE("what was launched and not counted is named with the reason") {
  const ProfiledProcess process =
      read_records(kProcess + launch(0, "waiting") + launch(1, "raising") + launch(2, "failed") +
                   launch(3, "last") + launch(4, "last") + bytes(1, 10, 10, 1) +
                   line(RecordKind::kUncounted, {"2", "the launch failed"}) +
                   line(RecordKind::kCaptured, {"6"}) + line(RecordKind::kSkipped, {"8"}) +
                   line(RecordKind::kOvertaken, {"1"}) +
                   "bytes\t3\t99999");  // cut off as the process was killed
  CHECK_FALSE(process.ended);
  const auto find = [&](const std::string& what) -> const Uncounted& {
    for (const Uncounted& row : process.uncounted) {
      if (row.what == what) return row;
    }
    FAIL(what);
    return process.uncounted.front();
  };
  REQUIRE(process.uncounted.size() == 6);
  CHECK(find("waiting").why == "it ended only after a later launch, and is counted with that");
  CHECK(find("failed").why == "the launch failed");
  CHECK(find("last").launches == 2);
  CHECK(find("last").why == "the process ended before its counters were read");
  CHECK(find("launches recorded into graphs").launches == 6);
  CHECK(find("launches that were not asked for").launches == 8);
  CHECK(find("launches of further threads").launches == 1);
  CHECK_FALSE(process.launches[3].dram);
}

TEST_CASE("times of a second run go to the same launches, and to no others") {
  const auto time = [](int index, int begin, int end) {
    return line(RecordKind::kTime, {std::to_string(1000 + index), std::to_string(begin),
                                    std::to_string(end), "kernel", "", "1 1 1", "1 1 1"});
  };
  std::vector<ProfiledProcess> counted = {read_records(kProcess + launch(0, "a") + launch(1, "b") +
                                                       launch(2, "a") + bytes(0, 8, 0) +
                                                       bytes(2, 8, 0))};
  const std::vector<ProfiledProcess> timed = {
      read_records(kProcess + launch(0, "b") + launch(1, "a") + launch(2, "b") + launch(3, "a") +
                   time(1, 1000, 3000) + time(3, 5000, 9000) + time(0, 1, 2))};
  CHECK(take_times(counted, timed) == 1);  // b, which was launched twice in the second run
  CHECK(counted[0].launches[0].seconds == doctest::Approx(2e-6));
  CHECK(counted[0].launches[2].seconds == doctest::Approx(4e-6));
  CHECK_FALSE(counted[0].launches[1].seconds);
  REQUIRE(counted[0].kernels[0].name == "a");
  CHECK(*counted[0].kernels[0].bytes_per_second() == doctest::Approx(16 / 6e-6));
}

TEST_CASE("a graph takes from the first begin to the last end of its nodes, and lists them") {
  const auto node = [](int begin, int end, const std::string& kind, const std::string& name) {
    return line(RecordKind::kTime, {"1000", std::to_string(begin), std::to_string(end), kind, name,
                                    kind == "kernel" ? "128 2 1" : "0 0 0", "256 1 1"});
  };
  const ProfiledProcess process = read_records(
      kProcess + launch(0, "cuGraphLaunch", "graph") + node(2000, 3000, "kernel", "_Z3addPfm") +
      node(1000, 1500, "copy", "DtoD") + node(3500, 6000, "kernel", "_Z3addPfm") +
      node(1600, 1700, "fill", "") + bytes(0, 100, 50));
  const ProfiledLaunch& graph = process.launches[0];
  CHECK(graph.name == "graph");
  CHECK(*graph.seconds == doctest::Approx(5e-6));
  REQUIRE(graph.nodes.size() == 4);
  CHECK(graph.nodes[0].name == "copy device to device");
  CHECK(graph.nodes[1].name == "fill");
  CHECK(graph.nodes[2].name == "add");
  CHECK(graph.nodes[2].grid == std::array<std::uint64_t, 3>{128, 2, 1});
  CHECK(graph.nodes[3].block == std::array<std::uint64_t, 3>{256, 1, 1});
  CHECK(graph.nodes[3].seconds == doctest::Approx(2.5e-6));
  REQUIRE(process.graph_kernels.size() == 3);
  CHECK(process.graph_kernels[0].name == "add");
  CHECK(process.graph_kernels[0].launches == 2);
  CHECK(process.graph_kernels[0].seconds == doctest::Approx(3.5e-6));
  // The graph's time and bytes are its own, not its nodes' once more.
  CHECK(process.kernels.size() == 1);
  CHECK(process.seconds == doctest::Approx(5e-6));
  CHECK(process.totals == Bytes{100, 50});
}

TEST_CASE("kernel names are shortened to their last part and its arguments") {
  CHECK(demangled("_Z3addPKfS0_Pfm") == "add(float const*, float const*, float*, unsigned long)");
  CHECK(demangled("triton_poi_fused_add_0") == "triton_poi_fused_add_0");
  CHECK(short_kernel_name("add(float const*, float*)") == "add");
  CHECK(
      short_kernel_name("void at::native::(anonymous namespace)::layer_norm<float>(int, float*)") ==
      "layer_norm<float>");
  CHECK(short_kernel_name("void ns::k<(int)4, ns::F(int)>(ns::F)") == "k<(int)4, ns::F(int)>");
  CHECK(short_kernel_name("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT") ==
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT");
  CHECK(short_kernel_name("k<" + std::string(100, 'x') + ">") ==
        "k<" + std::string(59, 'x') + "...>");
}

TEST_CASE("a program runs with its arguments, and its end is told") {
  const RecordFolder folder;
  const auto run = [&](std::vector<std::string> program) {
    return run_program(program, "/lib.so", folder.path(), OutputOfProgram::kDiscarded, [] {});
  };
  const ProgramEnd fine = run(
      {"sh", "-c",
       "test \"$CUDA_INJECTION64_PATH\" = /lib.so && test \"$NVTX_INJECTION64_PATH\" = /lib.so && "
       "test -d \"$FUSECALC_PROFILE_FOLDER\" && exit $1",
       "sh", "7"});
  CHECK(outcome_text(fine) == "exit code 7");
  CHECK(outcome_text(run({"sh", "-c", "kill -9 $$"})) == "signal 9 (Killed)");
  CHECK_THROWS_WITH_AS(run({"/no/such/program"}),
                       "/no/such/program: cannot be run: No such file or directory", Error);
  CHECK(folder.read().empty());
}
