#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <variant>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "graph/op_list.hpp"
#include "json/reader.hpp"
#include "json/source.hpp"
#include "measure/chain_runner.hpp"
#include "measure/module.hpp"
#include "report/formats.hpp"

namespace fusecalc {
namespace {

// More kernels than anybody looks at, and minutes of counting.
constexpr std::size_t kMostOperations = 1024;

// One line on standard error that is rewritten as the work goes on and gone when it ends; nothing
// where that is no terminal.
class ProgressLine {
 public:
  ProgressLine() : shown_(::isatty(STDERR_FILENO) == 1) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }

  void show(const std::string& text) const {
    if (shown_) std::fprintf(stderr, "\r\x1b[K%s", printable(text, 78).c_str());
  }

 private:
  bool shown_;
};

Measurement measure(const MeasureCommand& command) {
  JsonReader reader(open_document(command.document));
  std::vector<SizedOperation> operations;
  OpList list = read_op_list(reader, &operations);
  if (!std::holds_alternative<SizeChain>(list)) {
    throw Error(Fault::kUnavailable, reader.name() +
                                         ": this version measures lists of sizes only, not graphs; "
                                         "analyze counts their bytes");
  }
  auto& chain = std::get<SizeChain>(list);
  chain.dtype_bytes = command.dtype_bytes.value_or(chain.dtype_bytes);
  if (operations.empty()) {
    throw Error(Fault::kBadInput, reader.name() + ": no operations: there is nothing to measure");
  }
  if (operations.size() > kMostOperations) {
    throw Error(Fault::kBadInput,
                reader.name() + ": measure takes up to " + std::to_string(kMostOperations) +
                    " operations, and these are " + std::to_string(operations.size()) +
                    "; analyze takes any number");
  }
  const GpuModule& module = load_gpu_module();
  note_interrupts();
  const ProgressLine line;
  line.show("opening the GPU");
  const std::unique_ptr<GpuBackend> gpu =
      module.open({.device_index = command.device_index, .counters = command.options.counters});
  Measurement measurement = measure_chain(
      *gpu, chain, operations, command.options, [&](const std::string& text) { line.show(text); },
      reader.name());
  measurement.name = chain.name.value_or(name_of_document(command.document));
  return measurement;
}

}  // namespace

void run(const MeasureCommand& command) {
  for (const std::string& path : command.outputs)
    measurement_format_for_file(path);  // refuse early
  const Measurement measurement = measure(command);
  for (const std::string& path : command.outputs) {
    Output file = Output::file(path);
    measurement_format_for_file(path).write_measurement(measurement, Look{}, file);
    file.finish();
  }
  const std::string_view fallback = ::isatty(STDOUT_FILENO) == 1 ? "table" : "json";
  Output output = Output::standard();
  format_named(command.format.value_or(std::string(fallback)))
      .write_measurement(measurement, look_of_standard_output(), output);
  output.finish();
}

}  // namespace fusecalc
