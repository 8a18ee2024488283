#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;
namespace fs = std::filesystem;

namespace {

// 7 elements in all: 14 bytes unfused; 1 in and 4 out: 10 bytes fused; 28.57 % saved, 1.4 times.
const std::string kOps =
    R"([{"input_size": 1, "output_size": 1}, {"input_size": 1, "output_size": 4}])";

std::string csv_line(const std::string& rest) {
  return "name,plan,unfused_bytes,fused_bytes,savings_bytes,savings_pct,speedup_estimate\n" + rest +
         "\n";
}

void check_refused(const Outcome& outcome, const std::string& line) {
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err == line + "\n");
}

}  // namespace

TEST_CASE("a dash reads standard input") {
  const Outcome outcome = invoke({"analyze", "-", "-f", "csv"}).input(kOps).outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == csv_line("stdin,auto,14,10,4,28.57,1.4"));
  CHECK(outcome.err == "");
}

TEST_CASE("a document that arrives in pieces is read whole") {
  std::string list = "[";
  for (int i = 0; i < 30000; ++i) list += R"({"name": "λ", "input_size": 1, "output_size": 1},)";
  list.back() = ']';
  const Outcome outcome = invoke({"analyze", "-", "-f", "csv"}).input(list).outcome();
  // 60000 elements of 2 bytes against 2; 2 / 60000 is 0.00333 %.
  CHECK(outcome.out == csv_line("stdin,auto,120000,4,119996,100.0,30000.0"));
}

TEST_CASE("the result is named after the document, or else its file") {
  const TempDir folder;
  write_file(folder / "layer.v2.json", kOps);
  write_file(folder / "named.json", "{\"name\": \"my layer\", \"operations\": " + kOps + "}");
  write_file(folder / "bad\nname.json", kOps);
  const auto csv = [&](const std::string& name) {
    return invoke({"analyze", name, "-f", "csv"}).in(folder.path()).outcome().out;
  };
  CHECK(csv("layer.v2.json") == csv_line("layer.v2,auto,14,10,4,28.57,1.4"));
  CHECK(csv("./named.json") == csv_line("my layer,auto,14,10,4,28.57,1.4"));
  CHECK(csv("bad\nname.json") == csv_line("bad\\u000aname,auto,14,10,4,28.57,1.4"));
}

TEST_CASE("the element size on the command line overrides the document's") {
  const std::string document = "{\"dtype_bytes\": 4, \"operations\": " + kOps + "}";
  const auto csv = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"analyze", "-", "-f", "csv"});
    return invoke(options).input(document).outcome().out;
  };
  CHECK(csv({}) == csv_line("stdin,auto,28,20,8,28.57,1.4"));
  CHECK(csv({"--dtype-bytes", "1"}) == csv_line("stdin,auto,7,5,2,28.57,1.4"));
  CHECK(csv({"--dtype-bytes=8"}) == csv_line("stdin,auto,56,40,16,28.57,1.4"));
}

TEST_CASE("an element size on the command line that makes too many bytes is refused") {
  // 7 * 1317624576693539402 is 2^63 + 6; one less is 2^63 - 1.
  const auto run = [&](const std::string& size) {
    return invoke({"analyze", "-", "-f", "csv", "--dtype-bytes", size}).input(kOps).outcome();
  };
  check_refused(run("1317624576693539402"),
                "fusecalc: <stdin>: /1: up to here, 2 + 5 elements of 1317624576693539402 bytes "
                "are more than 9223372036854775807 bytes");
  CHECK(run("1317624576693539401").exit_code == 0);
}

TEST_CASE("a device that does not exist is refused where only sizes are listed, too") {
  const Outcome outcome = invoke({"analyze", "-", "--device", "h2000"}).input(kOps).outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err.starts_with("fusecalc: --device: "));
}

TEST_CASE("a missing file is named with the reason") {
  const TempDir folder;
  fs::create_symlink("nowhere.json", folder / "dangling.json");
  fs::create_symlink("loop.json", folder / "loop.json");
  fs::create_directory(folder / "folder");
  write_file(folder / "file", "");
  const auto run = [&](const std::string& name) {
    return invoke({"analyze", name}).in(folder.path()).outcome();
  };
  check_refused(run("missing.json"), "fusecalc: missing.json: No such file or directory");
  check_refused(run("dangling.json"), "fusecalc: dangling.json: No such file or directory");
  check_refused(run("loop.json"), "fusecalc: loop.json: Too many levels of symbolic links");
  check_refused(run("file/x.json"), "fusecalc: file/x.json: Not a directory");
  check_refused(run("folder"),
                "fusecalc: folder: holds no op list and no model (.json, .pt2 or .onnx)");
  check_refused(run("."), "fusecalc: ./dangling.json: No such file or directory");
  check_refused(run(""), "fusecalc: \"\": No such file or directory");
  check_refused(run("\x1b[31m.json"), "fusecalc: \\u001b[31m.json: No such file or directory");
}

TEST_CASE("a file of weights or a source is refused as what it is, not as faulty JSON") {
  const TempDir folder;
  write_file(folder / "model.safetensors", std::string("\x40\0\0\0\0\0\0\0{", 9));
  write_file(folder / "model.py", "import torch\n");
  write_file(folder / "model.onnx", "");
  write_file(folder / "sizes.bin", kOps);
  const auto run = [&](const std::string& name) {
    return invoke({"analyze", name, "-f", "csv"}).in(folder.path()).outcome();
  };
  const std::string refusal =
      ": neither an op list (JSON) nor a model; models are files of torch.export.save (.pt2) or "
      "ONNX (.onnx)";
  check_refused(run("model.safetensors"), "fusecalc: model.safetensors" + refusal);
  check_refused(run("model.py"), "fusecalc: model.py" + refusal);
  check_refused(run("model.onnx"), "fusecalc: model.onnx: the file is empty");
  CHECK(run("sizes.bin").out == csv_line("sizes,auto,14,10,4,28.57,1.4"));
}

TEST_CASE("a result or a device is refused as what it is, not for its keys") {
  const TempDir folder;
  const auto run = [&](const std::vector<std::string>& arguments) {
    return invoke(arguments).in(folder.path()).outcome();
  };
  run({"analyze", "@fma", "@softmax", "-o", "results.json", "-f", "csv"});
  write_file(folder / "result.json", run({"analyze", "@fma"}).out);
  write_file(folder / "mine.json", run({"devices", "a100"}).out);
  const std::string result =
      "\"fusecalc.analysis/1\" is no op list; fusecalc compare takes results";
  check_refused(run({"analyze", "result.json"}), "fusecalc: result.json: /schema: " + result);
  check_refused(run({"analyze", "results.json"}), "fusecalc: results.json: /schema: " + result);
  check_refused(
      run({"analyze", "mine.json"}),
      "fusecalc: mine.json: /schema: \"fusecalc.device/1\" is no op list; --device takes it");
  write_file(folder / "other.json", R"({"schema": "mine", "ops": []})");
  CHECK(run({"analyze", "other.json"}).err.find("unknown key \"schema\"") != std::string::npos);
}

TEST_CASE("a file that may not be read is named with the reason") {
  if (::geteuid() == 0) {
    MESSAGE("left out: root may read every file");
    return;
  }
  const TempDir folder;
  write_file(folder / "secret.json", kOps);
  fs::permissions(folder / "secret.json", fs::perms::none);
  check_refused(invoke({"analyze", "secret.json"}).in(folder.path()).outcome(),
                "fusecalc: secret.json: Permission denied");
}

TEST_CASE("a folder on standard input is refused like one on the command line") {
  const std::vector<std::string> script = {"-c", R"(exec "$0" analyze - < .)", built_program()};
  check_refused(Invocation("sh", script).outcome(),
                "fusecalc: <stdin>: is a directory; give a file");
}

TEST_CASE("a closed standard input is an error only for the document -") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  const auto run = [&](const std::string& arguments) {
    const std::string script = "exec \"$0\" analyze " + arguments + " <&-";
    return Invocation("sh", {"-c", script, built_program()}).in(folder.path()).outcome();
  };
  check_refused(run("-"), "fusecalc: <stdin>: Bad file descriptor");
  CHECK(run("ops.json -f csv").out == csv_line("ops,auto,14,10,4,28.57,1.4"));
}

TEST_CASE("the same input gives the same bytes") {
  for (const std::string format : {"table", "json", "csv", "markdown"}) {
    CAPTURE(format);
    const auto run = [&] {
      return invoke({"analyze", "-", "-f", format}).input(kOps).outcome().out;
    };
    const std::string first = run();
    CHECK(first != "");
    CHECK(first == run());
  }
}

TEST_CASE("a graph of views alone has a speedup, 0, and an empty one has none") {
  const auto first_row = [](const std::string& ops) {
    const std::string graph = R"({"tensors": {"x": {"shape": [4, 8]}}, "ops": [)" + ops + "]}";
    const Outcome outcome = invoke({"analyze", "-", "-f", "csv"}).input(graph).outcome();
    CHECK(outcome.exit_code == 0);
    const std::size_t from = outcome.out.find('\n') + 1;
    return outcome.out.substr(from, outcome.out.find('\n', from) - from);
  };
  CHECK(first_row(R"({"op": "reshape", "inputs": ["x"], "output": "y", "shape": [32]})") ==
        "stdin,auto,0,0,0,0.0,0.0");
  CHECK(first_row("") == "stdin,auto,0,0,0,0.0,");
}

TEST_CASE("the headline says what is by time and what by bytes, and fastest by which it chooses") {
  // auto has fewer bytes than fastest here, and takes more time.
  std::vector<std::string> words = {
      "analyze", "@weighted_values_residual_layer_norm", "--dim", "D=256", "--dim", "L=4096", "-f",
      "table"};
  const std::string shown = invoke(words).outcome().out;
  CHECK(shown.find("x by predicted time, 1.21x by bytes alone\n") != std::string::npos);
  words.insert(words.end(), {"--plan", "fastest", "--explain"});
  const std::string fastest = invoke(words).outcome().out;
  CHECK(fastest.find("but fastest chooses by predicted time") != std::string::npos);
}

TEST_CASE("the page counts bytes that are moved, and does not call them DRAM traffic") {
  const std::string page = invoke({"analyze", "@softmax", "-f", "html"}).outcome().out;
  CHECK(page.find(" bytes moved with auto") != std::string::npos);
  CHECK(page.find("DRAM traffic with") == std::string::npos);
}
