// `fusecalc sweep`, through the real binary.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "input/onnx/proto.hpp"
#include "support/files.hpp"
#include "support/invocation.hpp"
#include "support/words.hpp"

namespace fusecalc {
namespace {

using nlohmann::json;
using testing::invoke;
using testing::Outcome;
using testing::TempDir;
using testing::Words;

// x + r, then each row's softmax: 4 bytes per element. On an a10, a row of 65536 does not fit on
// chip; on an h200, one of 32768 does.
constexpr const char* kOps = R"({"name": "pair", "dtype": "f32", "dims": {"N": 8, "M": 2},
  "tensors": {"x": {"shape": ["M", "N"]}, "r": {"shape": ["M", "N"]}},
  "ops": [{"name": "sum", "op": "add", "inputs": ["x", "r"], "output": "h"},
          {"name": "soft", "op": "softmax", "inputs": ["h"], "output": "y"}]})";

class SweepFolderOf {
 public:
  SweepFolderOf() { testing::write_file(folder_ / "ops.json", kOps); }

  Outcome sweep(Words words) {
    words.insert(words.begin(), "sweep");
    return invoke(std::move(words)).in(folder_.path()).outcome();
  }
  // The document of one that ends well.
  json document(const Words& words, int code = 0) {
    const Outcome outcome = sweep(words);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == code);
    return json::parse(outcome.out);
  }
  std::filesystem::path operator/(std::string_view name) const { return folder_ / name; }

 private:
  TempDir folder_;
};

TEST_CASE("sweep: every combination is a point, with the figures of every plan") {
  SweepFolderOf folder;
  const json sweep = folder.document(
      {"ops.json", "--dim", "N=8,16", "--dim", "M=2..4", "--device", "h200,a10", "--dir", "d"});
  REQUIRE(sweep["points"].size() == 12);
  CHECK(sweep["swept"] == json::parse(R"({"N": [8, 16], "M": [2, 3, 4]})"));
  const json& last = sweep["points"][11];
  CHECK(last["dims"] == json::parse(R"({"N": 16, "M": 4})"));
  CHECK(last["device"]["name"] == "a10");
  // 64 elements of 4 bytes: unfused reads 2 + 1 tensors and writes 2, fused reads 2 and writes 1.
  CHECK(last["plans"]["unfused"]["total"] == 5 * 64 * 4);
  CHECK(last["plans"]["auto"]["read"] == 2 * 64 * 4);
  CHECK(last["plans"]["auto"]["write"] == 64 * 4);
  CHECK(!last["plans"]["auto"].contains("kernels"));
  CHECK(sweep["counts"] == json::parse(R"({"done": 12, "failed": 0, "missing": 0})"));
  const json schema = json::parse(invoke({"schema", "sweep"}).outcome().out);
  CHECK(schema["properties"]["schema"]["const"] == sweep["schema"]);
}

TEST_CASE("sweep: devices may be files, which count as they are when points run") {
  SweepFolderOf folder;
  std::string mine = invoke({"devices", "a10"}).outcome().out;
  mine.replace(mine.find("\"a10\""), 5, "\"mine\"");
  testing::write_file(folder / "mine.json", mine);
  const Words words = {"ops.json", "--device", "mine.json,a10", "--dir", "d"};
  const json sweep = folder.document(words);
  CHECK(sweep["points"][0]["device"]["name"] == "mine");
  CHECK(sweep["points"][0]["plans"] == sweep["points"][1]["plans"]);
  CHECK(contains(folder.sweep(words).err, "0 points run, 2 had their results"));
  mine.replace(mine.find("\"multiprocessors\": 72"), 21, "\"multiprocessors\": 36");
  testing::write_file(folder / "mine.json", mine);
  CHECK_FALSE(contains(folder.sweep(words).err, "had their results"));
}

TEST_CASE("sweep: the result of a point is what analyze writes") {
  SweepFolderOf folder;
  folder.document({"ops.json", "--dim", "N=32", "--device", "l4", "--dir", "d"});
  const Words names = testing::names_in(folder / "d/points");
  REQUIRE(names.size() == 1);
  const Outcome analysis =
      invoke({"analyze", "ops.json", "--dim", "N=32", "--device", "l4", "-f", "json"})
          .in(folder / ".")
          .outcome();
  CHECK(testing::read_file(folder / "d/points" / names[0]) == analysis.out);
}

TEST_CASE("sweep: a model file is read again for every value of its symbols") {
  SweepFolderOf folder;
  const std::string model = (testing::tests_folder("input") / "pt2/layer.pt2").string();
  folder.document({model, "--dim", "s27=8,16", "--dir", "d"});
  const Words names = testing::names_in(folder / "d/points");
  REQUIRE(names.size() == 2);
  CHECK(names[0].starts_with("layer-s27=16-h200-"));
  const Outcome analysis = invoke({"analyze", model, "--dim", "s27=16", "-f", "json"}).outcome();
  CHECK(testing::read_file(folder / "d/points" / names[0]) == analysis.out);
}

TEST_CASE("sweep: the same bytes from any number of processes") {
  SweepFolderOf folder;
  const Words words = {"ops.json", "@softmax", "--dim", "N=1..40", "-o", "all.csv"};
  const auto run = [&](const std::string& jobs) {
    Words all = words;
    all.insert(all.end(), {"--dir", "d" + jobs, "--jobs", jobs});
    return folder.document(all);
  };
  const json one = run("1");
  const std::string csv = testing::read_file(folder / "all.csv");
  CHECK(one["points"].size() == 80);
  CHECK(run("2") == one);
  CHECK(run("9") == one);
  CHECK(testing::read_file(folder / "all.csv") == csv);
}

TEST_CASE("sweep: a point that is there is not run again, and one that changed is") {
  SweepFolderOf folder;
  folder.document({"ops.json", "--dim", "N=8,16", "--dir", "d"});
  const Outcome wider = folder.sweep({"ops.json", "--dim", "N=8..64*2", "--dir", "d"});
  CHECK(wider.err == "fusecalc: 2 points run, 2 had their results\n");
  CHECK(folder.sweep({"--dir", "d"}).err == "fusecalc: 0 points run, 4 had their results\n");
  std::string ops = kOps;
  ops.replace(ops.find("f32"), 3, "f64");
  testing::write_file(folder / "ops.json", ops);
  const Outcome stale = folder.sweep({"--dir", "d"});
  CHECK(stale.exit_code == 2);
  CHECK(contains(stale.err, "ops.json: has changed since the sweep began"));
  const json fresh = folder.document({"ops.json", "--dim", "N=8", "--dir", "d"});
  CHECK(fresh["points"][0]["plans"]["auto"]["read"] == 2 * 16 * 8);
}

TEST_CASE("sweep: a point that fails is recorded, does not lose the others and is run again") {
  SweepFolderOf folder;
  const Words words = {"ops.json", "--dim", "N=8,4611686018427387904,16", "--dir", "d"};
  const Outcome outcome = folder.sweep(words);
  CHECK(outcome.exit_code == 1);
  CHECK(contains(outcome.err,
                 "sweep: of 3 points, 1 failed, the first pair "
                 "N=4611686018427387904 h200: ops.json: "));
  const json sweep = json::parse(outcome.out);
  CHECK(sweep["points"][0]["state"] == "done");
  CHECK(sweep["points"][1]["state"] == "failed");
  CHECK(contains(sweep["points"][1]["error"], "ops.json: "));
  CHECK(sweep["points"][2]["state"] == "done");
  CHECK(folder.sweep(words).err.starts_with("fusecalc: 1 point run, 2 had their results\n"));
}

TEST_CASE("sweep: a point whose file is damaged has failed, and does not lose the others") {
  SweepFolderOf folder;
  const Words sweep = {"ops.json", "--dim", "N=8,16", "--dir", "d"};
  (void)folder.document(sweep);
  const auto file = std::filesystem::directory_iterator(folder / "d/points")->path();
  std::filesystem::resize_file(file, 100);
  for (const Words& words : {Words{"--collect", "d"}, sweep}) {
    const Outcome outcome = folder.sweep(words);
    CHECK(outcome.exit_code == 1);
    CHECK(contains(outcome.err, file.filename().string() + ": line "));
    CHECK(contains(outcome.err, "; delete the file and run the sweep again"));
    const json document = json::parse(outcome.out);
    CHECK(document["counts"]["done"] == 1);
    CHECK(document["counts"]["failed"] == 1);
  }
  std::filesystem::remove(file);
  CHECK(folder.document(sweep)["points"].size() == 2);
}

TEST_CASE("sweep: the table tells from which size on another plan is best") {
  SweepFolderOf folder;
  // A row of N f32 on chip takes 4 N bytes: up to 25,344 on an a10 (99 KiB).
  const Outcome outcome =
      folder.sweep({"ops.json", "--dim", "N=8,16", "--dim", "M=2", "--dir", "d", "-f", "table"});
  CHECK(contains(outcome.out, "auto is best at 0") == false);
  CHECK(contains(outcome.out, "  2 points\n"));
  CHECK(contains(outcome.out, "  compiler is best at 2 of 2\n"));
}

TEST_CASE("sweep: csv has one row a point") {
  SweepFolderOf folder;
  folder.document({"ops.json", "--dim", "N=8,4611686018427387904", "--dir", "d", "-o", "s.csv"}, 1);
  const std::string csv = testing::read_file(folder / "s.csv");
  CHECK(csv.starts_with("name,device,N,error,best,best_by,plan,unfused_bytes,"));
  CHECK(contains(csv, ",unfused_total,"));
  CHECK(contains(csv, "\npair,h200,8,,compiler,predicted time,auto,320,"));
  CHECK(contains(csv, "\npair,h200,4611686018427387904,\"ops.json: "));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3);
}

TEST_CASE("sweep: lists of sizes are swept over op lists only, and have their fused bytes") {
  SweepFolderOf folder;
  testing::write_file(folder / "sizes.json", R"([{"input_size": 10, "output_size": 20},
                                                {"input_size": 20, "output_size": 5}])");
  const json sweep = folder.document({"sizes.json", "--dtype-bytes", "4", "--dir", "d"});
  CHECK(sweep["points"][0]["unfused_bytes"] == 220);
  CHECK(sweep["points"][0]["fused_bytes"] == 60);
  CHECK(sweep["points"][0]["best"] == "fused");
  CHECK(!sweep["points"][0].contains("device"));
}

TEST_CASE("sweep: the points of a list of sizes name their devices where there are several") {
  SweepFolderOf folder;
  testing::write_file(folder / "sizes.json", R"([{"input_size": 10, "output_size": 20}])");
  folder.sweep({"sizes.json", "--device", "h200,a100", "--dir", "d", "-o", "s.json"});
  const json sweep = json::parse(testing::read_file(folder / "s.json"));
  CHECK(sweep["points"][0]["device"]["name"] == "h200");
  CHECK(sweep["points"][1]["device"]["name"] == "a100");
  const Outcome outcome =
      invoke({"compare", "s.json", "s.json", "-f", "json"}).in(folder / ".").outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(json::parse(outcome.out)["specs"] == json({"sizes a100", "sizes h200"}));
}

TEST_CASE("sweep: compare gates a sweep point by point") {
  SweepFolderOf folder;
  const auto compare = [&](const Words& words) {
    Words all = {"compare", "base.json", "new.json", "-f", "json"};
    all.insert(all.end(), words.begin(), words.end());
    return invoke(all).in(folder / ".").outcome();
  };
  folder.sweep({"ops.json", "--dim", "N=8,16", "--dir", "d", "-o", "base.json"});
  folder.sweep({"--dir", "d", "-o", "new.json"});
  CHECK(compare({"--strict"}).exit_code == 0);
  std::string worse = testing::read_file(folder / "new.json");
  // auto of N=16: 2 * 32 elements of 4 bytes are read.
  const std::size_t place =
      worse.find("\"read\": 256", worse.find("\"auto\": {", worse.find("\"N\": 16")));
  REQUIRE(place != std::string::npos);
  worse.replace(worse.find("\"total\": 384", place), 12, "\"total\": 388");
  testing::write_file(folder / "new.json", worse);
  const Outcome outcome = compare({});
  CHECK(outcome.exit_code == 1);
  CHECK(contains(outcome.err, "auto of pair M=2 N=16 h200: bytes 384 B -> 388 B"));
  // A point that is gone fails the gate, too.
  folder.sweep({"ops.json", "--dim", "N=8", "--dir", "d", "-o", "new.json"});
  CHECK(compare({}).exit_code == 1);
  CHECK(compare({"--allow-missing"}).exit_code == 0);
}

TEST_CASE("sweep: without sbatch the script is written for the user to read") {
  SweepFolderOf folder;
  const Outcome outcome =
      invoke({"sweep", "ops.json", "--dim", "N=8,16", "--dir", "d", "--slurm=--time=5"})
          .in(folder / ".")
          .with("PATH", "/nowhere")
          .outcome();
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.out == "");
  CHECK(contains(outcome.err, "there is no sbatch on this machine; "));
  CHECK(contains(outcome.err, "d/slurm/1/script.sh is written"));
  CHECK(contains(testing::read_file(folder / "d/slurm/1/script.sh"), "#SBATCH --time=5\n"));
  const json collected = folder.document({"--collect", "d"}, 1);
  CHECK(collected["counts"]["missing"] == 2);
  CHECK(collected["points"][0]["state"] == "missing");
}

TEST_CASE("sweep: what does not fit together is refused in one line") {
  SweepFolderOf folder;
  testing::write_file(folder / "model.onnx",
                      proto::model({.nodes = {proto::node("Relu", {"x"}, {"y"})},
                                    .inputs = {proto::value("x", {"rows", 8})},
                                    .outputs = {proto::value("y", {"rows", 8})}}));
  const auto refused = [&](const Words& words, std::string_view part) {
    const Outcome outcome = folder.sweep(words);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(contains(outcome.err, part));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  };
  refused({"ops.json"}, "--dir is missing");
  refused({"--dir", "d"}, "definition: no such file, so this is not the folder of a sweep");
  refused({"--collect", "d"}, "definition: no such file");
  refused({"--collect", "d", "ops.json"}, "leave out FILE");
  refused({"ops.json", "--dir", "d", "--dim", "N=4..1"}, "ends before it begins");
  refused({"ops.json", "--dir", "d", "--dim", "N=1", "--dim", "N=2"}, "\"N\" is given twice");
  refused({"ops.json", "--dir", "d", "--device", "h200,h2000"}, "did you mean");
  refused({"ops.json", "--dir", "d", "--device", "h200,h200"}, "--device has h200 twice");
  refused({"ops.json", "--dir", "d", "--device", "-"}, "name a file");
  refused({"ops.json", "--dir", "d", "--device", "gone.json"}, "gone.json");
  refused({"ops.json", "ops.json", "--dir", "d"}, "would both be named \"pair\"");
  refused({"ops.json", "--dir", "d", "--dim", "MM=2"}, "unknown dim \"MM\" (known: M or N)");
  refused({"model.onnx", "--dir", "d", "--dim", "rows=4", "--dim", "Qxyz=2"},
          "sweep: --dim: unknown dim \"Qxyz\" (known: rows)");
  refused({"-", "--dir", "d"}, "standard input can be read once");
  refused({"gone.json", "--dir", "d"}, "gone.json");
  refused({"ops.json", "--dir", "d", "--measure", "--device", "h200"}, "leave one out");
  refused({"ops.json", "--dir", "d", "--measure=--plan auto"}, "takes the options --timing-only");
  refused({"ops.json", "--dir", "d", "--measure=--rums 3"}, "(did you mean \"--runs\"?)");
  refused({"ops.json", "--dir", "d", "--measure", "--plan", "limit"}, "--plan limit");
  refused({"ops.json", "--dir", "d", "-o", "x.dot"}, "the format follows from the extension");
  refused({"ops.json", "--dir", "ops.json/d"}, "cannot create");
  refused({"ops.json", "--dir", "d", "--chunk", "4"}, "add --slurm, or leave it out");
  refused({"--collect", "d", "--chunk", "4"}, "add --slurm, or leave it out");
}

TEST_CASE("sweep: measuring where there is no GPU says why, and records nothing as failed") {
  if (invoke({"doctor"}).outcome().exit_code == 0) return;
  SweepFolderOf folder;
  const Outcome outcome = folder.sweep({"ops.json", "--dim", "N=8,16", "--measure", "--dir", "d"});
  CHECK(outcome.exit_code == 3);
  CHECK(testing::names_in(folder / "d/points").empty());
  CHECK(!std::filesystem::exists(folder / "d/failed"));
}

}  // namespace
}  // namespace fusecalc
