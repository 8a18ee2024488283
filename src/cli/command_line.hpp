#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/command_spec.hpp"
#include "measure/plan_runner.hpp"

namespace fusecalc {

struct AnalyzeOptions {
  std::string document;  // a path, or - for standard input
  std::optional<std::uint64_t> dtype_bytes;
  std::optional<std::string> format;
  std::vector<std::string> outputs;
};

struct MeasureCommand {
  std::string document;  // a path, or - for standard input
  std::optional<std::uint64_t> dtype_bytes;
  int device_index = 0;
  MeasureOptions options;
  std::optional<std::string> format;
  std::vector<std::string> outputs;
};

struct DoctorCommand {
  int device_index = 0;
};

struct SchemaOptions {
  std::string document;
};

struct CompletionOptions {
  std::string shell;
};

// --help and --version: text to print.
struct ShowText {
  std::string text;
};

using Command = std::variant<AnalyzeOptions, MeasureCommand, DoctorCommand, SchemaOptions,
                             CompletionOptions, ShowText>;

// Turns the arguments into one typed command. Throws Error on anything it does not understand.
Command parse_command_line(int argc, const char* const* argv);

// The same definition as data, for the completions.
CommandSpec describe_command_line();

}  // namespace fusecalc
