#include "cli/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/commands.hpp"
#include "core/output.hpp"
#include "version.hpp"

namespace fusecalc {
namespace {

using Argument = CommandSpec::Argument;

constexpr std::string_view kDescription =
    R"(fusecalc counts the memory traffic that fusing GPU operations saves.
It reads an op list: a JSON document of operations and the shapes of their tensors.
A model file of PyTorch (.pt2) or ONNX (.onnx) may take its place.
.PP
.B analyze
counts exact bytes and predicts DRAM traffic and time without a GPU.
.BR measure " and " profile
read the DRAM counters of an NVIDIA GPU.
.B compare
sets two results side by side and fails where the newer one is worse.
.PP
Results go to standard output, everything else to standard error.
Output is a table on a terminal and JSON elsewhere;
.BR \-\-format " and " \-o
choose another format.
)";

constexpr std::string_view kAfterCommands =
    R"(.SH EXIT STATUS
.TP
.B 0
Success.
.TP
.B 1
A check failed: a result is worse than the one it is compared with, or a measured kernel computed a
wrong result.
.TP
.B 2
Bad usage or input. Standard error has one line: the place, what is wrong, and how to fix it.
.TP
.B 3
Not available here: no GPU, no driver, no permission to read counters, or a build without the GPU
module.
.SH ENVIRONMENT
.TP
.B NO_COLOR
Where set and not empty, tables have no colour.
.TP
.B XDG_CACHE_HOME
The folder that holds the cache of compiled kernels (default:
.IR ~/.cache ).
.TP
.B CUDA_VISIBLE_DEVICES
The GPUs that
.B sweep \-\-measure
distributes its points over.
.SH FILES
.TP
.I ~/.cache/fusecalc/kernels
Compiled kernels of
.BR measure .
The folder may be deleted at any time.
.TP
.I PREFIX/share/fusecalc/specs
Copies of the op lists, devices and JSON schemas that the program has built in.
.TP
.I PREFIX/share/doc/fusecalc
The README and the guide.
)";

// Text in which every character stands for itself, at the start of a line or elsewhere.
std::string roff(std::string_view text) {
  std::string out;
  bool line_starts = true;
  for (const char c : text) {
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '~': out += "\\(ti"; break;
      case '^': out += "\\(ha"; break;
      case '`': out += "\\(ga"; break;
      case '\'': out += "\\(aq"; break;
      default:
        if (c == '.' && line_starts) out += "\\&";
        out += c;
    }
    line_starts = c == '\n';
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

// "-f, --format FORMAT", or the name of a positional argument.
std::string term(const Argument& argument) {
  std::string out;
  for (const std::string& flag : argument.flags) {
    out += (out.empty() ? "" : ", ") + bold(flag);
  }
  if (argument.takes_value) out += (out.empty() ? "" : " ") + italic(argument.value_name);
  return out;
}

std::string entry(const Argument& argument) {
  return fmt::format(".TP\n{}\n{}\n", term(argument), roff(argument.description));
}

bool is_help(const Argument& argument) {
  return !argument.flags.empty() && argument.flags.back() == "--help";
}

// Remarks are filled; examples keep their lines.
std::string notes(std::string_view text) {
  std::string out;
  bool example = false;
  const auto end_example = [&] {
    if (example) out += ".EE\n.RE\n";
    example = false;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("  ")) {
      if (!example) out += ".RS 4\n.EX\n";
      example = true;
      out += roff(line.substr(2)) + "\n";
      continue;
    }
    end_example();
    if (!line.empty()) out += ".PP\n" + roff(line) + "\n";
  }
  end_example();
  return out;
}

std::string section(const CommandSpec& program, const CommandSpec& command) {
  std::string synopsis = bold(program.name + " " + command.name) + " [" + italic("OPTIONS") + "]";
  std::string arguments;
  for (const Argument& argument : command.arguments) {
    if (argument.flags.empty()) {
      synopsis += " " + italic(argument.value_name) + (argument.several ? "..." : "");
    }
    if (!is_help(argument)) arguments += entry(argument);
  }
  return fmt::format(".SS {}\n{}\n.PP\n{}.\n{}{}", roff(command.name), synopsis,
                     roff(command.description), arguments, notes(command.notes));
}

}  // namespace

std::string manual_page(const CommandSpec& program) {
  std::string page = fmt::format(
      ".TH FUSECALC 1 \"\" \"fusecalc {}\" \"User Commands\"\n"
      ".SH NAME\nfusecalc \\- the memory traffic that fusing GPU operations saves\n"
      ".SH SYNOPSIS\n{} {} [{}]\n.SH DESCRIPTION\n{}.SH OPTIONS\n",
      roff(kVersion), bold(program.name), italic("COMMAND"), italic("ARGUMENTS"), kDescription);
  for (const CommandSpec::Argument& argument : program.arguments) page += entry(argument);
  page += ".PP\nEvery command takes " + bold("--help") + ".\n.SH COMMANDS\n";
  for (const CommandSpec& command : program.subcommands) page += section(program, command);
  page += kAfterCommands;
  return page;
}

void run(const ManualOptions&) {
  Output output = Output::standard();
  output.write(manual_page(describe_command_line()));
  output.finish();
}

}  // namespace fusecalc
