#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/analyze.hpp"
#include "analysis/boundaries.hpp"
#include "backend/module.hpp"
#include "cli/commands.hpp"
#include "cli/documents.hpp"
#include "cli/outputs.hpp"
#include "cli/progress_line.hpp"
#include "cli/runs.hpp"
#include "cli/terminal.hpp"
#include "core/embedded.hpp"
#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "json/source.hpp"
#include "measure/chain_runner.hpp"
#include "measure/graph_runner.hpp"
#include "planner/plans.hpp"
#include "report/formats.hpp"

namespace fusecalc {
namespace {

// More would take minutes of counting.
constexpr std::size_t kMostOperations = 1024;

void check_size(const std::string& document, std::size_t operations) {
  if (operations == 0) {
    throw Error(Fault::kBadInput, document + ": no operations to measure");
  }
  if (operations > kMostOperations) {
    throw Error(Fault::kBadInput,
                fmt::format("{}: measure takes up to {} operations, not {}; analyze takes "
                            "any number",
                            document, kMostOperations, operations));
  }
}

MeasurementReport measure_sizes(GpuBackend& gpu, const MeasureCommand& command,
                                const std::string& path, SizeChain chain,
                                const std::vector<SizedOperation>& operations,
                                const std::string& document, const Progress& progress) {
  if (!command.dims.empty() || command.plan || command.sources) {
    throw Error(Fault::kBadInput, document +
                                      ": lists sizes, so --dim, --plan and --keep-source "
                                      "do not apply");
  }
  chain.dtype_bytes = command.dtype_bytes.value_or(chain.dtype_bytes);
  MeasurementReport report{
      .measurement = measure_chain(gpu, chain, operations, command.options, progress, document)};
  report.measurement.name = chain.name.value_or(name_of_document(path));
  return report;
}

MeasurementReport measure_ops(GpuBackend& gpu, const MeasureCommand& command,
                              const std::string& path, const Document& read,
                              const Progress& progress, bool quiet) {
  OpGraph graph = build_graph(std::get<WrittenGraph>(read.list), command.dims);
  if (command.dtype_bytes) {
    throw Error(
        Fault::kBadInput,
        graph.document + ": --dtype-bytes does not apply: it gives each tensor its own dtype");
  }
  check_size(graph.document, graph.ops.size());
  const std::string name = graph.name.value_or(name_of_document(path));
  if (read.origin && !quiet) show_summary(summarise(*read.origin, graph, gpu.device(), name));
  // The on-chip memory of the GPU that is measured.
  MeasurementReport report{.measurement = {}};
  report.analysis =
      analyze_graph(std::move(graph), name, with_constants(gpu.device()), command.plan);
  const GraphAnalysis& analysis = *report.analysis->graph;
  TrafficCounter counter(analysis.graph, analysis.device);
  std::optional<std::string> sources = command.sources;
  if (sources && command.documents.size() != 1) *sources += "/" + name;
  if (sources) std::filesystem::create_directories(*sources);
  report.measurement = measure_graph(gpu, counter, named_plan(analysis.plan(PlanKind::kUnfused)),
                                     named_plan(analysis.plan(report.analysis->plan)),
                                     command.options, sources, progress);
  report.measurement.name = name;
  return report;
}

}  // namespace

MeasurementReport measure_document(GpuBackend& gpu, const MeasureCommand& command,
                                   const std::string& path, const Progress& progress, bool quiet) {
  std::vector<SizedOperation> operations;
  const Document read = read_document(open_document(path), command.dims, &operations);
  if (std::holds_alternative<WrittenGraph>(read.list)) {
    return measure_ops(gpu, command, path, read, progress, quiet);
  }
  check_size(read.name, operations.size());
  return measure_sizes(gpu, command, path, std::get<SizeChain>(read.list), operations, read.name,
                       progress);
}

void check_plan_to_measure(std::optional<PlanKind> plan) {
  if (!plan || row_of(*plan).not_measured.empty()) return;
  throw Error(Fault::kBadInput,
              fmt::format("--plan {}: {}", name_of(*plan), row_of(*plan).not_measured));
}

void judge(const Measurement& measurement) {
  for (const PlanMeasurement* plan : {&measurement.unfused, &measurement.fused}) {
    if (!plan->verified || plan->verified->ok) continue;
    throw Error(Fault::kCheckFailed,
                fmt::format("{}: the results of {} are wrong: relative error {:.3g}, "
                            "tolerance {:.3g}: {}",
                            measurement.name, plan->key, plan->verified->max_rel_err,
                            plan->verified->tolerance, plan->verified->worst));
  }
}

namespace {

// Reports errors that can be found before a GPU is opened.
void refuse_early(const MeasureCommand& command) {
  for (const std::string& path : command.outputs) measurement_format_for_file(path);
  refuse_standard_input_twice(command.documents);
  refuse_overwriting_inputs(command.outputs, command.documents);
  check_plan_to_measure(command.plan);
  for (const std::string& path : command.documents) {
    if (path == "-") continue;
    std::vector<SizedOperation> operations;
    const Document read = read_document(open_document(path), command.dims, &operations);
    if (const auto* written = std::get_if<WrittenGraph>(&read.list)) {
      const OpGraph graph = build_graph(*written, command.dims);
      check_size(read.name, graph.ops.size());
      headline_of(graph, command.plan);  // throws Error if there is no such plan
    } else {
      check_size(read.name, operations.size());
    }
  }
}

std::vector<MeasurementReport> measure_all(const MeasureCommand& command) {
  const GpuModule& module = load_gpu_module();
  note_interrupts();
  ProgressLine line;
  line.show("opening the GPU");
  const std::unique_ptr<GpuBackend> gpu =
      module.open({.device_index = command.device_index, .counters = command.options.counters});
  std::vector<std::string> documents = command.documents;
  const bool suite = documents.empty();
  if (suite) {
    for (const EmbeddedFile& file : embedded_op_lists()) {
      documents.push_back("@" + std::string(file.name));
    }
  }
  std::vector<MeasurementReport> reports;
  for (const std::string& path : documents) {
    const Progress progress = [&](const std::string& text) {
      line.show(documents.size() > 1 ? path + ": " + text : text);
    };
    try {
      reports.push_back(measure_document(*gpu, command, path, progress));
    } catch (const Error& error) {
      if (error.fault() == Fault::kInterrupted && !reports.empty()) break;
      if (!suite || error.fault() != Fault::kBadInput) throw;
      line.say("fusecalc: skipped: " + std::string(error.what()));
    }
    if (!reports.empty() && reports.back().measurement.interrupted) break;
  }
  return reports;
}

}  // namespace

void run(const MeasureCommand& command) {
  refuse_early(command);
  const Format& format = format_named(command.format.value_or(default_format()));
  BoundaryScope scope = format.boundaries(Style{});
  for (const std::string& path : command.outputs) {
    scope = std::max(scope, measurement_format_for_file(path).boundaries(Style{}));
  }
  std::vector<MeasurementReport> reports = measure_all(command);
  for (MeasurementReport& report : reports) {
    if (report.analysis) find_boundaries(*report.analysis, scope);
  }
  for (const std::string& path : command.outputs) {
    Output file = Output::file(path);
    measurement_format_for_file(path).write_measurement(reports, Style{}, file);
    file.finish();
  }
  Output output = Output::standard();
  format.write_measurement(reports, style_of_standard_output(), output);
  output.finish();
  for (const MeasurementReport& report : reports) judge(report.measurement);
  stop_if_interrupted();
}

}  // namespace fusecalc
