#include "compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/github.hpp"
#include "cli/outputs.hpp"
#include "cli/result_files.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/github_actions.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "report/comparison_cells.hpp"
#include "report/formats.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  std::error_code error;
  return path != "-" && fs::is_directory(path, error);
}

// A document, which holds one result or a list of them.
struct ResultFile {
  std::string path;
  std::string name;  // "deep/softmax": its path in the folder; empty if it is no folder's
  std::vector<ResultDocument> results{};

  bool is_list() const { return results.size() != 1; }
};

ResultFile read_file(const std::string& path, std::string name, bool any_version) {
  JsonReader reader(ByteSource::open(path));
  ResultFile file{.path = reader.name(), .name = std::move(name)};
  file.results = read_results(reader, any_version);
  return file;
}

// Results by the name that they are matched by.
using Results = std::map<std::string, ResultDocument>;

// A single result is named after its file, those of a list have their own names. A file that holds
// a list on either side (`lists`) is one on both.
Results named(std::vector<ResultFile> files, const std::set<std::string>& lists) {
  Results results;
  for (ResultFile& file : files) {
    for (ResultDocument& result : file.results) {
      const std::string key = lists.contains(file.name) ? result.name : file.name;
      if (results.emplace(key, std::move(result)).second) continue;
      throw Error(Fault::kBadInput,
                  fmt::format("{}: two results are named {}; give each its own name", file.path,
                              in_quotes(key)));
    }
  }
  return results;
}

std::vector<ResultFile> read_folder(const std::string& folder, bool any_version) {
  std::vector<ResultFile> files;
  for (const fs::path& path : result_files(folder)) {
    const std::string name = path.lexically_relative(folder).replace_extension().string();
    files.push_back(read_file(path.string(), name, any_version));
  }
  return files;
}

void compare_pair(const CompareCommand& command, const ResultDocument& before,
                  const ResultDocument& after, const std::string& spec, Comparison& comparison) {
  const std::vector<std::string> differences = mismatches(before, after);
  if (!differences.empty() && !command.force) {
    const std::size_t more = differences.size() - 1;
    const std::string why =
        differences.front() + (more == 0 ? "" : fmt::format(" (and {} more)", more));
    note_incomparable_documents(spec, why, comparison);
    if (comparison.refusal.empty()) {
      comparison.refusal = fmt::format("{}: {}; compare matching results, or override with --force",
                                       after.path, why);
    }
    return;
  }
  const std::size_t known = comparison.findings.size();
  compare_documents(before, after, spec, comparison);
  if (comparison.findings.size() == known) {
    throw Error(Fault::kBadInput, fmt::format("nothing to compare: {} and {} have no figures "
                                              "in common",
                                              before.path, after.path));
  }
}

void compare_by_name(const CompareCommand& command, std::vector<ResultFile> base,
                     std::vector<ResultFile> fresh, Comparison& comparison) {
  std::set<std::string> lists;
  for (const std::vector<ResultFile>* files : {&base, &fresh}) {
    for (const ResultFile& file : *files) {
      if (file.is_list()) lists.insert(file.name);
    }
  }
  const Results before = named(std::move(base), lists);
  const Results after = named(std::move(fresh), lists);
  std::size_t pairs = 0;
  for (const auto& [spec, result] : before) {
    const auto found = after.find(spec);
    if (found == after.end()) {
      note_unpaired_document(spec, Change::kRemoved, comparison);
    } else {
      compare_pair(command, result, found->second, spec, comparison);
      ++pairs;
    }
  }
  if (pairs == 0) {
    throw Error(Fault::kBadInput,
                fmt::format("nothing to compare: {} and {} have no result names in common",
                            printable(command.base), printable(command.fresh)));
  }
  for (const auto& [spec, result] : after) {
    if (!before.contains(spec)) note_unpaired_document(spec, Change::kAdded, comparison);
  }
}

// Two files with one result each are compared regardless of their names.
void compare_files(const CompareCommand& command, Comparison& comparison) {
  std::vector<ResultFile> before;
  std::vector<ResultFile> after;
  before.push_back(read_file(command.base, "", command.force));
  after.push_back(read_file(command.fresh, "", command.force));
  if (before.front().is_list() || after.front().is_list()) {
    compare_by_name(command, std::move(before), std::move(after), comparison);
    return;
  }
  const ResultDocument& result = after.front().results.front();
  compare_pair(command, before.front().results.front(), result,
               result.name.empty() ? name_of_document(command.fresh) : result.name, comparison);
}

Comparison compare(const CompareCommand& command) {
  Comparison comparison{.base = command.base,
                        .fresh = command.fresh,
                        .strict = command.strict,
                        .allow_missing = command.allow_missing};
  if (command.tolerance_file) {
    JsonReader reader(ByteSource::open(*command.tolerance_file));
    for (ToleranceRule& rule : read_tolerances(reader)) comparison.tolerances.add(std::move(rule));
  }
  for (const ToleranceRule& rule : command.tolerances) comparison.tolerances.add(rule);
  if (command.base == "-" && command.fresh == "-") {
    throw Error(Fault::kBadInput,
                "compare: BASE and NEW are both standard input; use a file for one");
  }
  const bool folder = is_folder(command.base);
  if (folder != is_folder(command.fresh)) {
    throw Error(Fault::kBadInput,
                fmt::format("compare: {} is a folder and {} is not; give two files or two folders",
                            printable(folder ? command.base : command.fresh),
                            printable(folder ? command.fresh : command.base)));
  }
  if (folder) {
    compare_by_name(command, read_folder(command.base, command.force),
                    read_folder(command.fresh, command.force), comparison);
  } else {
    compare_files(command, comparison);
  }
  for (const ToleranceRule* rule : comparison.tolerances.unused()) {
    comparison.notes.push_back("no figure matches the tolerance for " + scope_of(*rule));
  }
  return comparison;
}

// The error for the line on standard error: the worst failure, plans before kernels and the
// headline plan first.
Error failure_of(Comparison comparison) {
  sort_findings(comparison.findings, SortKey::kWorst);
  std::stable_sort(comparison.findings.begin(), comparison.findings.end(),
                   [](const Finding& a, const Finding& b) {
                     const auto rank = [](const Finding& finding) {
                       return std::tuple(!finding.failed, !finding.kernel.empty(),
                                         !finding.headline);
                     };
                     return rank(a) < rank(b);
                   });
  std::size_t failed = 0;
  for (const Finding& finding : comparison.findings) failed += finding.failed ? 1 : 0;
  return {Fault::kCheckFailed,
          fmt::format("{}: {} {}: {}{}", printable(comparison.fresh),
                      comparison.strict ? "different from" : "worse than",
                      printable(comparison.base), in_words(comparison.findings.front()),
                      failed > 1 ? fmt::format(" (and {} more)", failed - 1) : "")};
}

}  // namespace

void run(const CompareCommand& command) {
  for (const std::string& path : command.outputs) comparison_format_for_file(path);  // refuse early
  refuse_overwriting_inputs(command.outputs, std::array{command.base, command.fresh,
                                                        command.tolerance_file.value_or("")});
  Comparison comparison = compare(command);
  const bool failed = comparison.failed();
  if (command.only_changed) comparison.leave_out_same();
  sort_findings(comparison.findings, command.sort);
  for (const std::string& path : command.outputs) {
    Output file = Output::file(path);
    comparison_format_for_file(path).write_comparison(comparison, Style{}, file);
    file.finish();
  }
  if (!comparison.refusal.empty()) throw Error(Fault::kBadInput, comparison.refusal);
  const std::string format =
      command.format.value_or(in_github_actions() ? "github" : default_format());
  const bool github = format == "github";
  if (github) locate_findings(comparison);
  Output output = Output::standard();
  format_named(format).write_comparison(comparison, style_of_standard_output(), output);
  output.finish();
  if (github) append_step_summary(comparison);
  if (failed && !command.no_fail) throw failure_of(std::move(comparison));
}

}  // namespace fusecalc
