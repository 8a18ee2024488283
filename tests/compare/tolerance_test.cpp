// How much may grow, through the real binary.

#include <doctest/doctest.h>

#include <string>

#include "compare/gate.hpp"

using namespace fusecalc::testing;

TEST_CASE("compare: one more byte is within an explicit tolerance, and worse otherwise") {
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  fresh["plans"]["auto"]["total"] = 12120;  // 1 % more
  fresh["fused_bytes"] = 12120;
  Gate gate(base, fresh);
  CHECK(gate.run() == 1);
  CHECK(gate.run({"--tolerance", "bytes=0.9%"}) == 1);
  CHECK(gate.run({"--tolerance", "bytes=1%"}) == 0);
  CHECK(gate.verdict("auto", "bytes") == "within");
  CHECK(gate.run({"--tolerance", "bytes=119"}) == 1);
  CHECK(gate.run({"--tolerance", "bytes=120"}) == 0);
  CHECK(gate.run({"--tolerance", "other*:bytes=1%"}) == 1);
  CHECK(contains(gate.document["notes"].dump(), "no figure matches the tolerance"));
  CHECK(gate.run({"--tolerance", "std??:bytes=1%"}) == 0);
  CHECK(gate.run({"--tolerance", "auto.bytes=1%"}) == 0);
  CHECK(gate.run({"--tolerance", "std??:auto.bytes=120"}) == 0);
  CHECK(gate.run({"--tolerance", "compiler.bytes=1%"}) == 1);
  CHECK(gate.run({"--tolerance", "bytes=1%,auto.bytes=0"}) == 1);
  CHECK(gate.run({"--tolerance", "*/sum*:bytes=1%"}) == 1);                     // of kernels only
  CHECK(gate.run({"--tolerance", "bytes=1%", "--tolerance", "bytes=0"}) == 1);  // the last decides
}

TEST_CASE("compare: invalid tolerances are refused") {
  const TempDir folder;
  write_file(folder / "a.json", analysis_of(json::parse(kOps)).dump());
  const auto refused = [&](const Words& options, const std::string& why) {
    Words arguments = {"compare", "a.json", "a.json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = invoke(arguments).in(folder.path()).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK_MESSAGE(contains(outcome.err, why), outcome.err);
  };
  refused({"--tolerance", "1%"}, "must have the form bytes=0,dram=1%,time=5%, not \"1%\"");
  refused({"--tolerance", "byte=1%"}, "\"byte\" is not one of bytes, dram or time (did you mean");
  refused({"--tolerance", "time=5"},
          "time must be a percentage such as 5%, a time such as 2us, or 0");
  refused({"--tolerance", "bytes=-1%"},
          "bytes must be a percentage such as 1%, a number of bytes, or 0");
  refused({"--tolerance", "bytes=1.5"}, "bytes must be");
  refused({"--tolerance", "bytes=1%,bytes=2%"}, "bytes is given twice");
  refused({"--tolerance", "auto.byte=1%"}, "\"byte\" is not one of bytes, dram or time (did you");
  refused({"--tolerance", ".bytes=1%"}, "\".bytes=1%\" names no plan before the point");
  refused({"--tolerance-file", "gone.json"}, "gone.json: No such file");
  const auto file = [&](const std::string& text, const std::string& why) {
    write_file(folder / "t.json", text);
    refused({"--tolerance-file", "t.json"}, "fusecalc: t.json: " + why);
  };
  file(R"({"bites": "1%"})", "/bites: unknown key \"bites\" (did you mean \"bytes\"?)");
  file(R"({"time": 5})",
       "/time: must be a percentage such as 5%, a time such as 2us, or 0, not \"5\"");
  file(R"({"rules": [{"spec": "a"}]})", "/rules/0: needs one of bytes, dram or time");
  file(R"({"schema": "fusecalc.tolerances/2"})", "/schema: must be \"fusecalc.tolerances/1\"");
}

TEST_CASE("compare: rules of a file come before those of the command line") {
  const TempDir folder;
  json base = analysis_of(json::parse(kOps));
  json fresh = base;
  fresh["plans"]["auto"]["total"] = 12120;
  fresh["fused_bytes"] = 12120;
  write_file(folder / "base.json", base.dump());
  write_file(folder / "new.json", fresh.dump());
  const auto code = [&](const std::string& rules, const Words& more = {}) {
    write_file(folder / "t.json", rules);
    Words arguments = {"compare", "base.json", "new.json", "--tolerance-file", "t.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return invoke(arguments).in(folder.path()).outcome().exit_code;
  };
  CHECK(code("{}") == 1);
  CHECK(code(R"({"bytes": "1%"})") == 0);
  CHECK(code(R"({"bytes": 120})") == 0);
  CHECK(code(R"({"bytes": "1%", "rules": [{"plan": "auto", "bytes": 0}]})") == 1);
  CHECK(code(R"({"rules": [{"plan": "auto", "bytes": "1%"}], "bytes": 0})") == 0);
  CHECK(code(R"({"rules": [{"spec": "std*", "bytes": "1%"}]})") == 0);
  CHECK(code(R"({"bytes": "1%"})", {"--tolerance", "bytes=0"}) == 1);
}
