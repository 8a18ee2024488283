#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/injection.hpp"
#include "cli/command_spec.hpp"
#include "compare/comparison.hpp"
#include "graph/op_graph.hpp"
#include "measure/plan_runner.hpp"
#include "plan/plan_kind.hpp"
#include "sweep/axis.hpp"

namespace fusecalc {

struct AnalyzeOptions {
  std::vector<std::string> documents;        // paths, folders, - for standard input, or @name
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

struct SweepCommand {
  std::vector<std::string> arguments;  // of the program, as they were given
  std::vector<std::string> documents;  // paths or @name; none: those of the sweep in `folder`
  std::vector<SweepAxis> axes;
  std::vector<std::string> devices;
  std::optional<std::uint64_t> dtype_bytes;
  std::optional<PlanKind> plan;
  std::optional<MeasureOptions> measure;  // empty: points are analysed
  std::string folder;
  std::optional<unsigned> jobs;
  std::optional<std::string> slurm;  // options of sbatch
  std::size_t chunk = 0;             // points per task of a job; 0: as suits
  std::optional<std::string> collect;
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

struct ProfileCommand {
  std::vector<std::string> program;
  InjectionSettings settings;
  bool times = true;  // of a second run of the program
  std::optional<std::string> op_list;
  std::vector<DimOverride> dims;
  std::optional<std::string> format;
  std::vector<std::string> outputs;
};

struct DoctorCommand {
  int device_index = 0;
  bool calibrate = false;
  std::string output;  // of the calibration; empty: standard output
};

struct SchemaOptions {
  std::string document;
};

struct OpsOptions {
  std::optional<std::string> format;
};

struct SpecsOptions {
  std::string name;  // of the one to print; empty: list them
  std::optional<std::string> format;
};

struct DevicesOptions {
  std::string name;  // of the one to print; empty: list them
  std::optional<std::string> format;
};

struct CompletionOptions {
  std::string shell;
};

struct ManualOptions {};

// --help and --version: text to print.
struct ShowText {
  std::string text;
};

using Command =
    std::variant<AnalyzeOptions, MeasureCommand, SweepCommand, ImportOptions, CompareCommand,
                 ProfileCommand, DoctorCommand, OpsOptions, SpecsOptions, DevicesOptions,
                 SchemaOptions, CompletionOptions, ManualOptions, ShowText>;

// Turns the arguments into one typed command. Throws Error on anything it does not understand.
Command parse_command_line(int argc, const char* const* argv);

// The same definition as data, for completions and the manual page.
CommandSpec describe_command_line();

}  // namespace fusecalc
