#include "profile/profile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/analyze.hpp"
#include "backend/injection.hpp"
#include "core/embedded.hpp"
#include "graph/graph_text.hpp"
#include "profile/records.hpp"
#include "report/formats.hpp"
#include "support/files.hpp"
#include "support/invocation.hpp"
#include "support/schema_check.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Two launches of exp and one of neg over 64 MiB; the second exp reads `read` bytes.
Profile small_profile(std::uint64_t read) {
  constexpr std::uint64_t kTensor = 67'108'864;
  const std::string bytes = std::to_string(kTensor);
  const auto line = [](RecordKind kind, std::vector<std::string> fields) {
    return record_line(kind, fields);
  };
  const auto launch = [&](const std::string& index, const std::string& name) {
    return line(RecordKind::kLaunch,
                {index, "7", "kernel", "0", "1", "0", "64 1 1", "256 1 1", index, name, "step"});
  };
  Profile profile{.name = "demo", .program = {"./demo", "3"}, .outcome = "exit code 0"};
  profile.processes.push_back(read_records(
      line(RecordKind::kProcess, {"11", "10", "5", "0.1.0", "./demo 3"}) +
      line(RecordKind::kDevice, {"0", "GPU-1", "1000000000", "8000"}) +
      launch("0", "elementwise_exp") + launch("1", "elementwise_exp") +
      launch("2", "elementwise_neg") + launch("3", "lost") +
      line(RecordKind::kBytes, {"0", bytes, bytes, "0"}) +
      line(RecordKind::kBytes, {"1", std::to_string(read), bytes, "0"}) +
      line(RecordKind::kBytes, {"2", bytes, "0", "0"}) +
      line(RecordKind::kTime, {"2", "1000", "101000", "kernel", "", "64 1 1", "256 1 1"}) +
      line(RecordKind::kDrained, {"0", bytes}) +
      line(RecordKind::kCost, {"700000", "2000000000", "400000"}) + line(RecordKind::kEnd, {})));
  return profile;
}

std::string written(const Profile& profile, std::string_view format) {
  const TempDir folder;
  Output output = Output::file(folder / "out");
  format_named(format).write_profile(profile, Style{}, output);
  output.finish();
  return read_file(folder / "out");
}

Profile aligned_profile() {
  Profile profile = small_profile(67'108'864);
  profile.alignment =
      align(analyze_graph(graph_of(R"({"dtype": "f32", "tensors": {"x": {"shape": [4096, 4096]}},
        "ops": [{"name": "a", "op": "exp", "inputs": ["x"], "output": "e"},
                {"name": "b", "op": "neg", "inputs": ["e"], "output": "y"}]})"),
                          "pair", device_named("h200"), std::nullopt),
            profile.processes[0].launches);
  return profile;
}

std::string violation(const nlohmann::json& profile) {
  const auto embedded = embedded_schemas();
  const auto file = std::ranges::find(embedded, "profile", &EmbeddedFile::name);
  REQUIRE(file != embedded.end());
  return schema_violation(profile, nlohmann::json::parse(file->text));
}

}  // namespace

TEST_CASE("the JSON of a profile obeys its schema, with an alignment and without") {
  const auto plain = nlohmann::json::parse(written(small_profile(67'108'864), "json"));
  CHECK(violation(plain) == "");
  CHECK(plain["totals"]["counted"] == 3);
  CHECK(plain["totals"]["dram_write"] == 201'326'592);  // with what was drained
  CHECK(plain["processes"][0]["launches"][3]["dram_read"].is_null());
  CHECK(plain["processes"][0]["launches"][2]["time_us"] == 100.0);
  CHECK(plain["processes"][0]["uncounted"][0]["what"] == "lost");
  Profile with_layout = aligned_profile();
  with_layout.alignment->layouts = {{.launch = 0, .match = 0}};
  const auto layout = nlohmann::json::parse(written(with_layout, "json"));
  CHECK(violation(layout) == "");
  CHECK(layout["alignment"]["layouts"][0]["kernel"] == "elementwise_exp");
  const auto aligned = nlohmann::json::parse(written(aligned_profile(), "json"));
  CHECK(violation(aligned) == "");
  CHECK(aligned["alignment"]["plans"]["unfused"] == 268'435'456);
}

TEST_CASE("the nodes of a graph are listed under its launch, and its bytes stay whole") {
  Profile profile = small_profile(67'108'864);
  const auto node = [](const std::string& begin, const std::string& end, const std::string& name) {
    return record_line(RecordKind::kTime, std::vector<std::string>{"5", begin, end, "kernel", name,
                                                                   "64 2 1", "256 1 1"});
  };
  profile.processes[0] = read_records(
      record_line(RecordKind::kLaunch,
                  std::vector<std::string>{"0", "7", "graph", "0", "1", "0", "0 0 0", "0 0 0", "5",
                                           "cuGraphLaunch", ""}) +
      record_line(RecordKind::kBytes, std::vector<std::string>{"0", "4096", "1024", "0"}) +
      node("1000", "3000", "norm") + node("3000", "7500", "scale"));
  const auto json = nlohmann::json::parse(written(profile, "json"));
  CHECK(violation(json) == "");
  const nlohmann::json& process = json["processes"][0];
  const nlohmann::json& graph = process["launches"][0];
  CHECK(graph["dram_read"] == 4096);
  CHECK(graph["time_us"] == 6.5);
  CHECK(graph["nodes"] == 2);
  CHECK(graph["graph_nodes"][0]["name"] == "norm");
  CHECK(graph["graph_nodes"][0]["grid"] == std::vector<int>{64, 2, 1});
  CHECK(graph["graph_nodes"][1]["time_us"] == 4.5);
  CHECK(process["kernels"].size() == 1);
  CHECK(process["graph_kernels"][0]["name"] == "scale");
  CHECK(process["graph_kernels"][0]["nodes"] == 1);
  CHECK(written(profile, "table").find("in graphs: scale") != std::string::npos);
}

TEST_CASE("the table leads with the verdict and gives rates against the memory's peak") {
  const std::string table = written(aligned_profile(), "table");
  CHECK(table.starts_with("demo: 4 launches, 3 counted: 201.3 MB read, 201.3 MB written\nmoved "));
  CHECK(table.find("unfused 268.4 MB") != std::string::npos);
  // 67.1 MB in 100 us are 671 GB/s, of 1 GHz x 2 x 8000 bits = 2000 GB/s.
  CHECK(table.find("671     34 %") != std::string::npos);
  CHECK(table.find("not counted: lost (1): the process ended before its counters were read") !=
        std::string::npos);
  // 300 us of three counted launches.
  CHECK(
      table.find("counting took 700.00 us of 2.000 s: 400.00 us to begin, then 100.00 us for each "
                 "counted launch, with the launch itself") != std::string::npos);
}

TEST_CASE("CSV and Markdown of a profile have a row for each kernel") {
  const std::string csv = written(small_profile(67'108'864), "csv");
  CHECK(csv.find("11,elementwise_neg,kernel,1,1,67108864,0,100.000,671.1\n") != std::string::npos);
  CHECK(csv.find("11,lost,kernel,1,0,,,,\n") != std::string::npos);
  const std::string markdown = written(small_profile(67'108'864), "markdown");
  CHECK(markdown.find("| elementwise\\_exp | 2 |") != std::string::npos);
}

TEST_CASE("compare gates two profiles on totals and kernels") {
  const TempDir folder;
  write_file(folder / "base.json", written(small_profile(67'108'864), "json"));
  write_file(folder / "same.json", written(small_profile(67'108'864), "json"));
  write_file(folder / "more.json", written(small_profile(97'108'864), "json"));
  const auto compare = [&](const std::string& fresh) {
    return invoke({"compare", "base.json", fresh, "-f", "csv"}).in(folder.path()).outcome();
  };
  CHECK(compare("same.json").exit_code == 0);
  const Outcome worse = compare("more.json");
  CHECK(worse.exit_code == 1);
  CHECK(worse.out.find("elementwise_exp") != std::string::npos);
}
