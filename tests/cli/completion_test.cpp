#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "support/files.hpp"
#include "support/help.hpp"
#include "support/invocation.hpp"
#include "support/words.hpp"

using namespace fusecalc::testing;

namespace {

constexpr int kNotInstalled = 127;

Words sorted_lines(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

std::string script_for(const std::string& shell) {
  const Outcome outcome = invoke({"completion", shell}).outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  return outcome.out;
}

// The completions that bash offers with the cursor after the last of `words`.
Words bash_offers(const Words& words, const std::filesystem::path& folder = ".") {
  static const std::string kComplete =
      "\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($# - 1))\n_fusecalc\n"
      "((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  Words arguments = {"--norc", "-c", script_for("bash") + kComplete, "bash"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Outcome outcome = Invocation("bash", arguments).in(folder).outcome();
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.err == "");
  return sorted_lines(outcome.out);
}

bool holds(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

TEST_CASE("bash completes subcommands") {
  CHECK(bash_offers({"fusecalc", "an"}) == Words{"analyze"});
  CHECK(bash_offers({"fusecalc", "--v"}) == Words{"--version"});
  CHECK(bash_offers({"fusecalc", "x"}) == Words{});
}

TEST_CASE("bash completes every subcommand and option that help lists") {
  for (const Words& command : every_command()) {
    const std::string help = help_of(command);
    Words typed = {"fusecalc"};
    typed.insert(typed.end(), command.begin(), command.end());
    Words listed = options_in(help);
    typed.push_back("-");
    const Words options = bash_offers(typed);
    for (const std::string& option : listed) CHECK_MESSAGE(holds(options, option), option);
  }
  const Words commands = bash_offers({"fusecalc", ""});
  for (const std::string& name : subcommands_in(help_of({}))) {
    CHECK_MESSAGE(holds(commands, name), name);
  }
}

TEST_CASE("bash completes the choices of options and arguments") {
  const Words formats = {"benchmark", "csv", "dot", "html", "json", "markdown", "mermaid", "table"};
  CHECK(bash_offers({"fusecalc", "analyze", "--format", ""}) == formats);
  CHECK(bash_offers({"fusecalc", "analyze", "ops.json", "-f", "j"}) == Words{"json"});
  CHECK(bash_offers({"fusecalc", "analyze", "--format", "="}) == formats);  // bash splits at =
  CHECK(bash_offers({"fusecalc", "analyze", "--format", "=", "ma"}) == Words{"markdown"});
  CHECK(bash_offers({"fusecalc", "schema", ""}) ==
        Words{"analysis", "comparison", "device", "devices", "import", "measurement", "ops",
              "ops-table", "profile", "sizes", "specs", "sweep", "tolerances"});
  CHECK(bash_offers({"fusecalc", "completion", ""}) == Words{"bash", "fish", "zsh"});
}

TEST_CASE("bash completes files where a file is meant and nothing where a number is") {
  const TempDir folder;
  for (const char* name : {"ops.json", "ops two.json", "other.csv"}) write_file(folder / name, "");
  const auto offers = [&](const Words& words) { return bash_offers(words, folder.path()); };
  CHECK(offers({"fusecalc", "analyze", "op"}) == Words{"ops two.json", "ops.json"});
  CHECK(offers({"fusecalc", "analyze", "ops.json", "-o", "ot"}) == Words{"other.csv"});
  CHECK(offers({"fusecalc", "analyze", "--help", "ot"}) == Words{"other.csv"});
  CHECK(offers({"fusecalc", "analyze", "--dtype-bytes", ""}) == Words{});
  CHECK(offers({"fusecalc", "schema", "ot"}) == Words{});
}

TEST_CASE("bash completes the library's op lists, whose @ is a word of its own") {
  const TempDir folder;
  write_file(folder / "softer.json", "");
  const auto offers = [&](const Words& words) { return bash_offers(words, folder.path()); };
  const Words both = {"@softmax", "@softmax_primitives"};
  CHECK(offers({"fusecalc", "analyze", "@", "soft"}) == both);
  CHECK(offers({"fusecalc", "analyze", "softer.json", "@", "soft"}) == both);
  CHECK(offers({"fusecalc", "specs", "@", "soft"}) == both);
  CHECK(offers({"fusecalc", "profile", "--op-list", "@", "soft"}) == both);
  CHECK(offers({"fusecalc", "profile", "--op-list", "=@", "soft"}) == both);
  CHECK(holds(offers({"fusecalc", "sweep", "@"}), "@softmax"));
  CHECK(holds(offers({"fusecalc", "profile", "--op-list", "=@"}), "@softmax"));
  CHECK(offers({"fusecalc", "analyze", "soft"}) == Words{"softer.json"});
}

TEST_CASE("every shell can read its script") {
  const TempDir folder;
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    CAPTURE(shell);
    write_file(folder / "script", script_for(shell));
    const Outcome outcome = Invocation(shell, {"-n", "script"}).in(folder.path()).outcome();
    if (outcome.exit_code == kNotInstalled) {
      MESSAGE("left out: no " << shell << " here");
      continue;
    }
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err == "");
  }
}

TEST_CASE("the scripts of zsh and fish hold every subcommand and option that help lists") {
  const std::string zsh = script_for("zsh");
  const std::string fish = script_for("fish");
  const auto check = [](const std::string& script, const std::string& part) {
    CHECK_MESSAGE(script.find(part) != std::string::npos, part);
  };
  for (const Words& command : every_command()) {
    for (const std::string& option : options_in(help_of(command))) {
      check(zsh, "'*" + option + "[");
      check(fish, option.starts_with("--") ? " -l " + option.substr(2) : " -s " + option.substr(1));
    }
    if (command.empty()) continue;
    check(zsh, "'" + command[0] + ":");
    check(fish, " -a " + command[0] + " ");
  }
}

TEST_CASE("fish completes subcommands, options, choices and files") {
  const TempDir folder;
  write_file(folder / "script", script_for("fish"));
  write_file(folder / "ops.json", "");
  const auto offers = [&](const std::string& line) {
    const Outcome outcome =
        Invocation("fish", {"--no-config", "-c", "source script; complete -C '" + line + "'"})
            .in(folder.path())
            .with("HOME", folder.path().string())
            .outcome();
    Words words = sorted_lines(outcome.out);
    for (std::string& word : words) word.resize(std::min(word.find('\t'), word.size()));
    return outcome.exit_code == kNotInstalled ? Words{"not installed"} : words;
  };
  if (offers("") == Words{"not installed"}) {
    MESSAGE("left out: no fish here");
    return;
  }
  CHECK(offers("fusecalc an") == Words{"analyze"});
  CHECK(offers("fusecalc analyze --fo") == Words{"--format"});
  CHECK(offers("fusecalc analyze --format m") == Words{"markdown", "mermaid"});
  CHECK(offers("fusecalc analyze op") == Words{"ops.json"});
  CHECK(offers("fusecalc measure @soft") == Words{"@softmax", "@softmax_primitives"});
  CHECK(offers("fusecalc analyze --dtype-bytes ") == Words{});
  CHECK(offers("fusecalc schema ") == Words{"analysis", "comparison", "device", "devices", "import",
                                            "measurement", "ops", "ops-table", "profile", "sizes",
                                            "specs", "sweep", "tolerances"});
}
