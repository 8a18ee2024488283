#include <unistd.h>

#include <string>
#include <string_view>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "core/output.hpp"
#include "graph/op_list.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "report/analysis.hpp"
#include "report/formats.hpp"
#include "traffic/chain.hpp"

namespace fusecalc {
namespace {

Analysis analyze(const AnalyzeOptions& options) {
  JsonReader reader(ByteSource::open(options.document));
  SizeChain chain = read_op_list(reader);
  chain.dtype_bytes = options.dtype_bytes.value_or(chain.dtype_bytes);
  const ChainTraffic traffic = count_bytes(chain, reader.name());
  return {.name = chain.name.value_or(name_of_document(options.document)),
          .plan = "auto",
          .operations = chain.operations,
          .dtype_bytes = chain.dtype_bytes,
          .unfused = traffic.unfused,
          .fused = traffic.fused};
}

}  // namespace

void run(const AnalyzeOptions& options) {
  for (const std::string& path : options.outputs) format_for_file(path);  // refuse early
  const Analysis analysis = analyze(options);
  for (const std::string& path : options.outputs) {
    Output file = Output::file(path);
    format_for_file(path).write(analysis, Look{}, file);
    file.finish();
  }
  const std::string_view fallback = ::isatty(STDOUT_FILENO) == 1 ? "table" : "json";
  Output output = Output::standard();
  format_named(options.format.value_or(std::string(fallback)))
      .write(analysis, look_of_standard_output(), output);
  output.finish();
}

}  // namespace fusecalc
