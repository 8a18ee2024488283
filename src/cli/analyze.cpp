#include "analysis/analyze.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "analysis/boundaries.hpp"
#include "cli/commands.hpp"
#include "cli/documents.hpp"
#include "cli/outputs.hpp"
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

Analysis analyze(const AnalyzeOptions& options) {
  Document read = read_document(open_document(options.document), options.dims);
  const std::string& document = read.name;
  if (auto* chain = std::get_if<SizeChain>(&read.list)) {
    if (!options.dims.empty()) refuse(document, "--dim", "lists sizes, which have no dims");
    if (options.plan) refuse(document, "--plan", "lists sizes, which have one plan only");
    chain->dtype_bytes = options.dtype_bytes.value_or(chain->dtype_bytes);
    return analyze_chain(*chain, chain->name.value_or(name_of_document(options.document)),
                         document);
  }
  const auto& written = std::get<WrittenGraph>(read.list);
  if (options.dtype_bytes) refuse(document, "--dtype-bytes", "gives each tensor its own dtype");
  OpGraph graph = build_graph(written, options.dims);
  const std::string name = graph.name.value_or(name_of_document(options.document));
  const Device& device = device_named(options.device);
  if (read.origin) show_summary(summarise(*read.origin, graph, device, name));
  return analyze_graph(std::move(graph), name, device, options.plan);
}

}  // namespace

void run(const AnalyzeOptions& options) {
  for (const std::string& path : options.outputs) format_for_file(path);  // refuse early
  refuse_overwriting_inputs(options.outputs, std::array{options.document});
  const std::string_view fallback = ::isatty(STDOUT_FILENO) == 1 ? "table" : "json";
  const Format& format = format_named(options.format.value_or(std::string(fallback)));
  const Style style{.explain = options.explain};
  BoundaryScope scope = format.boundaries(style);
  for (const std::string& path : options.outputs) {
    scope = std::max(scope, format_for_file(path).boundaries(style));
  }
  Analysis analysis = analyze(options);
  find_boundaries(analysis, scope);
  for (const std::string& path : options.outputs) {
    Output file = Output::file(path);
    format_for_file(path).write(analysis, style, file);
    file.finish();
  }
  Output output = Output::standard();
  format.write(analysis, style_of_standard_output(options.explain), output);
  output.finish();
}

}  // namespace fusecalc
