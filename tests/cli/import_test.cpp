#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/files.hpp"
#include "support/invocation.hpp"
#include "support/schema_check.hpp"

using namespace fusecalc::testing;
using nlohmann::json;

namespace {

std::string model_file(const std::string& name) {
  return (tests_folder("input/pt2") / name).string();
}

json schema_of(const std::string& document) {
  return json::parse(invoke({"schema", document}).outcome().out);
}

}  // namespace

TEST_CASE("import: analyzing the op list is analyzing the model, byte for byte") {
  for (const std::string name : {"layer.pt2", "layer.raw.pt2"}) {
    CAPTURE(name);
    const TempDir folder;
    const std::string list = (folder / "ops.json").string();
    const Outcome made = invoke({"import", model_file(name), "-o", list}).outcome();
    CHECK(made.exit_code == 0);
    CHECK(made.out == "");
    for (const std::string format : {"json", "csv", "markdown"}) {
      const Outcome direct = invoke({"analyze", model_file(name), "-f", format}).outcome();
      const Outcome imported = invoke({"analyze", list, "-f", format}).outcome();
      CHECK(direct.exit_code == 0);
      CHECK(direct.out == imported.out);
      CHECK(direct.err == made.err);
      CHECK(imported.err == "");
    }
  }
}

TEST_CASE("import: the op list goes to standard output, the summary to a file and in one line") {
  const TempDir folder;
  const std::string file = (folder / "summary.json").string();
  const Outcome outcome = invoke({"import", model_file("layer.pt2"), "--summary", file}).outcome();
  CHECK(outcome.exit_code == 0);
  const json list = json::parse(outcome.out);
  CHECK(list["name"] == "layer");
  const json summary = json::parse(read_file(file));
  CHECK(fusecalc::schema_violation(summary, schema_of("import")) == "");
  CHECK(summary["model"] == "layer");
  CHECK(summary["nodes"] == 29);
  CHECK(summary["opaque"] == 0);
  CHECK(summary["exact"].get<int>() + summary["views"].get<int>() + summary["folded"].get<int>() ==
        29);
  CHECK(outcome.err.starts_with("fusecalc: layer: 29 nodes: "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
}

TEST_CASE("import: a model's dims") {
  const Outcome plain = invoke({"analyze", model_file("layer.pt2"), "-f", "csv"}).outcome();
  const Outcome longer =
      invoke({"analyze", model_file("layer.pt2"), "-f", "csv", "--dim", "s27=64"}).outcome();
  CHECK(plain.exit_code == 0);
  CHECK(longer.exit_code == 0);
  CHECK(plain.out != longer.out);
  const Outcome beyond = invoke({"analyze", model_file("layer.pt2"), "--dim", "s27=1"}).outcome();
  CHECK(beyond.exit_code == 2);
  CHECK(beyond.err == "fusecalc: " + model_file("layer.pt2") +
                          ": --dim s27=1: the model was exported for 2 to 4096\n");
}

TEST_CASE("import: a model from a pipe is read as the same model") {
  const std::string bytes = read_file(model_file("layer.pt2"));
  const Outcome piped = invoke({"import", "-"}).input(bytes).outcome();
  const Outcome file = invoke({"import", model_file("layer.pt2")}).outcome();
  CHECK(piped.exit_code == 0);
  json list = json::parse(piped.out);
  CHECK(list["name"] == "stdin");
  list["name"] = "layer";
  CHECK(list == json::parse(file.out));
}

TEST_CASE("import: what is no model, or a damaged one, is refused in one line") {
  const TempDir folder;
  write_file(folder / "ops.json", R"([{"input_size": 1, "output_size": 1}])");
  const Outcome list = invoke({"import", "ops.json"}).in(folder.path()).outcome();
  CHECK(list.exit_code == 2);
  CHECK(list.err == "fusecalc: ops.json: is an op list already; import takes a model file\n");
  const Outcome empty = invoke({"import", "-"}).input("").outcome();
  CHECK(empty.exit_code == 2);
  CHECK(empty.err == "fusecalc: <stdin>: is empty; import takes a model file\n");
  const std::string bytes = read_file(model_file("layer.pt2"));
  write_file(folder / "short.pt2", bytes.substr(0, bytes.size() / 2));
  for (const std::string command : {"import", "analyze"}) {
    const Outcome cut = invoke({command, "short.pt2"}).in(folder.path()).outcome();
    CHECK(cut.exit_code == 2);
    CHECK(cut.out == "");
    CHECK(cut.err ==
          "fusecalc: short.pt2: the archive is truncated: its list of entries is missing\n");
  }
}

TEST_CASE("import: where a command fails, the error is the only line on standard error") {
  const TempDir folder;
  const std::string model = model_file("layer.pt2");
  write_file(folder / "bad.json", "{");
  const auto check_alone = [&](const std::vector<std::string>& arguments,
                               const std::string& error) {
    const Outcome outcome = invoke(arguments).in(folder.path()).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err.starts_with("fusecalc: " + error));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  };
  check_alone({"analyze", model, "bad.json"}, "bad.json: ");
  check_alone({"analyze", model, "-o", "missing/x.json"}, "cannot write missing/x.json: ");
  check_alone({"import", model, "-o", "missing/x.json"}, "cannot write missing/x.json: ");
  check_alone({"import", model, "--summary", "missing/x.json"}, "cannot write missing/x.json: ");
  const Outcome twice = invoke({"analyze", model, model, "-f", "csv"}).outcome();
  CHECK(twice.exit_code == 0);
  const std::string line = invoke({"analyze", model, "-f", "csv"}).outcome().err;
  CHECK(twice.err == line + line);
}

TEST_CASE("import: the model that the guide starts from is the one of these tests") {
  CHECK(read_file(tests_folder("../examples") / "layer.pt2") == read_file(model_file("layer.pt2")));
}

TEST_CASE("import: a dash is standard output, and other files than two of JSON are refused") {
  const TempDir folder;
  const std::string model = model_file("layer.pt2");
  const Outcome plain = invoke({"import", model}).in(folder.path()).outcome();
  const Outcome dash = invoke({"import", model, "-o", "-"}).in(folder.path()).outcome();
  CHECK(dash.exit_code == 0);
  CHECK(dash.out == plain.out);
  const auto refused = [&](std::vector<std::string> options, const std::string& why) {
    options.insert(options.begin(), {"import", model});
    const Outcome outcome = invoke(options).in(folder.path()).outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err == "fusecalc: " + why + "\n");
  };
  refused({"-o", "x.csv"}, "-o x.csv: import writes JSON, not csv; name a .json file");
  refused({"--summary", "x.md"},
          "--summary x.md: import writes JSON, not markdown; name a .json file");
  refused({"-o", "f.json", "--summary", "./f.json"},
          "-o f.json and --summary ./f.json are one file; name two");
  refused({"--summary", "-"}, "--summary -: standard output is the op list's; name a file");
  CHECK(names_in(folder.path()).empty());
}
