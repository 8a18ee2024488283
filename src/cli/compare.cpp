#include "compare/compare.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "cli/commands.hpp"
#include "cli/outputs.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
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

// Results by the name that they are matched by.
using Results = std::map<std::string, ResultDocument>;

// The results of a file. A single one is stored under `name`, those of a list under their own
// names.
void read_file(const std::string& path, const std::string& name, bool any_version,
               Results& results) {
  JsonReader reader(ByteSource::open(path));
  std::vector<ResultDocument> found = read_results(reader, any_version);
  const bool lone = found.size() == 1;
  for (ResultDocument& result : found) {
    const std::string key = lone ? name : result.name;
    if (!results.emplace(key, std::move(result)).second) {
      throw Error(Fault::kBadInput,
                  fmt::format("{}: two results are named {}; give each its own name", reader.name(),
                              in_quotes(key)));
    }
  }
}

bool is_json(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".json";
}

// The .json files of a folder and of the folders in it, by their paths from there.
Results read_folder(const std::string& folder, bool any_version) {
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  std::vector<fs::path> paths;
  std::error_code error;
  std::set<fs::path> visited = {fs::canonical(folder, error)};  // links may lead back
  for (fs::recursive_directory_iterator entry(folder, kFollow, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;  // a link to nothing is read, and refused there
    if (entry->is_directory(unknown)) {
      if (!visited.insert(fs::canonical(entry->path(), unknown)).second) {
        entry.disable_recursion_pending();
      }
    } else if (is_json(entry->path())) {
      if (entry->exists(unknown) && !entry->is_regular_file(unknown)) {
        throw Error(Fault::kBadInput, printable(entry->path().string()) + ": not a regular file");
      }
      paths.push_back(entry->path());
    }
  }
  if (error) throw Error(Fault::kBadInput, printable(folder) + ": " + error.message());
  std::ranges::sort(paths);
  Results results;
  for (const fs::path& path : paths) {
    const std::string name = path.lexically_relative(folder).replace_extension().string();
    read_file(path.string(), name, any_version, results);
  }
  return results;
}

void compare_pair(const CompareCommand& command, const ResultDocument& before,
                  const ResultDocument& after, const std::string& spec, Comparison& comparison) {
  const std::vector<std::string> differences = mismatches(before, after);
  if (!differences.empty() && !command.force) {
    const std::size_t more = differences.size() - 1;
    throw Error(
        Fault::kBadInput,
        fmt::format("{}: {}{}; compare matching results, or override with --force", after.path,
                    differences.front(), more == 0 ? "" : fmt::format(" (and {} more)", more)));
  }
  const std::size_t known = comparison.findings.size();
  compare_documents(before, after, spec, comparison);
  if (comparison.findings.size() == known) {
    throw Error(Fault::kBadInput, fmt::format("nothing to compare: {} and {} have no figures "
                                              "in common",
                                              before.path, after.path));
  }
}

void compare_by_name(const CompareCommand& command, const Results& before, const Results& after,
                     Comparison& comparison) {
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
  const auto read = [&](const std::string& path) {
    Results results;
    read_file(path, "", command.force, results);
    return results;
  };
  Results before = read(command.base);
  Results after = read(command.fresh);
  const auto is_lone = [](const Results& results) {
    return results.size() == 1 && results.begin()->first.empty();
  };
  if (is_lone(before) && is_lone(after)) {
    const ResultDocument& result = after.begin()->second;
    compare_pair(command, before.begin()->second, result,
                 result.name.empty() ? name_of_document(command.fresh) : result.name, comparison);
    return;
  }
  for (Results* results : {&before, &after}) {
    if (!is_lone(*results)) continue;
    auto node = results->extract(results->begin());
    node.key() = node.mapped().name;
    results->insert(std::move(node));
  }
  compare_by_name(command, before, after, comparison);
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
  const std::string_view fallback = ::isatty(STDOUT_FILENO) == 1 ? "table" : "json";
  Output output = Output::standard();
  format_named(command.format.value_or(std::string(fallback)))
      .write_comparison(comparison, style_of_standard_output(), output);
  output.finish();
  if (failed && !command.no_fail) throw failure_of(std::move(comparison));
}

}  // namespace fusecalc
