// The points of a sweep: what they are, and how one is run.

#include "cli/sweep_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "analysis/boundaries.hpp"
#include "backend/module.hpp"
#include "cli/devices.hpp"
#include "cli/progress_line.hpp"
#include "cli/runs.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "core/hash.hpp"
#include "core/interrupt.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "device/device.hpp"
#include "json/source.hpp"
#include "report/formats.hpp"

namespace fusecalc {
namespace {

std::uint64_t hash_of_content(const std::string& document) {
  ByteSource source = open_document(document);
  std::uint64_t hash = kEmptyHash;
  for (std::string_view part = source.next(); !part.empty(); part = source.next()) {
    hash = hash_of(part, hash);
  }
  return hash;
}

// The dims of the first point: a model can only be read for some.
std::vector<DimOverride> first_dims(const SweepCommand& command) {
  std::vector<DimOverride> dims;
  for (const SweepAxis& axis : command.axes) {
    dims.push_back({.name = axis.name, .extent = axis.values.front()});
  }
  return dims;
}

const std::optional<std::string>& name_in(const Document& document) {
  if (const auto* chain = std::get_if<SizeChain>(&document.list)) return chain->name;
  return std::get<WrittenGraph>(document.list).name;
}

void check_names(const std::vector<SweepDocument>& documents) {
  std::map<std::string, std::string> paths;
  for (const SweepDocument& document : documents) {
    const auto [found, added] = paths.emplace(document.name, document.path);
    if (added) continue;
    throw Error(Fault::kBadInput, fmt::format("{}: results of it and of {} would both be named {}; "
                                              "give each its own \"name\"",
                                              printable(document.path), printable(found->second),
                                              in_quotes(document.name)));
  }
}

// A dim that no document has is a typing error; one that some have not fails at their points.
void check_dims(const SweepCommand& command, const std::vector<Document>& read) {
  std::set<std::string_view> known;
  for (const Document& document : read) {
    const auto* graph = std::get_if<WrittenGraph>(&document.list);
    if (graph == nullptr) continue;
    for (const auto& dim : graph->dims) known.insert(dim.first);
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (const SweepAxis& axis : command.axes) {
    if (known.contains(axis.name)) continue;
    throw Error(Fault::kBadInput,
                fmt::format("sweep: --dim: unknown dim {} (known: {}){}", in_quotes(axis.name),
                            names.empty() ? "none" : printable(listed(names)),
                            did_you_mean(axis.name, names)));
  }
}

// The options that results depend on, apart from dims and device.
std::string settings_of(const SweepCommand& command) {
  std::string text =
      fmt::format("plan={} dtype_bytes={}", command.plan ? name_of(*command.plan) : "default",
                  command.dtype_bytes.value_or(0));
  if (!command.measure) return text;
  const MeasureOptions& options = *command.measure;
  return text +
         fmt::format(" measure counters={} isolated={} pipeline={} runs={} budget={} seed={}",
                     options.counters, options.isolated, options.pipeline, options.runs.value_or(0),
                     options.time_budget_s, options.seed);
}

// Runs one point after the other, in a process of its own.
class PointRunner {
 public:
  PointRunner(const SweepCommand& command, const SweepFolder& folder, const SweepInputs& inputs)
      : command_(command), folder_(folder), inputs_(inputs) {}

  // Throws Error if there is no such GPU.
  void open_gpu(unsigned index) {
    gpu_ = load_gpu_module().open(
        {.device_index = static_cast<int>(index), .counters = command_.measure->counters});
  }

  PointEnd run(std::size_t point) const {
    try {
      if (!write_result(point)) return PointEnd::kInterrupted;
      folder_.forget_failure(point);
      return PointEnd::kRan;
    } catch (const Error& error) {
      if (error.fault() == Fault::kInterrupted) return PointEnd::kInterrupted;
      folder_.record_failure(point, error.what());
    } catch (const std::bad_alloc&) {
      folder_.record_failure(point, "out of memory");
    }
    return PointEnd::kFailed;
  }

 private:
  // False after a Ctrl-C: there is no whole result.
  bool write_result(std::size_t index) const {
    const SweepPoint point = folder_.definition().point(index);
    const Format& json = format_named("json");
    if (gpu_) {
      MeasurementReport report = measure(point);
      if (report.measurement.interrupted) return false;
      judge(report.measurement);
      if (report.analysis) find_boundaries(*report.analysis, json.boundaries(Style{}));
      Output output = Output::file(folder_.result_file(index));
      json.write_measurement({&report, 1}, Style{}, output);
      output.finish();
    } else {
      Analysis analysis = analyze(point);
      find_boundaries(analysis, json.boundaries(Style{}));
      Output output = Output::file(folder_.result_file(index));
      json.write(analysis, Style{}, output);
      output.finish();
    }
    return true;
  }

  Analysis analyze(const SweepPoint& point) const {
    const std::string& path = inputs_.documents[point.document].path;
    const AnalyzeOptions options{.documents = {},
                                 .dtype_bytes = command_.dtype_bytes,
                                 .dims = point.dims,
                                 .plan = command_.plan,
                                 .device = command_.devices.empty()
                                               ? folder_.definition().devices[point.device]
                                               : command_.devices[point.device],
                                 .format = {},
                                 .outputs = {}};
    const Document& read = inputs_.read[point.document];
    if (!read.origin) return analyze_document(read, path, options);
    return analyze_document(read_document(open_document(path), point.dims), path, options);
  }

  MeasurementReport measure(const SweepPoint& point) const {
    const std::string& path = inputs_.documents[point.document].path;
    const MeasureCommand command{.documents = {path},
                                 .dtype_bytes = command_.dtype_bytes,
                                 .dims = point.dims,
                                 .plan = command_.plan,
                                 .sources = {},
                                 .options = *command_.measure,
                                 .format = {},
                                 .outputs = {}};
    const auto silent = [](const std::string&) {};
    return measure_document(*gpu_, command, path, silent, /*quiet=*/true);
  }

  const SweepCommand& command_;
  const SweepFolder& folder_;
  const SweepInputs& inputs_;
  std::unique_ptr<GpuBackend> gpu_{};
};

std::string rough_time(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  if (seconds < 2 * kMinute) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", std::ceil(seconds / kMinute));
  return fmt::format("{:.1f} h", seconds / kHour);
}

// On a terminal a line that changes; elsewhere a line now and then, for logs.
class Estimate {
 public:
  void show(const SweepProgress& progress) {
    const double now = seconds_since_start();
    if (now < next_) return;
    constexpr double kSecondsOnTerminal = 0.2;
    constexpr double kSecondsInLog = 30;
    next_ = now + (line_.shown() ? kSecondsOnTerminal : kSecondsInLog);
    if (progress.ran == 0 || progress.left() == 0) return;
    const double rate = static_cast<double>(progress.ran) / now;
    std::string text = fmt::format("{} of {} points", grouped_digits(progress.ran),
                                   grouped_digits(progress.points));
    if (progress.failed > 0) text += fmt::format(", {} failed", grouped_digits(progress.failed));
    text += fmt::format(", about {} left", rough_time(static_cast<double>(progress.left()) / rate));
    if (line_.shown()) {
      line_.show(text);
    } else {
      line_.say("fusecalc: " + text);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  double seconds_since_start() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

  static constexpr double kFirst = 2;  // a short sweep needs no estimate
  const Clock::time_point start_ = Clock::now();
  double next_ = kFirst;
  ProgressLine line_;
};

}  // namespace

SweepInputs read_inputs(const SweepCommand& command) {
  SweepInputs inputs;
  for (const std::string& path : command.documents) {
    if (path == "-") {
      throw Error(Fault::kBadInput,
                  "sweep: every process reads its documents again, and standard input can be read "
                  "once; write it to a file");
    }
    Document read = read_document(open_document(path), first_dims(command));
    inputs.documents.push_back({.path = path,
                                .name = name_in(read).value_or(name_of_document(path)),
                                .hash = hash_of_content(path)});
    inputs.read.push_back(std::move(read));
  }
  check_dims(command, inputs.read);
  return inputs;
}

// Devices by their names. What a file says of one is a setting that results depend on.
void name_devices(const SweepCommand& command, SweepDefinition& sweep) {
  for (const std::string& text : command.devices) {
    if (text == "-") {
      throw Error(Fault::kBadInput, "sweep: --device: every process reads it again; name a file");
    }
    const Device device = device_of(text, "sweep: --device");
    if (is_device_file(text)) {
      sweep.settings += fmt::format(" {}={:016x}", device.name, hash_of_content(text));
    }
    if (std::ranges::find(sweep.devices, device.name) != sweep.devices.end()) {
      throw Error(Fault::kBadInput, "sweep: --device has " + printable(device.name) + " twice");
    }
    sweep.devices.push_back(device.name);
  }
}

SweepDefinition define_sweep(const SweepCommand& command, std::vector<SweepDocument> documents) {
  check_names(documents);
  SweepDefinition sweep{.documents = std::move(documents),
                        .devices = {},
                        .axes = command.axes,
                        .measured = command.measure.has_value(),
                        .settings = settings_of(command)};
  if (command.measure) {
    check_plan_to_measure(command.plan);
    if (!command.devices.empty()) {
      throw Error(
          Fault::kBadInput,
          "sweep: --device names GPUs to analyze for, and --measure runs on this machine's; "
          "leave one out");
    }
    sweep.devices = {kDeviceAtHand};
  } else if (command.devices.empty()) {
    sweep.devices = {std::string(device_names().front())};
  } else {
    name_devices(command, sweep);
  }
  sweep.check_size();
  return sweep;
}

SweepProgress run_sweep_points(const SweepCommand& command, const SweepFolder& folder,
                               const SweepInputs& inputs, const std::vector<std::size_t>& points,
                               unsigned jobs) {
  note_interrupts();
  const auto start = [&](unsigned job) -> RunPoint {
    const auto runner = std::make_shared<PointRunner>(command, folder, inputs);
    if (command.measure) runner->open_gpu(job);
    return [runner](std::size_t point) { return runner->run(point); };
  };
  const auto record_death = [&](std::size_t point, const std::string& how) {
    folder.record_failure(point, "the process of this point " + how);
  };
  SweepProgress progress;
  {
    Estimate estimate;
    progress =
        run_points(points, {.jobs = jobs, .end_after_failure = command.measure.has_value()}, start,
                   record_death, [&](const SweepProgress& now) { estimate.show(now); });
  }
  if (interrupted()) {
    throw Error(Fault::kInterrupted,
                fmt::format("interrupted; {} of {} points are left, and the same command goes on",
                            grouped_digits(progress.left()), grouped_digits(points.size())));
  }
  return progress;
}

}  // namespace fusecalc
