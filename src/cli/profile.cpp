#include <fmt/format.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/analyze.hpp"
#include "backend/module.hpp"
#include "cli/commands.hpp"
#include "cli/documents.hpp"
#include "cli/outputs.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "profile/records.hpp"
#include "profile/run_program.hpp"
#include "report/formats.hpp"

namespace fusecalc {
namespace {

// The op list that launches are matched with, checked before the program runs.
std::optional<OpGraph> read_op_list(const ProfileCommand& command) {
  if (!command.op_list) return std::nullopt;
  const Document read = read_document(open_document(*command.op_list), command.dims);
  if (!std::holds_alternative<WrittenGraph>(read.list)) {
    throw Error(Fault::kBadInput,
                read.name + ": lists sizes; --op-list takes a graph of ops or a model file");
  }
  return build_graph(std::get<WrittenGraph>(read.list), command.dims);
}

struct Run {
  ProgramEnd end;
  std::vector<ProfiledProcess> processes;
};

Run run_once(const ProfileCommand& command, bool counters, const std::string& library,
             ProgressLine& line) {
  const RecordFolder folder;
  InjectionSettings settings = command.settings;
  settings.counters = counters;
  folder.write_settings(settings);
  const OutputOfProgram output =
      counters ? OutputOfProgram::kToStandardError : OutputOfProgram::kDiscarded;
  const ProgramEnd end = run_program(command.program, library, folder.path(), output, [&] {
    line.show(fmt::format("{}: {} of records", counters ? "counting" : "timing",
                          human_bytes(folder.size())));
  });
  return {.end = end, .processes = folder.read()};
}

// Throws Error where there is nothing to report.
void require_launches(const ProfileCommand& command, const Profile& profile) {
  const std::string program = printable(command.program.front());
  if (profile.processes.empty()) {
    throw Error(Fault::kBadInput,
                fmt::format("{} ({}) never used CUDA: there is nothing to profile", program,
                            profile.outcome));
  }
  if (profile.counted() > 0) return;
  for (const ProfiledProcess& process : profile.processes) {
    if (!process.faults.empty()) throw Error(Fault::kUnavailable, process.faults.front());
  }
  if (profile.launches() > 0) {
    const std::vector<Uncounted>& uncounted = profile.processes.front().uncounted;
    throw Error(Fault::kUnavailable, fmt::format("no launch of {} could be counted: {}", program,
                                                 uncounted.empty() ? "" : uncounted.front().why));
  }
  throw Error(Fault::kBadInput,
              fmt::format("{} ({}) launched nothing that was to be counted on a GPU; check --skip, "
                          "--range, --kernel and --wait-for-start",
                          program, profile.outcome));
}

// The process that moved the most is the one that an op list describes.
void align_busiest(Profile& profile, OpGraph graph, const std::string& name) {
  std::size_t busiest = 0;
  for (std::size_t i = 1; i < profile.processes.size(); ++i) {
    if (profile.processes[i].totals.total() > profile.processes[busiest].totals.total())
      busiest = i;
  }
  const Analysis analysis =
      analyze_graph(std::move(graph), name, with_constants(profile.gpu->device), std::nullopt);
  profile.alignment = align(analysis, profile.processes[busiest].launches);
  profile.aligned_process = busiest;
}

void judge(const Profile& profile, const ProgramEnd& end) {
  if (end.signal == SIGINT) {
    throw Error(Fault::kInterrupted,
                fmt::format("interrupted; {} of {} launches were counted before", profile.counted(),
                            profile.launches()));
  }
  if (end.signal == 0 && end.exit_code == 0) return;
  throw Error(Fault::kCheckFailed,
              fmt::format("the program ended with {}; {} of its {} launches were counted before",
                          profile.outcome, profile.counted(), profile.launches()));
}

}  // namespace

void run(const ProfileCommand& command) {
  for (const std::string& path : command.outputs) profile_format_for_file(path);  // refuse early
  if (command.op_list) refuse_overwriting_inputs(command.outputs, std::array{*command.op_list});
  if (!command.dims.empty() && !command.op_list) {
    throw Error(Fault::kBadInput, "--dim belongs to --op-list, which is not given");
  }
  std::optional<OpGraph> graph = read_op_list(command);
  refuse_other_profilers();
  const std::vector<PresentGpu> gpus = load_gpu_module().devices();
  const std::string library = injected_library();
  const Format& format = format_named(command.format.value_or(default_format()));

  ProgressLine line;
  Run counted = run_once(command, true, library, line);
  Profile profile{.name = std::filesystem::path(command.program.front()).filename().string(),
                  .program = command.program,
                  .outcome = outcome_text(counted.end),
                  .isolated = command.settings.isolated,
                  .gpu = gpus.front(),
                  .processes = std::move(counted.processes)};
  require_launches(command, profile);
  if (command.times && counted.end.signal == 0) {
    const Run timed = run_once(command, false, library, line);
    const std::size_t without = take_times(profile.processes, timed.processes);
    if (without > 0) {
      line.say(
          fmt::format("fusecalc: {} launches have no time: the second run of the program "
                      "launched other work, or ended before its times were written",
                      without));
    }
  }
  if (graph) {
    const std::string name = graph->name.value_or(name_of_document(*command.op_list));
    align_busiest(profile, std::move(*graph), name);
  }
  for (const std::string& path : command.outputs) {
    Output file = Output::file(path);
    profile_format_for_file(path).write_profile(profile, Style{}, file);
    file.finish();
  }
  Output output = Output::standard();
  format.write_profile(profile, style_of_standard_output(), output);
  output.finish();
  judge(profile, counted.end);
}

}  // namespace fusecalc
