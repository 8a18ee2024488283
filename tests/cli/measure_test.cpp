#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/invocation.hpp"

namespace fusecalc {
namespace {

struct Finished {
  int code = -1;
  std::string text;  // standard output and error
};

Finished run(const std::string& arguments) {
  const std::string command = testing::built_program() + " " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Finished finished;
  std::array<char, 4096> chunk{};
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe)) {
    finished.text.append(chunk.data(), count);
  }
  finished.code = WEXITSTATUS(::pclose(pipe));
  return finished;
}

// A file with this text for as long as the guard lives.
class Document {
 public:
  explicit Document(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "fusecalc-doc.XXXXXX").string();
    const int descriptor = ::mkstemp(path_.data());
    REQUIRE(descriptor >= 0);
    std::FILE* file = ::fdopen(descriptor, "w");
    std::fputs(text.c_str(), file);
    std::fclose(file);
  }
  ~Document() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string kSizes = R"([{"name": "a", "input_size": 1000, "output_size": 500}])";

TEST_CASE("doctor prints one line per check and whether measuring works") {
  const Finished doctor = run("doctor");
  CAPTURE(doctor.text);
  CHECK(doctor.text.find("GPU module") != std::string::npos);
  const bool failed = doctor.text.find("FAIL") != std::string::npos;
  CHECK(doctor.code == (failed ? 3 : 0));
  CHECK(run("measure --timing-only --runs 1 " + Document(kSizes).path()).code <=
        doctor.code);  // what the doctor passes, works
}

TEST_CASE("a calibration's file needs a calibration, and that a GPU") {
  const Finished without = run("doctor -o mine.json");
  CHECK(without.code == 2);
  CHECK(without.text.find("--output is the file of --calibrate") != std::string::npos);
  if (run("doctor").code == 0) return;
  CHECK(run("doctor --calibrate -o mine.json").code == 3);
  CHECK(!std::filesystem::exists("mine.json"));
}

TEST_CASE("if measuring is not possible, one line says why and how to fix it") {
  if (run("doctor").code == 0) return;  // the device tests measure
  const Document list(kSizes);
  const Finished measure = run("measure " + list.path());
  CAPTURE(measure.text);
  CHECK(measure.code == 3);
  CHECK(measure.text.starts_with("fusecalc: "));
  CHECK(measure.text.find("; ") != std::string::npos);
  CHECK(measure.text.find('\n') == measure.text.size() - 1);
}

TEST_CASE("errors of a graph or its options are reported before a GPU is opened") {
  const Document list(
      R"({"format": "fusecalc.ops/1", "dims": {"N": 4}, "tensors": {"x": {"shape": ["N"]}},
          "ops": [{"op": "relu", "inputs": ["x"], "output": "y"}]})");
  const Finished limit = run("measure --plan limit " + list.path());
  CHECK(limit.code == 2);
  CHECK(limit.text.find("has no kernels to run") != std::string::npos);
  CHECK(run("measure --plan unfused " + list.path()).code == 2);
  const Finished dim = run("measure --dim M=8 " + list.path());
  CHECK(dim.code == 2);
  CHECK(dim.text.find("M") != std::string::npos);
  const Finished no_fuse = run("measure --plan explicit " + list.path());
  CHECK(no_fuse.code == 2);
  CHECK(no_fuse.text.find("has no \"fuse\"") != std::string::npos);
  CHECK(run("measure @no_such_spec").code == 2);
  const Document empty(R"({"format": "fusecalc.ops/1", "tensors": {}, "ops": []})");
  CHECK(run("measure " + empty.path()).text.find("no operations to measure") != std::string::npos);
}

TEST_CASE("no operations, too many, and unknown formats are bad input") {
  CHECK(run("measure " + Document("[]").path()).code == 2);
  std::string many = "[";
  for (int i = 0; i < 1025; ++i)
    many += std::string(i == 0 ? "" : ",") + kSizes.substr(1, kSizes.size() - 2);
  const Document long_list(many + "]");
  const Finished refused = run("measure " + long_list.path());
  CHECK(refused.code == 2);
  CHECK(refused.text.find("up to 1024 operations") != std::string::npos);
  const Document list(kSizes);
  CHECK(run("measure " + list.path() + " -o x.dot").code == 2);
  CHECK(run("measure --cache warm " + list.path()).code == 2);
  CHECK(run("measure --runs 0 " + list.path()).code == 2);
  CHECK(run("measure --time-budget -1 " + list.path()).code == 2);
  CHECK(run("measure --device-index x " + list.path()).code == 2);
}

}  // namespace
}  // namespace fusecalc
