#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/command_spec.hpp"
#include "compare/comparison.hpp"
#include "graph/op_graph.hpp"
#include "measure/plan_runner.hpp"
#include "plan/plan_kind.hpp"

namespace fusecalc {

struct AnalyzeOptions {
  std::string document;                      // a path, or - for standard input
  std::optional<std::uint64_t> dtype_bytes;  // the sizes form
  std::vector<DimOverride> dims;             // the graph form
  std::optional<PlanKind> plan;
  std::string device;
  bool explain = false;
  std::optional<std::string> format;
  std::vector<std::string> outputs;
};

struct MeasureCommand {
  std::vector<std::string> documents;  // paths, - for standard input, or @name; none: all specs
  std::optional<std::uint64_t> dtype_bytes;  // the sizes form
  std::vector<DimOverride> dims;             // the graph form
  std::optional<PlanKind> plan;
  std::optional<std::string> sources;  // a folder to write the generated sources to
  int device_index = 0;
  MeasureOptions options;
  std::optional<std::string> format;
  std::vector<std::string> outputs;
};

struct ImportOptions {
  std::string document;  // a path, or - for standard input
  std::vector<DimOverride> dims;
  std::string output;   // empty: standard output
  std::string summary;  // empty: none
};

struct CompareCommand {
  std::string base;  // a path, - for standard input, or a folder
  std::string fresh;
  std::vector<ToleranceRule> tolerances;  // after the file's, in their order
  std::optional<std::string> tolerance_file;
  SortKey sort = SortKey::kWorst;
  bool only_changed = false;
  bool strict = false;
  bool allow_missing = false;
  bool no_fail = false;
  bool force = false;
  std::optional<std::string> format;
  std::vector<std::string> outputs;
};

struct DoctorCommand {
  int device_index = 0;
};

struct SchemaOptions {
  std::string document;
};

struct OpsOptions {
  std::string format;
};

struct SpecsOptions {
  std::string name;  // of the one to print; empty: list them
  std::string format;
};

struct CompletionOptions {
  std::string shell;
};

// --help and --version: text to print.
struct ShowText {
  std::string text;
};

using Command =
    std::variant<AnalyzeOptions, MeasureCommand, ImportOptions, CompareCommand, DoctorCommand,
                 OpsOptions, SpecsOptions, SchemaOptions, CompletionOptions, ShowText>;

// Turns the arguments into one typed command. Throws Error on anything it does not understand.
Command parse_command_line(int argc, const char* const* argv);

// The same definition as data, for the completions.
CommandSpec describe_command_line();

}  // namespace fusecalc
