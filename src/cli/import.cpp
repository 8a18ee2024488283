#include <array>
#include <string>
#include <utility>
#include <variant>

#include "analysis/model_summary.hpp"
#include "cli/commands.hpp"
#include "cli/documents.hpp"
#include "cli/outputs.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/output.hpp"
#include "device/device.hpp"
#include "json/source.hpp"
#include "report/model_summary.hpp"
#include "report/op_list.hpp"

namespace fusecalc {

void run(const ImportOptions& options) {
  std::vector<std::string> files;
  if (!options.output.empty()) files.push_back(options.output);
  if (!options.summary.empty()) files.push_back(options.summary);
  refuse_overwriting_inputs(files, std::array{options.document});
  ByteSource source = open_document(options.document);
  if (source.peek().empty()) {
    throw Error(Fault::kBadInput, source.name() + ": is empty; import takes a model file");
  }
  Document document = read_document(std::move(source), options.dims);
  if (!document.origin) {
    throw Error(Fault::kBadInput,
                document.name + ": is an op list already; import takes a model file");
  }
  auto& written = std::get<WrittenGraph>(document.list);
  if (!written.name) written.name = name_of_document(options.document);
  const OpGraph graph = build_graph(written, options.dims);
  const ModelSummary summary =
      summarise(*document.origin, graph, known_devices().front(), *written.name);
  show_summary(summary);
  if (!options.summary.empty()) {
    Output file = Output::file(options.summary);
    write_model_summary(summary, file);
    file.finish();
  }
  Output output = options.output.empty() ? Output::standard() : Output::file(options.output);
  write_op_list(written, output);
  output.finish();
}

}  // namespace fusecalc
