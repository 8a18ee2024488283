#include <doctest/doctest.h>

#include <string>

#include "support/files.hpp"
#include "support/invocation.hpp"

using namespace fusecalc::testing;

namespace {

std::string refused(std::vector<std::string> arguments, int exit_code = 2) {
  const TempDir folder;
  write_file(folder / "sizes.json", R"([{"input_size": 8, "output_size": 8}])");
  arguments.insert(arguments.begin(), "profile");
  const Outcome outcome = invoke(arguments).in(folder.path()).outcome();
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.out == "");
  return outcome.err;
}

}  // namespace

TEST_CASE("profile: what cannot be meant is refused before the program runs") {
  CHECK(refused({}) == "fusecalc: profile: PROGRAM is required; see fusecalc profile --help\n");
  CHECK(refused({"--kernel", "(", "--", "true"}) ==
        "fusecalc: profile: --kernel: \"(\" is not a regular expression; see fusecalc profile "
        "--help\n");
  CHECK(refused({"--dim", "T=4", "--", "true"}) ==
        "fusecalc: --dim belongs to --op-list, which is not given\n");
  CHECK(refused({"--op-list", "sizes.json", "--", "true"}) ==
        "fusecalc: sizes.json: lists sizes; --op-list takes a graph of ops or a model file\n");
  CHECK(refused({"-o", "a.dot", "--", "true"}).find("-o a.dot: the format follows") !=
        std::string::npos);
}

TEST_CASE("profile: another profiler is named, and the program does not run") {
  const TempDir folder;
  const Outcome outcome = invoke({"profile", "--", "touch", "ran"})
                              .in(folder.path())
                              .with("CUDA_INJECTION64_PATH", "/opt/other.so")
                              .outcome();
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err ==
        "fusecalc: another profiler is attached (CUDA_INJECTION64_PATH is /opt/other.so); run "
        "fusecalc profile without it\n");
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("profile: without a GPU the program does not run, and one line says why") {
  if (invoke({"doctor"}).outcome().exit_code == 0) return;
  const TempDir folder;
  const Outcome outcome = invoke({"profile", "--", "touch", "ran"}).in(folder.path()).outcome();
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.starts_with("fusecalc: "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  CHECK(names_in(folder.path()).empty());
}
