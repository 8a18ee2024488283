// Where results go, and what happens when they cannot.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/files.hpp"
#include "support/invocation.hpp"
#include "support/words.hpp"

using namespace fusecalc::testing;
namespace fs = std::filesystem;

namespace {

const std::string kOps = R"([{"input_size": 8, "output_size": 8}])";

const std::vector<std::vector<std::string>> kEveryCommand = {
    {"analyze", "-"}, {"schema", "sizes"}, {"completion", "bash"}, {"--help"}, {"--version"}};

// Runs a shell script, in `folder`, that calls the program as "$0".
Outcome shell(const fs::path& folder, const std::string& script) {
  return Invocation("sh", {"-c", script, built_program()}).in(folder).outcome();
}

}  // namespace

TEST_CASE("-o - is standard output, which gets the result once") {
  const TempDir folder;
  const Outcome plain = invoke({"analyze", "-", "-f", "csv"}).input(kOps).outcome();
  const Outcome outcome = invoke({"analyze", "-", "-f", "csv", "-o", "-", "-o", "a.csv"})
                              .input(kOps)
                              .in(folder.path())
                              .outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == plain.out);
  CHECK(read_file(folder / "a.csv") == plain.out);
  CHECK(names_in(folder.path()) == Words{"a.csv"});
}

TEST_CASE("a format may be named as files end") {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"analyze", "@fma"}, {"ops"}, {"specs"}}) {
    const auto output = [&](const std::string& format) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--format", format});
      return invoke(arguments).outcome().out;
    };
    CHECK(output("md") == output("markdown"));
    CHECK(output("md") != "");
  }
}

TEST_CASE("specs prints an op list under its name with and without @") {
  const std::string list = invoke({"specs", "softmax"}).outcome().out;
  CHECK(list.starts_with("{"));
  CHECK(invoke({"specs", "@softmax"}).outcome().out == list);
}

TEST_CASE("the csv of listings has names and formulas as they are") {
  CHECK(invoke({"specs", "-f", "csv"}).outcome().out.find("\n@adam,") != std::string::npos);
  CHECK(invoke({"ops", "-f", "csv"}).outcome().out.find(",-x\n") != std::string::npos);
}

TEST_CASE("what a listing prints of one name is JSON, and asking for another format is refused") {
  for (const auto& [command, name] : {std::pair{"specs", "softmax"}, {"devices", "a100"}}) {
    CHECK(invoke({command, name, "-f", "json"}).outcome().out ==
          invoke({command, name}).outcome().out);
    const Outcome refused = invoke({command, name, "-f", "md"}).outcome();
    CHECK(refused.exit_code == 2);
    CHECK(refused.err == fmt::format("fusecalc: {}: with a NAME, it prints JSON; leave out "
                                     "--format markdown\n",
                                     command));
  }
}

TEST_CASE("a full disk under standard output is an error") {
  for (const auto& command : kEveryCommand) {
    CAPTURE(command[0]);
    const Outcome outcome = invoke(command).input(kOps).output_to("/dev/full").outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == "fusecalc: cannot write standard output: No space left on device\n");
  }
}

TEST_CASE("a closed standard output is an error") {
  for (const auto& command : kEveryCommand) {
    CAPTURE(command[0]);
    const Outcome outcome = invoke(command).input(kOps).output_closed().outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err == "fusecalc: cannot write standard output: Bad file descriptor\n");
  }
}

TEST_CASE("with standard output closed, the document is not written to") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  const Outcome outcome =
      invoke({"analyze", "ops.json"}).in(folder.path()).output_closed().outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(read_file(folder / "ops.json") == kOps);
}

TEST_CASE("a closed pipe ends the program quietly") {
  for (const auto& command : kEveryCommand) {
    CAPTURE(command[0]);
    const Outcome outcome = invoke(command).input(kOps).reader_gone().outcome();
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
  }
}

TEST_CASE("files are written even if standard output is a closed pipe") {
  const TempDir folder;
  const Outcome outcome =
      invoke({"analyze", "-", "-o", "a.csv"}).input(kOps).in(folder.path()).reader_gone().outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(fs::exists(folder / "a.csv"));
}

TEST_CASE("each output file has the format of its extension") {
  const TempDir folder;
  const auto analyze = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"analyze", "-"});
    return invoke(options).input(kOps).in(folder.path()).outcome();
  };
  const Outcome outcome =
      analyze({"-o", "a.json", "--output", "a.csv", "--output=a.md", "-oa.txt"});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.out == analyze({"-f", "json"}).out);
  CHECK(read_file(folder / "a.json") == analyze({"-f", "json"}).out);
  CHECK(read_file(folder / "a.csv") == analyze({"-f", "csv"}).out);
  CHECK(read_file(folder / "a.md") == analyze({"-f", "markdown"}).out);
  CHECK(read_file(folder / "a.txt") == analyze({"-f", "table"}).out);
}

TEST_CASE("an output file that is the input is refused under any of its paths") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  fs::create_symlink("ops.json", folder / "link.json");
  fs::create_hard_link(folder / "ops.json", folder / "hard.json");
  for (const std::string path : {"ops.json", "./ops.json", "link.json", "hard.json"}) {
    CAPTURE(path);
    const std::string line = "fusecalc: -o " + path +
                             ": this file is an input of the command and would be lost; write to "
                             "another file\n";
    const Outcome named = invoke({"analyze", "ops.json", "-o", path}).in(folder.path()).outcome();
    CHECK(named.exit_code == 2);
    CHECK(named.out == "");
    CHECK(named.err == line);
    const Outcome piped = shell(folder.path(), R"(exec "$0" analyze - -o )" + path + " <ops.json");
    CHECK(piped.exit_code == 2);
    CHECK(piped.err == line);
    CHECK(read_file(folder / "ops.json") == kOps);
  }
  // The other commands.
  write_file(folder / "result.json", invoke({"analyze", "-"}).input(kOps).outcome().out);
  const Outcome compared = invoke({"compare", "result.json", "result.json", "-o", "result.json"})
                               .in(folder.path())
                               .outcome();
  CHECK(compared.exit_code == 2);
  CHECK(compared.err.find("-o result.json: this file is an input") != std::string::npos);
  const Outcome measured =
      invoke({"measure", "ops.json", "-o", "ops.json"}).in(folder.path()).outcome();
  CHECK(measured.exit_code == 2);
  CHECK(read_file(folder / "ops.json") == kOps);
}

TEST_CASE("an output file among the results of an input folder is refused") {
  const TempDir folder;
  const std::string result = invoke({"analyze", "-", "-f", "json"}).input(kOps).outcome().out;
  for (const char* name : {"base", "new", "new/deep", "other"}) {
    fs::create_directory(folder / name);
  }
  for (const char* name : {"base/a.json", "new/a.json", "new/deep/b.json", "base/deep.json"}) {
    write_file(folder / name, result);
  }
  write_file(folder / "other/kept.json", result);
  fs::create_symlink("new", folder / "link");
  fs::create_hard_link(folder / "new/a.json", folder / "hard.json");
  fs::create_directory_symlink("../other", folder / "base/linked");
  for (const std::string path : {"new/a.json", "base/a.json", "new/deep/b.json", "new/fresh.json",
                                 "new/deep/fresh.JSON", "link/a.json", "link/fresh.json",
                                 "base/../new/fresh.json", "hard.json", "other/kept.json"}) {
    CAPTURE(path);
    const Outcome outcome = invoke({"compare", "base", "new", "--allow-missing", "-o", path})
                                .in(folder.path())
                                .outcome();
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err.starts_with("fusecalc: -o " + path + ": "));
  }
  CHECK(read_file(folder / "new/a.json") == result);
  CHECK(read_file(folder / "other/kept.json") == result);
  CHECK(
      invoke({"compare", "base", "new", "--allow-missing", "-o", "verdict.json", "-o", "new/v.md"})
          .in(folder.path())
          .outcome()
          .exit_code == 0);
}

TEST_CASE("an open descriptor goes on where it is, also in a file") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  fs::create_symlink("/dev/stdout", folder / "link.json");
  const std::string result =
      invoke({"analyze", "ops.json", "-f", "json"}).in(folder.path()).outcome().out;
  const auto log_of = [&](const std::string& command) {
    CHECK(shell(folder.path(), "(echo before; " + command + "; echo after) >log").exit_code == 0);
    return read_file(folder / "log");
  };
  const std::string quiet = R"("$0" analyze ops.json -f json )";
  CHECK(log_of(quiet + "-o link.json") == "before\n" + result + result + "after\n");
  fs::create_symlink("/dev/fd/3", folder / "three.json");
  CHECK(log_of(quiet + "-o three.json 3>&1 >shown") == "before\n" + result + "after\n");
  CHECK(fs::is_symlink(folder / "three.json"));
}

TEST_CASE("a closed descriptor is not taken by a file that then gets another's text") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  const auto run = [&](const std::string& redirection) {
    fs::remove(folder / "a.json");
    return shell(folder.path(), R"(exec "$0" analyze ops.json -f table -o a.json )" + redirection);
  };
  const std::string named =
      invoke({"analyze", "ops.json", "-f", "json"}).in(folder.path()).outcome().out;
  CHECK(run(">&-").exit_code == 2);
  CHECK(read_file(folder / "a.json") == named);
  CHECK(run(">&- 2>&-").exit_code == 2);
  CHECK(read_file(folder / "a.json") == named);
  CHECK(run("<&- 2>&-").exit_code == 0);
  CHECK(read_file(folder / "a.json") == named);
  CHECK(run("<&- >&- 2>&-").exit_code == 2);
  CHECK(read_file(folder / "a.json") == named);
  const Outcome unread = shell(folder.path(), R"(exec "$0" analyze - <&-)");
  CHECK(unread.exit_code == 2);
  CHECK(unread.err == "fusecalc: <stdin>: Bad file descriptor\n");
  CHECK(read_file(folder / "ops.json") == kOps);
}

TEST_CASE("a mounted file and a read-only folder take an output file") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  write_file(folder / "real.json", "old");
  write_file(folder / "place.json", "");
  fs::create_directory(folder / "closed");
  write_file(folder / "closed/out.json",
             "a text that is longer than the new one " + std::string(2000, 'x'));
  const Outcome outcome = shell(folder.path(), R"(
    unshare --mount true 2> probe || exit 77
    unshare --mount sh -c '
      mount --bind real.json place.json && mount --bind closed closed || exit 77
      mount -o remount,bind,ro closed && mount --bind real.json closed/out.json || exit 77
      "$0" analyze ops.json -f table -o place.json || exit 1
      "$0" analyze ops.json -f table -o closed/out.json || exit 2' "$0")");
  if (outcome.exit_code == 77) {
    MESSAGE("skipped: nothing may be mounted here");
    return;
  }
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  CHECK(read_file(folder / "real.json") ==
        invoke({"analyze", "ops.json"}).in(folder.path()).outcome().out);
  CHECK(names_in(folder.path()) == Words{"closed", "ops.json", "place.json", "probe", "real.json"});
}

// Sends each of the signals that end a program while it writes, at many moments.
TEST_CASE("a signal during a write leaves the old file and no temporary file") {
  const TempDir folder;
  std::string ops = "[";
  for (int i = 0; i < 3000; ++i) {
    ops += std::string(i > 0 ? "," : "") + R"({"input_size": 8, "output_size": 8})";
  }
  write_file(folder / "ops.json", ops + "]");
  // The program waits in the middle of a write: its other output is a pipe that nobody reads yet.
  const Outcome outcome = shell(folder.path(), R"(
    for signal in INT TERM HUP QUIT; do
      for delay in 0 0.001 0.002 0.003 0.005 0.008; do
        printf old > out.json
        env --default-signal=INT,TERM,HUP,QUIT "$0" analyze ops.json -o out.json >shown & id=$!
        sleep $delay
        kill -$signal $id 2> none
        wait $id
        ls -A | grep -v -x -e ops.json -e out.json -e shown -e none
        head -c 3 out.json | grep -q -e old -e '{"s' -e '^{$' || head -c 20 out.json
      done
    done)");
  CHECK(outcome.out == "");
}

TEST_CASE("an error leaves an output file as it was") {
  const TempDir folder;
  write_file(folder / "out.json", "old");
  const Outcome outcome =
      invoke({"analyze", "-", "-o", "out.json"}).input("[{}]").in(folder.path()).outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(read_file(folder / "out.json") == "old");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("a place that cannot be written is an error, and standard output stays empty") {
  const TempDir folder;
  fs::create_directory(folder / "folder.json");
  const auto run = [&](const std::string& path) {
    return invoke({"analyze", "-", "-o", path}).input(kOps).in(folder.path()).outcome();
  };
  const auto check = [&](const std::string& path, const std::string& reason) {
    const Outcome outcome = run(path);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out == "");
    CHECK(outcome.err == "fusecalc: cannot write " + path + ": " + reason + "\n");
  };
  check("missing/out.json", "No such file or directory");
  check("folder.json", "Is a directory");
  check("/proc/out.json", "No such file or directory");  // no user may create a file there
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("a full device behind an output file is an error, and the link to it stays") {
  const TempDir folder;
  fs::create_symlink("/dev/full", folder / "full.json");
  const Outcome outcome =
      invoke({"analyze", "-", "-o", "full.json"}).input(kOps).in(folder.path()).outcome();
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "fusecalc: cannot write full.json: No space left on device\n");
  CHECK(fs::is_symlink(folder / "full.json"));
}

TEST_CASE("a limit on file sizes is an error that leaves the old file and no temporary file") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  write_file(folder / "out.json", "old");
  const Outcome outcome =
      shell(folder.path(), R"(ulimit -f 0; exec "$0" analyze ops.json -o out.json)");
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "fusecalc: cannot write out.json: File too large\n");
  CHECK(read_file(folder / "out.json") == "old");
  CHECK(names_in(folder.path()) == Words{"ops.json", "out.json"});
}

TEST_CASE("a full disk is an error that leaves the old file and no temporary file") {
  const TempDir folder;
  write_file(folder / "ops.json", kOps);
  fs::create_directory(folder / "disk");
  // A disk of one page, full with the old file, seen by this script alone.
  const Outcome outcome = shell(folder.path(), R"(
    unshare --mount true 2> probe || exit 77
    unshare --mount sh -c '
      mount -t tmpfs -o size=4k tmpfs disk || exit 77
      printf old > disk/out.json
      "$0" analyze ops.json -o disk/out.json
      code=$?
      cat disk/*
      exit $code' "$0")");
  if (outcome.exit_code == 77) {
    MESSAGE("left out: no disk may be mounted here");
    return;
  }
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out == "old");
  CHECK(outcome.err == "fusecalc: cannot write disk/out.json: No space left on device\n");
}
