// The page of a profile as text. What a browser makes of it: page_test.py, for which the pages are
// written into the folder FUSECALC_PAGES, where it is set.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/analyze.hpp"
#include "backend/injection.hpp"
#include "core/embedded.hpp"
#include "graph/graph_text.hpp"
#include "profile/records.hpp"
#include "report/formats.hpp"
#include "support/files.hpp"
#include "support/words.hpp"
#include "support/written.hpp"

namespace fusecalc {
namespace {

using testing::contains;

struct Launched {
  std::string name;
  Bytes bytes{};
  std::uint64_t nanoseconds = 0;  // 0: no time
};

// The records that a program with these launches would leave. The memory's peak is 4915.2 GB/s.
std::string records_of(const std::vector<Launched>& launches) {
  std::string text;
  const auto add = [&](RecordKind kind, const std::vector<std::string>& fields) {
    text += record_line(kind, fields);
  };
  add(RecordKind::kProcess, {"11", "10", "5", "0.1.0", "./demo 3"});
  add(RecordKind::kDevice, {"0", "GPU-1", "3200000000", "6144"});
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const std::string index = std::to_string(i);
    add(RecordKind::kLaunch, {index, "7", "kernel", "0", "1", "0", "64 1 1", "256 1 1", index,
                              launches[i].name, "step"});
    add(RecordKind::kBytes, {index, std::to_string(launches[i].bytes.read),
                             std::to_string(launches[i].bytes.write), "0"});
    if (launches[i].nanoseconds == 0) continue;
    add(RecordKind::kTime, {index, "1000", std::to_string(1000 + launches[i].nanoseconds), "kernel",
                            launches[i].name, "64 1 1", "256 1 1"});
  }
  add(RecordKind::kEnd, {});
  return text;
}

Profile profile_of(const std::vector<Launched>& launches) {
  Profile profile{.name = "demo", .program = {"./demo", "3"}, .outcome = "exit code 0"};
  profile.processes.push_back(read_records(records_of(launches)));
  return profile;
}

std::string library_name(std::string_view op) {
  if (op == "linear") return "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN";
  if (op == "layer_norm") return "vectorized_layer_norm_kernel<c10::BFloat16, float, false>";
  if (op == "attention") return "cudnn_generated_fort_native_sdpa_sm90_flash_fprop";
  return "vectorized_elementwise_kernel<8, " + std::string(op) + ">";
}

// Two runs of a transformer block, each op in a launch of its own, 1 % above the analytic bytes and
// at 4 TB/s.
Profile block_profile() {
  Analysis analysis =
      analyze_graph(testing::graph_of(std::string(embedded_op_list("transformer_block"))),
                    "transformer_block", known_devices().front(), std::nullopt);
  std::vector<Launched> launches;
  for (int run = 0; run < 2; ++run) {
    for (const KernelAnalysis& kernel : analysis.graph->plan(PlanKind::kUnfused).kernels) {
      const Bytes& bytes = kernel.traffic.bytes;
      launches.push_back(
          {.name = library_name(analysis.graph->graph.ops[kernel.ops.front()].row->name),
           .bytes = {.read = bytes.read + bytes.read / 100, .write = bytes.write},
           .nanoseconds = 3000 + bytes.total() / 4000});
    }
  }
  Profile profile = profile_of(launches);
  profile.alignment = align(analysis, profile.processes[0].launches);
  return profile;
}

std::string page_of(const Profile& profile, const char* file) {
  const std::string text = testing::written(
      [&](Output& output) { format_named("html").write_profile(profile, Style{}, output); });
  if (const char* folder = std::getenv("FUSECALC_PAGES")) {
    testing::write_file(std::filesystem::path(folder) / file, text);
  }
  return text;
}

}  // namespace

TEST_CASE("html: a profile has its verdict, plans, missed fusions, kernels and matches") {
  const Profile profile = block_profile();
  REQUIRE(!profile.alignment->matches.empty());
  const std::string page = page_of(profile, "profile.html");
  CHECK(contains(page, "<p class=\"verdict-line\">moved "));
  CHECK(contains(page, "<b>this program</b>"));
  CHECK(contains(page, "Fusions that would save most"));
  CHECK(contains(page, "the last of 2 runs of"));
  CHECK(contains(page, "cudnn<wbr>_generated") == false);
  CHECK(contains(page, "sdpa_<wbr>sm90_<wbr>flash"));
  // 24 launches, of which 12 are the last run's.
  CHECK(contains(page, "<dt>launches</dt><dd>24</dd>"));
}

TEST_CASE("html: without times the launches of a profile are equally wide") {
  const std::string page = page_of(profile_of({{.name = "a", .bytes = {.read = 8, .write = 4}},
                                               {.name = "b", .bytes = {.read = 2, .write = 0}}}),
                                   "untimed.html");
  CHECK(contains(page, R"("timed":false)"));
  CHECK(contains(page, R"("bars":"0 0 1 1 12 1 1 1 1 2")"));
}

TEST_CASE("html: a launch without a time is not drawn, and the page says so") {
  const std::string page =
      page_of(profile_of({{.name = "a", .bytes = {.read = 8, .write = 4}, .nanoseconds = 7},
                          {.name = "b", .bytes = {.read = 2, .write = 0}}}),
              "partly.html");
  CHECK(contains(page, R"("bars":"0 0 1 7 12")"));
  CHECK(contains(page, "1 of 2 launches have no time and are not drawn."));
}

TEST_CASE("html: of many launches the shortest are drawn together, and no byte is lost") {
  std::vector<Launched> launches;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    launches.push_back({.name = "kernel" + std::to_string(i % 50),
                        .bytes = {.read = 1000, .write = 24},
                        .nanoseconds = i % 1000 == 0 ? 500'000U : 2000U});
  }
  const std::string page = page_of(profile_of(launches), "launches.html");
  CHECK(page.size() < 2'000'000);
  CHECK(contains(page, "Of the 100,000 launches the shortest are drawn together"));
  const std::size_t begin = page.find("\"bars\":\"") + 8;
  std::istringstream bars(page.substr(begin, page.find('"', begin) - begin));
  std::string name;
  std::uint64_t index = 0;
  std::uint64_t count = 0;
  std::uint64_t nanoseconds = 0;
  std::uint64_t bytes = 0;
  std::uint64_t drawn = 0;
  std::uint64_t all_bytes = 0;
  std::uint64_t all_time = 0;
  std::size_t shown = 0;
  while (bars >> name >> index >> count >> nanoseconds >> bytes) {
    CHECK(index == drawn);
    drawn += count;
    all_bytes += bytes;
    all_time += nanoseconds;
    ++shown;
  }
  CHECK(shown <= 15'000);
  CHECK(drawn == 100'000);
  CHECK(all_bytes == 102'400'000);
  CHECK(all_time == 100 * 500'000ULL + 99'900 * 2000ULL);
}

}  // namespace fusecalc
