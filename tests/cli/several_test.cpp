// analyze with several op lists, and with folders of them: one document.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;
using nlohmann::json;

namespace {

std::string output_of(const std::vector<std::string>& arguments, const TempDir& folder) {
  const Outcome outcome = invoke(arguments).in(folder.path()).outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  return outcome.out;
}

void check_refused(const std::vector<std::string>& arguments, const TempDir& folder,
                   const std::string& why) {
  const Outcome outcome = invoke(arguments).in(folder.path()).outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "fusecalc: " + why + "\n");
}

// lists/a.json and lists/deep/b.json, 10 and 20 elements moved.
void write_lists(const TempDir& folder) {
  std::filesystem::create_directories(folder / "lists/deep");
  write_file(folder / "lists/a.json", R"([{"input_size": 4, "output_size": 6}])");
  write_file(folder / "lists/deep/b.json", R"([{"input_size": 8, "output_size": 12}])");
  write_file(folder / "lists/notes.txt", "no op list");
}

}  // namespace

TEST_CASE("the JSON of several op lists is an array of what each one gives") {
  const TempDir folder;
  const json both = json::parse(output_of({"analyze", "@softmax", "@swiglu_ffn"}, folder));
  REQUIRE(both.size() == 2);
  CHECK(both[0] == json::parse(output_of({"analyze", "@softmax"}, folder)));
  CHECK(both[1] == json::parse(output_of({"analyze", "@swiglu_ffn"}, folder)));
}

TEST_CASE("a folder stands for the op lists in it and below it") {
  const TempDir folder;
  write_lists(folder);
  CHECK(output_of({"analyze", "lists", "-f", "csv"}, folder) ==
        "name,plan,unfused_bytes,fused_bytes,savings_bytes,savings_pct,speedup_estimate\n"
        "a,auto,20,20,0,0.0,1.0\n"
        "b,auto,40,40,0,0.0,1.0\n");
  CHECK(output_of({"analyze", "lists/deep"}, folder).starts_with("{"));  // one of them
}

TEST_CASE("a table and Markdown show several op lists below each other") {
  const TempDir folder;
  write_lists(folder);
  for (const std::string format : {"table", "markdown"}) {
    const std::string one = output_of({"analyze", "lists/a.json", "-f", format}, folder);
    const std::string other = output_of({"analyze", "lists/deep/b.json", "-f", format}, folder);
    const std::string both = output_of({"analyze", "lists", "-f", format}, folder);
    CHECK(both.starts_with(one + "\n"));
    CHECK(both.find(other) != std::string::npos);
  }
}

TEST_CASE("compare reads the result of several op lists") {
  const TempDir folder;
  write_lists(folder);
  write_file(folder / "base.json", output_of({"analyze", "lists"}, folder));
  write_file(folder / "lists/deep/b.json", R"([{"input_size": 8, "output_size": 13}])");
  write_file(folder / "new.json", output_of({"analyze", "lists"}, folder));
  CHECK(invoke({"compare", "base.json", "base.json"}).in(folder.path()).outcome().exit_code == 0);
  const Outcome worse = invoke({"compare", "base.json", "new.json"}).in(folder.path()).outcome();
  CHECK(worse.exit_code == 1);
  CHECK(worse.out.find("\"b\"") != std::string::npos);
}

TEST_CASE("what cannot be one document is refused before anything is read") {
  const TempDir folder;
  write_lists(folder);
  const std::string one =
      " shows one op list, and 2 were given; give one, or write table, json, csv, markdown or html";
  check_refused({"analyze", "lists", "-f", "dot"}, folder, "dot" + one);
  check_refused({"analyze", "@softmax", "@fma", "-o", "drawing.mmd"}, folder, "mermaid" + one);
  std::filesystem::create_directory(folder / "empty");
  check_refused({"analyze", "empty"}, folder,
                "empty: holds no op list and no model (.json, .pt2 or .onnx)");
  check_refused({"analyze", "lists", "-o", "lists/out.json"}, folder,
                "-o lists/out.json: the command reads the files in lists, and would read this one "
                "with them; write to another folder");
}

TEST_CASE("standard input is read once") {
  const TempDir folder;
  for (const std::string command : {"analyze", "measure"}) {
    check_refused({command, "-", "@fma", "-"}, folder,
                  "standard input (-) is given twice; use a file for one");
  }
}

TEST_CASE("one bad op list among several prints nothing") {
  const TempDir folder;
  write_lists(folder);
  write_file(folder / "bad.json", "{}");
  check_refused({"analyze", "lists", "bad.json"}, folder,
                R"(bad.json: missing key "ops" (or "operations" for a list of sizes))");
}

TEST_CASE("JSON of op lists with the same name is written, and standard error says so") {
  const TempDir folder;
  for (const std::string in : {"a", "b"}) {
    std::filesystem::create_directories(folder / ("lists/" + in));
    write_file(folder / ("lists/" + in + "/ok.json"), R"([{"input_size": 4, "output_size": 6}])");
  }
  const Outcome outcome = invoke({"analyze", "lists", "-f", "json"}).in(folder.path()).outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out).size() == 2);
  CHECK(outcome.err ==
        "fusecalc: two results are named \"ok\", and compare refuses a document with both; give "
        "each op list its own \"name\", or write one file each\n");
  CHECK(
      output_of({"analyze", "lists", "-f", "csv"}, folder).ends_with("ok,auto,20,20,0,0.0,1.0\n"));
}
