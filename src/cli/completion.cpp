#include "cli/completion.hpp"

#include <fmt/format.h>

#include <array>
#include <cassert>

#include "cli/commands.hpp"
#include "core/output.hpp"

namespace fusecalc {
namespace {

using Argument = CommandSpec::Argument;

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

// `special` characters get a backslash before them.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// A description inside zsh's single quotes, which take no escapes at all.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : escaped(text, "[]:\\")) out += c == '\'' ? "'\\''" : std::string{c};
  return out;
}

std::string fish_text(std::string_view text) { return escaped(text, "'\\"); }

std::vector<std::string> flags_of(const CommandSpec& command) {
  std::vector<std::string> flags;
  for (const Argument& argument : command.arguments) {
    flags.insert(flags.end(), argument.flags.begin(), argument.flags.end());
  }
  return flags;
}

// The bash command that offers the matches of compgen; names with spaces stay whole.
std::string bash_offer(std::string_view what) {
  return fmt::format("mapfile -t COMPREPLY < <(compgen {} -- \"$word\")", what);
}

std::string bash_words(const std::vector<std::string>& words) {
  return bash_offer("-W '" + joined(words, " ") + "'");
}

std::string bash_values(const Argument& argument) {
  if (argument.names_file && !argument.choices.empty()) {
    return bash_offer("-f -W '" + joined(argument.choices, " ") + "'");
  }
  if (argument.names_file) return bash_offer("-f");
  return argument.choices.empty() ? "" : bash_words(argument.choices);
}

std::string bash_case(const CommandSpec& command) {
  std::string values;
  std::string positional;
  for (const Argument& argument : command.arguments) {
    if (!argument.takes_value) continue;
    if (argument.flags.empty()) {
      positional = bash_values(argument);
    } else {
      const std::string offer = bash_values(argument);
      values += fmt::format("        {}) {}{}return ;;\n", joined(argument.flags, "|"), offer,
                            offer.empty() ? "" : "; ");
    }
  }
  std::string text = fmt::format("    {})\n", command.name);
  if (!values.empty()) text += "      case \"$previous\" in\n" + values + "      esac\n";
  text += fmt::format("      if [[ $word == -* ]]; then {}\n", bash_words(flags_of(command)));
  if (!positional.empty()) text += fmt::format("      else {}\n", positional);
  return text + "      fi ;;\n";
}

std::string bash_script(const CommandSpec& program) {
  std::vector<std::string> first;
  std::string cases;
  for (const CommandSpec& command : program.subcommands) {
    first.push_back(command.name);
    cases += bash_case(command);
  }
  const std::vector<std::string> flags = flags_of(program);
  first.insert(first.end(), flags.begin(), flags.end());
  return fmt::format(
      "# bash completion for {0}; load it with: source <({0} completion bash)\n"
      "_{0}() {{\n"
      "  local -i at=COMP_CWORD\n"
      "  local word=${{COMP_WORDS[at]}}\n"
      "  # @name comes as two words, --option=value as three, --option=@name as four.\n"
      "  if [[ $word != *@ && ${{COMP_WORDS[at-1]}} == *@ ]]; then word=@$word at=at-1\n"
      "  elif [[ $word == =@ ]]; then word=@\n"
      "  fi\n"
      "  local previous=${{COMP_WORDS[at-1]}}\n"
      "  if [[ $word == = ]]; then word=\n"
      "  elif [[ $previous == = ]]; then previous=${{COMP_WORDS[at-2]}}\n"
      "  fi\n"
      "  # A name is no file: its @ needs no backslash.\n"
      "  if [[ $word == @* ]]; then compopt +o filenames 2> /dev/null; fi\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    {1}\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "{2}"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _{0} {0}\n",
      program.name, bash_words(first), cases);
}

// A value that is neither a file nor one of some choices gets its description and no matches.
std::string zsh_values(const Argument& argument) {
  if (argument.names_file && !argument.choices.empty()) {
    return fmt::format("{{_files; compadd -- {}}}", joined(argument.choices, " "));
  }
  if (argument.names_file) return "_files";
  return argument.choices.empty() ? " " : "(" + joined(argument.choices, " ") + ")";
}

std::string zsh_arguments(const CommandSpec& command) {
  std::string text;
  for (const Argument& argument : command.arguments) {
    const std::string description = zsh_text(argument.description);
    const std::string values = zsh_values(argument);
    if (argument.flags.empty()) {
      const std::string_view place = argument.several ? "*" : "1";
      text += fmt::format(" \\\n        '{}:{}:{}'", place, description, values);
      continue;
    }
    for (const std::string& flag : argument.flags) {
      const std::string value = argument.takes_value ? ":value:" + values : "";
      text += fmt::format(" \\\n        '*{}[{}]{}'", flag, description, value);
    }
  }
  return text;
}

std::string zsh_script(const CommandSpec& program) {
  std::string names;
  std::string cases;
  for (const CommandSpec& command : program.subcommands) {
    names += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.description));
    cases +=
        fmt::format("      {})\n        _arguments{} ;;\n", command.name, zsh_arguments(command));
  }
  return fmt::format(
      "#compdef {0}\n"
      "# zsh completion for {0}; save it as _{0} in a folder of your $fpath\n"
      "_{0}() {{\n"
      "  local -a commands=(\n{1}  )\n"
      "  local curcontext=\"$curcontext\" state line\n"
      "  _arguments -C{2} \\\n        '*::argument:->rest'\n"
      "  if [[ $state == rest ]]; then\n"
      "    if ((CURRENT == 1)); then\n"
      "      _describe command commands\n"
      "      return\n"
      "    fi\n"
      "    case $line[1] in\n{3}    esac\n"
      "  fi\n"
      "}}\n"
      "if [[ $funcstack[1] == _{0} ]]; then _{0} \"$@\"; else compdef _{0} {0}; fi\n",
      program.name, names, zsh_arguments(program), cases);
}

std::string fish_options(const CommandSpec& command, const std::string& start) {
  std::string text;
  for (const Argument& argument : command.arguments) {
    std::string line = start;
    for (const std::string& flag : argument.flags) {
      line += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
    }
    if (argument.takes_value) {
      // -r: takes a value; -F: a file; -f: no file.
      if (!argument.flags.empty()) line += " -r";
      line += argument.names_file ? " -F" : " -f";
      if (!argument.choices.empty()) line += " -a '" + joined(argument.choices, " ") + "'";
    }
    text += fmt::format("{} -d '{}'\n", line, fish_text(argument.description));
  }
  return text;
}

std::string fish_script(const CommandSpec& program) {
  const std::string complete = "complete -c " + program.name;
  std::string text = fmt::format(
      "# fish completion for {0}; save it as ~/.config/fish/completions/{0}.fish\n{1} -f\n",
      program.name, complete);
  text += fish_options(program, complete + " -n __fish_use_subcommand");
  for (const CommandSpec& command : program.subcommands) {
    text += fmt::format("{} -n __fish_use_subcommand -a {} -d '{}'\n", complete, command.name,
                        fish_text(command.description));
    text += fish_options(
        command, fmt::format("{} -n '__fish_seen_subcommand_from {}'", complete, command.name));
  }
  return text;
}

constexpr std::array<std::string_view, 3> kShells = {"bash", "zsh", "fish"};
constexpr std::array kScripts = {bash_script, zsh_script, fish_script};

}  // namespace

std::span<const std::string_view> shell_names() { return kShells; }

std::string completion_script(const CommandSpec& program, std::string_view shell) {
  for (std::size_t i = 0; i < kShells.size(); ++i) {
    if (kShells[i] == shell) return kScripts[i](program);
  }
  assert(false);
  return {};
}

void run(const CompletionOptions& options) {
  Output output = Output::standard();
  output.write(completion_script(describe_command_line(), options.shell));
  output.finish();
}

}  // namespace fusecalc
