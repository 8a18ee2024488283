// What `fusecalc compare` takes and refuses, and what it writes, through the real binary.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "compare/gate.hpp"

using namespace fusecalc::testing;

TEST_CASE(
    "compare: different devices, dims, dtypes and schemas are refused, and allowed by --force") {
  const auto refused = [](const json& base, const json& fresh, const std::string& why) {
    Gate gate(base, fresh);
    CHECK(gate.run() == 2);
    CHECK(gate.out == "");
    CHECK_MESSAGE(contains(gate.err, why), gate.err);
    CHECK(contains(gate.err, "--force"));
    CHECK(gate.run({"--force", "--no-fail"}) == 0);
    CHECK(contains(gate.document["notes"].dump(), "compared anyway"));
  };
  json other = measurement();
  other["device"]["name"] = "GPU B";
  refused(measurement(), other, "fusecalc: new.json: device is GPU B, but GPU A in base.json; ");
  const json ops = json::parse(kOps);
  refused(analysis_of(ops), analysis_of(ops, {"--dim", "N=2000"}),
          "dim N is 2000, but 1000 in base.json (and 2 more); ");
  json half = ops;
  half["dtype"] = "f16";
  refused(analysis_of(ops), analysis_of(half), "dtype of r is f16, but f32 in base.json");
  const json sizes = json::parse(R"([{"input_size": 10, "output_size": 10}])");
  refused(analysis_of(sizes), analysis_of(sizes, {"--dtype-bytes", "4"}),
          "dtype_bytes is 4, but 2 in base.json");
  refused(analysis_of(ops), analysis_of(ops, {"--device", "a100"}),
          "device is a100, but h200 in base.json");
  refused(analysis_of(ops), measurement(),
          "the schema is \"fusecalc.measurement/1\", but base.json has \"fusecalc.analysis/1\"");
  json old = analysis_of(ops);
  old["schema"] = "fusecalc.analysis/0";
  refused(old, analysis_of(ops),
          "fusecalc: base.json: /schema: \"fusecalc.analysis/0\" is not the version");
  json same_model = measurement();
  same_model["device"]["uuid"] = "GPU-2";
  Gate twin(measurement(), same_model);
  CHECK(twin.run() == 0);
  CHECK(contains(twin.document["notes"].dump(), "device uuid changed from GPU-1 to GPU-2"));
}

TEST_CASE("compare: documents that are not results are refused, with the location") {
  const TempDir folder;
  write_file(folder / "good.json", analysis_of(json::parse(kOps)).dump());
  const auto refused = [&](const std::string& text, const std::string& why) {
    write_file(folder / "bad.json", text);
    for (const Words& pair : {Words{"good.json", "bad.json"}, Words{"bad.json", "good.json"}}) {
      const Outcome outcome = invoke({"compare", pair[0], pair[1]}).in(folder.path()).outcome();
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.out == "");
      CHECK(outcome.err == "fusecalc: bad.json: " + why + "\n");
    }
  };
  refused("", "line 1, column 1: not JSON: the document is empty");
  refused(R"({"schema": "fusecalc.analysis/1", "fused_bytes": NaN})",
          "line 1, column 50: not JSON: expected a value, found \"NaN\" (NaN and Infinity are not "
          "JSON)");
  refused(R"({"schema": "fusecalc.analysis/1", "fused_bytes": -1})",
          "/fused_bytes: must not be negative, but is -1");
  refused(R"({"schema": "fusecalc.analysis/1", "plans": {"auto": {"kernels": [{"read": "x"}]}}})",
          "/plans/auto/kernels/0/read: must be a number of bytes, not a string");
  refused(
      R"({"schema": "fusecalc.measurement/1", "plans": {"a": {"measured": {"time_us": {"p10": 1e999}}}}})",
      "/plans/a/measured/time_us/p10: must be a time in microseconds, not 1e999");
  refused(R"("text")", "must be an object, not a string");
  refused(R"([{"schema": "fusecalc.analysis/1", "dims": []}])",
          "/0/dims: must be an object, not an array");
  refused(R"([{"input_size": 1, "output_size": 1}])",
          "/0: not a result: it has no \"schema\"; compare takes what analyze, measure, profile or "
          "sweep wrote "
          "with -o FILE.json");
  refused(kOps,
          "not a result: it has no \"schema\"; compare takes what analyze, measure, profile or "
          "sweep wrote with "
          "-o FILE.json");
  refused(R"({"schema": "fusecalc.comparison/1"})",
          "/schema: \"fusecalc.comparison/1\" is not a result; compare takes fusecalc.analysis/1, "
          "fusecalc.measurement/1, fusecalc.profile/1 or fusecalc.sweep/1");
  refused(R"({"x": )" + std::string(100, '[') + std::string(100, ']') + "}", "/x" + [] {
    std::string zeros;
    for (int i = 0; i < 62; ++i) zeros += "/0";
    return zeros;
  }() + "/0: must not be nested more than 64 levels deep");
  const Outcome missing = invoke({"compare", "good.json", "gone.json"}).in(folder.path()).outcome();
  CHECK(missing.exit_code == 2);
  CHECK(missing.err == "fusecalc: gone.json: No such file or directory\n");
}

TEST_CASE("compare: folders are paired by file name, and a missing spec fails") {
  const TempDir folder;
  const std::string result = analysis_of(json::parse(kOps)).dump();
  for (const char* name : {"base", "new", "empty"}) {
    std::filesystem::create_directory(folder / name);
  }
  const auto run = [&](Words arguments) {
    arguments.insert(arguments.begin(), "compare");
    return invoke(arguments).in(folder.path()).outcome();
  };
  write_file(folder / "base/a.json", result);
  write_file(folder / "base/b.json", result);
  write_file(folder / "base/README.md", "no result");
  write_file(folder / "new/a.json", result);
  write_file(folder / "new/b.json", result);
  CHECK(run({"base", "new"}).exit_code == 0);
  // Folders in the folder, and other spellings of the extension.
  std::filesystem::create_directories(folder / "base/deep/er");
  write_file(folder / "base/deep/er/d.JSON", result);
  const Outcome deep = run({"base", "new"});
  CHECK(deep.exit_code == 1);
  CHECK(contains(deep.err, "deep/er/d: removed: new has no result of that name"));
  CHECK(run({"base", "new", "--allow-missing"}).exit_code == 0);
  std::filesystem::create_directories(folder / "new/deep/er");
  write_file(folder / "new/deep/er/d.json", result);
  CHECK(run({"base", "new"}).exit_code == 0);
  // Links that lead back are followed once, and a pipe is not waited for.
  std::filesystem::create_directory_symlink(".", folder / "new/again");
  std::filesystem::create_directory_symlink(".", folder / "new/and_again");
  CHECK(run({"base", "new"}).exit_code == 0);
  std::filesystem::remove(folder / "new/again");
  std::filesystem::remove(folder / "new/and_again");
  REQUIRE(::mkfifo((folder / "new/pipe.json").c_str(), 0600) == 0);
  CHECK(run({"base", "new"}).err == "fusecalc: new/pipe.json: not a regular file\n");
  std::filesystem::remove(folder / "new/pipe.json");
  std::filesystem::remove_all(folder / "base/deep");
  std::filesystem::remove_all(folder / "new/deep");
  write_file(folder / "new/c.json", result);
  const Outcome added = run({"base", "new", "-f", "table"});
  CHECK(added.exit_code == 0);
  CHECK(contains(added.out, "c    "));
  CHECK(contains(added.out, "passed: 1 added, 10 same"));
  CHECK(run({"base", "new", "--strict"}).exit_code == 1);
  std::filesystem::remove(folder / "new/b.json");
  const Outcome missing = run({"base", "new"});
  CHECK(missing.exit_code == 1);
  CHECK(missing.err ==
        "fusecalc: new: worse than base: b: removed: new has no result of that name\n");
  const Outcome nothing = run({"base", "empty"});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.out == "");
  CHECK(nothing.err ==
        "fusecalc: nothing to compare: base and empty have no result names in common\n");
  CHECK(run({"empty", "empty"}).exit_code == 2);
  CHECK(run({"base", "new/a.json"}).err ==
        "fusecalc: compare: base is a folder and new/a.json is not; give two files or two "
        "folders\n");
}

TEST_CASE("compare: in folders, a file of one result is found in the list that it became") {
  const TempDir folder;
  std::filesystem::create_directory(folder / "base");
  std::filesystem::create_directory(folder / "new");
  const auto named = [](const char* name) {
    json result = measurement();
    result["name"] = name;
    return result;
  };
  const auto run = [&](const json& base, const json& fresh) {
    write_file(folder / "base/suite.json", base.dump());
    write_file(folder / "new/suite.json", fresh.dump());
    const Outcome outcome =
        invoke({"compare", "base", "new", "-f", "json"}).in(folder.path()).outcome();
    return std::pair(outcome.exit_code, outcome.out.empty() ? json() : json::parse(outcome.out));
  };
  const auto [code, document] = run(named("a"), json::array({named("a"), named("b")}));
  CHECK(code == 0);
  CHECK(document["specs"] == json({"a", "b"}));
  CHECK(document["counts"]["added"] == 1);
  const auto [back, reversed] = run(json::array({named("a"), named("b")}), named("a"));
  CHECK(back == 1);
  CHECK(reversed["counts"]["removed"] == 1);
  json slower = named("a");
  slower["plans"]["auto"]["total"] = 9000000;
  CHECK(run(named("a"), json::array({slower, named("b")})).first == 1);
  CHECK(run(named("a"), json::array()).first == 2);   // nothing in common
  CHECK(run(named("a"), named("other")).first == 0);  // one each: a pair, whatever their names
}

TEST_CASE("compare: lists of results are paired by their names") {
  const auto named = [](const std::string& name) {
    json result = measurement();
    result["name"] = name;
    return result;
  };
  Gate gate(json::array({named("a"), named("b")}), json::array({named("b"), named("c")}));
  CHECK(gate.run() == 1);
  CHECK(gate.err ==
        "fusecalc: new.json: worse than base.json: a: removed: new.json has no result "
        "of that name\n");
  CHECK(gate.document["specs"] == json({"a", "b", "c"}));
  Gate one_of_them(json::array({named("a"), named("b")}), named("b"));
  CHECK(one_of_them.run() == 1);
  CHECK(one_of_them.document["counts"]["removed"] == 1);
  Gate lone(named("a"), named("b"));
  CHECK(lone.run() == 0);  // two files are a pair, whatever they are called
  Gate none(json::array(), json::array());
  CHECK(none.run() == 2);
  Gate twice(json::array({named("a"), named("a")}), named("a"));
  CHECK(twice.run() == 2);
  CHECK(contains(twice.err, "base.json: two results are named \"a\""));
}

TEST_CASE("compare: one side may be standard input, and not both") {
  const TempDir folder;
  const std::string result = analysis_of(json::parse(kOps)).dump();
  write_file(folder / "base.json", result);
  const auto run = [&](const std::string& base, const std::string& fresh) {
    return invoke({"compare", base, fresh}).in(folder.path()).input(result).outcome();
  };
  CHECK(run("base.json", "-").exit_code == 0);
  CHECK(run("-", "base.json").exit_code == 0);
  const Outcome both = run("-", "-");
  CHECK(both.exit_code == 2);
  CHECK(both.out == "");
}

TEST_CASE("compare: results without common figures are refused") {
  Gate gate({{"schema", "fusecalc.analysis/1"}}, {{"schema", "fusecalc.analysis/1"}});
  CHECK(gate.run() == 2);
  CHECK(gate.err ==
        "fusecalc: nothing to compare: base.json and new.json have no figures in common\n");
}

TEST_CASE("compare: output files tell of results that cannot be compared, and of the others") {
  const TempDir folder;
  json ops = json::parse(kOps);
  for (const char* name : {"base", "new"}) std::filesystem::create_directory(folder / name);
  for (const char* file : {"base/a.json", "base/b.json", "new/b.json"}) {
    write_file(folder / file, analysis_of(ops).dump());
  }
  ops["dims"]["M"] = 3;
  write_file(folder / "new/a.json", analysis_of(ops).dump());
  const Outcome outcome =
      invoke({"compare", "base", "new", "-o", "v.json", "-o", "v.xml", "-o", "v.html"})
          .in(folder.path())
          .outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err ==
        "fusecalc: new/a.json: dim M is 3, but not recorded in base/a.json; compare matching "
        "results, or override with --force\n");
  const std::string why = "not comparable: dim M is 3, but not recorded in base/a.json";
  const json verdict = json::parse(read_file(folder / "v.json"));
  CHECK(verdict["verdict"] == "fail");
  CHECK(verdict["specs"] == json({"a", "b"}));
  CHECK(verdict["counts"]["same"] == 5);
  CHECK(verdict["findings"][0]["note"] == why);
  CHECK(contains(read_file(folder / "v.xml"), why));
  CHECK(contains(read_file(folder / "v.html"), why));
}

TEST_CASE("compare: output files are written even if the gate fails") {
  const TempDir folder;
  json ops = json::parse(kOps);
  write_file(folder / "base.json", analysis_of(ops).dump());
  ops["outputs"] = {"y", "h"};
  write_file(folder / "new.json", analysis_of(ops).dump());
  const Outcome outcome =
      invoke({"compare", "base.json", "new.json", "-o", "v.json", "-o", "v.xml", "-o", "v.md"})
          .in(folder.path())
          .outcome();
  CHECK(outcome.exit_code == 1);
  CHECK(json::parse(read_file(folder / "v.json"))["verdict"] == "fail");
  CHECK(contains(read_file(folder / "v.xml"), "<failure type=\"worse\""));
  CHECK(contains(read_file(folder / "v.md"), "| **worse** |"));
  const Outcome unknown =
      invoke({"compare", "base.json", "new.json", "-o", "v.dot"}).in(folder.path()).outcome();
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.out == "");
  CHECK(unknown.err ==
        "fusecalc: -o v.dot: the format follows from the extension; end the name in .txt, .json, "
        ".csv, .md, .html, .xml or .benchmark.json\n");
}
