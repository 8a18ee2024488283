#include "analysis/analyze.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/boundaries.hpp"
#include "analysis/model_summary.hpp"
#include "cli/commands.hpp"
#include "cli/devices.hpp"
#include "cli/documents.hpp"
#include "cli/outputs.hpp"
#include "cli/result_files.hpp"
#include "cli/runs.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "graph/op_graph.hpp"
#include "json/source.hpp"
#include "report/formats.hpp"

namespace fusecalc {
namespace {

[[noreturn]] void refuse(const std::string& document, std::string_view option,
                         std::string_view why) {
  throw Error(Fault::kBadInput, fmt::format("{}: {} does not apply: it {}", document, option, why));
}

}  // namespace

Analysis analyze_document(const Document& read, const std::string& path,
                          const AnalyzeOptions& options) {
  const std::string& document = read.name;
  if (const auto* listed = std::get_if<SizeChain>(&read.list)) {
    if (!options.dims.empty()) refuse(document, "--dim", "lists sizes, which have no dims");
    if (options.plan) refuse(document, "--plan", "lists sizes, which have one plan only");
    device_of(options.device);  // sizes need none, but a wrong name is an error all the same
    SizeChain chain = *listed;
    chain.dtype_bytes = options.dtype_bytes.value_or(chain.dtype_bytes);
    return analyze_chain(chain, chain.name.value_or(name_of_document(path)), document);
  }
  const auto& written = std::get<WrittenGraph>(read.list);
  if (options.dtype_bytes) refuse(document, "--dtype-bytes", "gives each tensor its own dtype");
  OpGraph graph = build_graph(written, options.dims);
  const std::string name = graph.name.value_or(name_of_document(path));
  return analyze_graph(std::move(graph), name, device_of(options.device), options.plan);
}

namespace {

// The op lists and models of folders in their place.
std::vector<std::string> files_of(const std::vector<std::string>& documents) {
  std::vector<std::string> files;
  for (const std::string& document : documents) {
    std::error_code error;
    if (document == "-" || !std::filesystem::is_directory(document, error)) {
      files.push_back(document);
      continue;
    }
    for (const std::filesystem::path& path : op_list_files(document)) {
      files.push_back(path.string());
    }
  }
  return files;
}

void check_takes(const Format& format, std::size_t documents) {
  if (documents == 1 || format.write_several != nullptr) return;
  std::vector<std::string_view> several;
  for (const Format& other : formats()) {
    if (other.write_several != nullptr) several.push_back(other.name);
  }
  throw Error(Fault::kBadInput,
              fmt::format("{} shows one op list, and {} were given; give one, or write {}",
                          format.name, documents, listed(several)));
}

// compare pairs the results of one document by name.
void warn_of_equal_names(std::span<const Analysis> analyses) {
  std::set<std::string> names;
  for (const Analysis& analysis : analyses) {
    if (names.insert(analysis.name).second) continue;
    std::fprintf(stderr,
                 "fusecalc: two results are named %s, and compare refuses a document with both; "
                 "give each op list its own \"name\", or write one file each\n",
                 in_quotes(analysis.name).c_str());
    return;
  }
}

void write_all(const Format& format, std::span<const Analysis> analyses, const Style& style,
               Output output) {
  if (analyses.size() == 1) {
    format.write(analyses.front(), style, output);
  } else {
    format.write_several(analyses, style, output);
  }
  output.finish();
}

// Adds the summary of a model.
Analysis analyze_file(const std::string& path, const AnalyzeOptions& options,
                      std::vector<ModelSummary>& summaries) {
  const Document read = read_document(open_document(path), options.dims);
  Analysis analysis = analyze_document(read, path, options);
  if (read.origin) {
    const GraphAnalysis& graph = *analysis.graph;
    summaries.push_back(summarise(*read.origin, graph.graph, graph.device, analysis.name));
  }
  return analysis;
}

}  // namespace

void run(const AnalyzeOptions& options) {
  refuse_standard_input_twice(options.documents);
  const std::vector<std::string> files = files_of(options.documents);
  for (const std::string& path : options.outputs) check_takes(format_for_file(path), files.size());
  refuse_overwriting_inputs(options.outputs, options.documents);
  const Format& format = format_named(options.format.value_or(default_format()));
  check_takes(format, files.size());
  const Style style{.explain = options.explain};
  BoundaryScope scope = format.boundaries(style);
  for (const std::string& path : options.outputs) {
    scope = std::max(scope, format_for_file(path).boundaries(style));
  }
  bool json = format.name == "json";
  for (const std::string& path : options.outputs) {
    json = json || format_for_file(path).name == "json";
  }
  std::vector<Analysis> analyses;
  std::vector<ModelSummary> summaries;
  for (const std::string& file : files) {
    find_boundaries(analyses.emplace_back(analyze_file(file, options, summaries)), scope);
  }
  for (const std::string& path : options.outputs) {
    write_all(format_for_file(path), analyses, style, Output::file(path));
  }
  // An error before is the only line on standard error.
  for (const ModelSummary& summary : summaries) show_summary(summary);
  if (json) warn_of_equal_names(analyses);
  write_all(format, analyses, style_of_standard_output(options.explain), Output::standard());
}

}  // namespace fusecalc
