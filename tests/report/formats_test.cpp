#include "report/formats.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/error.hpp"
#include "support/words.hpp"
#include "support/written.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// 36000 bytes unfused, 4000 fused: 88.89 % saved, 9 times faster.
Analysis layer(const std::string& name) {
  Analysis analysis;
  analysis.name = name;
  analysis.operations = 3;
  analysis.dtype_bytes = 2;
  analysis.unfused = {.read = 18000, .write = 18000};
  analysis.fused = {.read = 1000, .write = 3000};
  return analysis;
}

Analysis nothing() {
  Analysis analysis;
  analysis.name = "none";
  analysis.dtype_bytes = 2;
  return analysis;
}

Analysis loss() {
  Analysis analysis = layer("loss");
  std::swap(analysis.unfused, analysis.fused);
  return analysis;
}

std::string report(std::string_view format, const Analysis& analysis, const Style& style = {}) {
  return written([&](Output& output) { format_named(format).write(analysis, style, output); });
}

}  // namespace

TEST_CASE("csv quotes a name only where it must and doubles the quotes inside") {
  const std::string header =
      "name,plan,unfused_bytes,fused_bytes,savings_bytes,savings_pct,speedup_estimate\n";
  const std::string figures = ",auto,36000,4000,32000,88.89,9.0\n";
  CHECK(report("csv", layer("layer norm")) == header + "layer norm" + figures);
  CHECK(report("csv", layer("a,b")) == header + "\"a,b\"" + figures);
  CHECK(report("csv", layer("say \"hi\"")) == header + "\"say \"\"hi\"\"\"" + figures);
  CHECK(report("csv", layer("two\nlines")) == header + "\"two\nlines\"" + figures);
}

TEST_CASE("csv never starts a cell with a formula, and leaves numbers alone") {
  for (const std::string name :
       {"=1+1", "=HYPERLINK(\"x\")", "+cmd", "-cmd", "@SUM(A1)", "-", "+", "=", "--1", "+-1",
        "-1-1", "-0x10", "-inf", "-nan", "1e5=", "\uFF1DA1", "\uFF0B1", "\uFF0D1", "\uFF20A1"}) {
    CAPTURE(name);
    const bool is_text = name == "1e5=";
    const std::string row = report("csv", layer(name));
    const std::string cell = row.substr(row.find('\n') + 1);
    CHECK((cell.starts_with("'") || cell.starts_with("\"'")) == !is_text);
  }
  for (const std::string number : {"-1", "-1.5", "+2", "-1e-7", "+0.5", "12", "-0"}) {
    CHECK(contains(report("csv", layer(number)), "\n" + number + ",auto,"));
  }
  CHECK(contains(report("csv", layer("=a,\"b\"")), "\n\"'=a,\"\"b\"\"\",auto,"));
}

TEST_CASE("csv leaves the speedup of an empty list empty") {
  CHECK(contains(report("csv", nothing()), "\nnone,auto,0,0,0,0.0,\n"));
}

TEST_CASE("json has the contract's keys in its order") {
  CHECK(report("json", layer("layer \"1\"")) == R"({
  "schema": "fusecalc.analysis/1",
  "name": "layer \"1\"",
  "plan": "auto",
  "unfused_bytes": 36000,
  "fused_bytes": 4000,
  "savings_bytes": 32000,
  "savings_pct": 88.89,
  "speedup_estimate": 9.0,
  "dtype_bytes": 2
}
)");
}

TEST_CASE("json of an empty list has no speedup") {
  const std::string text = report("json", nothing());
  CHECK(contains(text, "\"savings_pct\": 0.0,\n"));
  CHECK_FALSE(contains(text, "speedup_estimate"));
}

TEST_CASE("markdown shows any name as it is written") {
  const auto heading = [](const std::string& name) {
    const std::string text = report("markdown", layer(name));
    return text.substr(0, text.find('\n'));
  };
  CHECK(heading("layer norm") == "### layer norm");
  CHECK(heading("a|b*c_d`e") == "### a\\|b\\*c\\_d\\`e");
  CHECK(heading("<b>#1</b>") == "### \\<b\\>\\#1\\</b\\>");
  CHECK(heading("[x](y) &amp;") == "### \\[x\\](y) \\&amp;");
  CHECK(heading("two\nlines") == "### two\\\\u000alines");
}

TEST_CASE("markdown and table say that there is nothing to fuse") {
  CHECK(contains(report("markdown", nothing()), "\nNo operations.\n"));
  CHECK(contains(report("table", nothing()), "none: 0 operations, 2 bytes an element\n"));
  CHECK_FALSE(contains(report("table", nothing()), "speedup"));
}

TEST_CASE("a table uses the singular for one") {
  Analysis analysis = layer("one");
  analysis.operations = 1;
  analysis.dtype_bytes = 1;
  CHECK(contains(report("table", analysis), "one: 1 operation, 1 byte an element\n"));
}

TEST_CASE("a plan that moves more bytes is reported as such") {
  CHECK(contains(report("table", loss()), "fusion moves 32.00 kB more (-800.0 %), "));
  CHECK(contains(report("markdown", loss()), "**-800.0 %**"));
  CHECK(contains(report("json", loss()), "\"savings_bytes\": -32000,"));
  CHECK(contains(report("csv", loss()), ",-32000,-800.0,0.11\n"));
}

TEST_CASE("a table's bars are proportional to the shares and never too long") {
  const std::string full = "████████████████████████";  // 24 cells
  const std::string text = report("table", layer("bars"));
  CHECK(contains(text, "36.00 kB  " + full + "\n"));
  CHECK(contains(text, "4.000 kB  ██▋\n"));  // 24 / 9 cells: 2 and 5.33 eighths
  CHECK(contains(report("table", loss()), "36.00 kB  " + full + "\n"));
}

TEST_CASE("only a table has colour, and only when asked") {
  for (const std::string_view format : {"table", "json", "csv", "markdown"}) {
    CAPTURE(format);
    CHECK_FALSE(contains(report(format, layer("x")), "\x1b"));
    CHECK(contains(report(format, layer("x"), {.colour = true}), "\x1b") == (format == "table"));
  }
}

TEST_CASE("a name cannot steer the terminal through a table or markdown") {
  const Analysis analysis = layer("\x1b[2Jgone");
  CHECK_FALSE(contains(report("table", analysis), "\x1b"));
  CHECK_FALSE(contains(report("markdown", analysis), "\x1b"));
}

TEST_CASE("a file's extension gives the format") {
  CHECK(format_for_file("a.txt").name == "table");
  CHECK(format_for_file("folder.csv/a.json").name == "json");
  CHECK(format_for_file("a.b.csv").name == "csv");
  CHECK(format_for_file("a.md").name == "markdown");
  CHECK(format_for_file("a.benchmark.json").name == "benchmark");
  CHECK(format_for_file("benchmark.json").name == "json");
}

TEST_CASE("an unknown file extension is refused with the known ones") {
  for (const std::string name :
       {"a.xml", "a", "json", ".json", "a.json.gz", "a.JSON", "", "b/.csv"}) {
    CAPTURE(name);
    const std::string message = "-o " + name +
                                ": the format follows from the extension; end the name in .txt, "
                                ".json, .csv, .md, .html, .dot, .mmd or .benchmark.json";
    CHECK_THROWS_WITH_AS(format_for_file(name), message.c_str(), Error);
  }
}
