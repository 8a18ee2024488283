#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "analysis/model_summary.hpp"
#include "cli/commands.hpp"
#include "cli/documents.hpp"
#include "cli/outputs.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "json/source.hpp"
#include "report/formats.hpp"
#include "report/model_summary.hpp"
#include "report/op_list.hpp"

namespace fusecalc {

namespace {

// Standard output gets the op list where no file does.
bool to_standard_output(const ImportOptions& options) {
  return options.output.empty() || options.output == "-";
}

// A file of another format than JSON, or one that gets both.
void check_outputs(const ImportOptions& options) {
  if (options.summary == "-") {
    throw Error(Fault::kBadInput, "--summary -: standard output is the op list's; name a file");
  }
  namespace fs = std::filesystem;
  for (const auto& [option, path] :
       {std::pair("-o", &options.output), {"--summary", &options.summary}}) {
    const std::string extension = fs::path(*path).extension().string();
    const auto other = std::ranges::find(formats(), extension, &Format::extension);
    if (extension.empty() || other == formats().end() || other->name == "json") continue;
    throw Error(Fault::kBadInput,
                fmt::format("{} {}: import writes JSON, not {}; name a .json file", option,
                            printable(*path), other->name));
  }
  if (to_standard_output(options) || options.summary.empty()) return;
  std::error_code error;
  const auto place = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  if (place(options.output) == place(options.summary)) {
    throw Error(Fault::kBadInput,
                fmt::format("-o {} and --summary {} are one file; name two",
                            printable(options.output), printable(options.summary)));
  }
}

}  // namespace

void run(const ImportOptions& options) {
  check_outputs(options);
  std::vector<std::string> files;
  if (!to_standard_output(options)) files.push_back(options.output);
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
  if (!options.summary.empty()) {
    Output file = Output::file(options.summary);
    write_model_summary(summary, file);
    file.finish();
  }
  Output output = to_standard_output(options) ? Output::standard() : Output::file(options.output);
  write_op_list(written, output);
  output.finish();
  show_summary(summary);  // an error before is the only line on standard error
}

}  // namespace fusecalc
