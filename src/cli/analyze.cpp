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
#include "cli/outputs.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "graph/op_graph.hpp"
#include "input/op_list.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "report/formats.hpp"

namespace fusecalc {
namespace {

[[noreturn]] void refuse(const std::string& document, std::string_view option,
                         std::string_view why) {
  throw Error(Fault::kBadInput, fmt::format("{}: {} does not apply: it {}", document, option, why));
}

Analysis analyze(const AnalyzeOptions& options) {
  JsonReader reader(open_document(options.document));
  OpList list = read_op_list(reader);
  const std::string& document = reader.name();
  if (auto* chain = std::get_if<SizeChain>(&list)) {
    if (!options.dims.empty()) refuse(document, "--dim", "lists sizes, which have no dims");
    if (options.plan) refuse(document, "--plan", "lists sizes, which have one plan only");
    chain->dtype_bytes = options.dtype_bytes.value_or(chain->dtype_bytes);
    return analyze_chain(*chain, chain->name.value_or(name_of_document(options.document)),
                         document);
  }
  const auto& written = std::get<WrittenGraph>(list);
  if (options.dtype_bytes) refuse(document, "--dtype-bytes", "gives each tensor its own dtype");
  OpGraph graph = build_graph(written, options.dims);
  const std::string name = graph.name.value_or(name_of_document(options.document));
  return analyze_graph(std::move(graph), name, device_named(options.device), options.plan);
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
