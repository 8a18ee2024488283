#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "cli/commands.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "graph/op_list.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "report/analysis.hpp"
#include "report/formats.hpp"
#include "traffic/chain.hpp"

namespace fusecalc {
namespace {

// What a result is called where its document does not say.
std::string default_name(const std::string& path) {
  return path == "-" ? "stdin" : printable(std::filesystem::path(path).stem().string());
}

Look look_of_standard_output() {
  const auto is_set = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0';
  };
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  return {.colour = ::isatty(STDOUT_FILENO) == 1 && !dumb && !is_set("NO_COLOR")};
}

Analysis analyze(const AnalyzeOptions& options) {
  JsonReader reader(ByteSource::open(options.document));
  SizeChain chain = read_op_list(reader);
  chain.dtype_bytes = options.dtype_bytes.value_or(chain.dtype_bytes);
  const ChainTraffic traffic = count_bytes(chain, reader.name());
  return {.name = chain.name.value_or(default_name(options.document)),
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
