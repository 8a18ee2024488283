#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/outputs.hpp"
#include "cli/sweep_points.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/format.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "report/formats.hpp"
#include "sweep/slurm.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

void say(const std::string& text) {
  std::fprintf(stderr, "fusecalc: %s\n", printable(text, kNoLimit).c_str());
}

std::string points_in_words(std::size_t count) {
  return fmt::format("{} point{}", grouped_digits(count), count == 1 ? "" : "s");
}

unsigned default_jobs(const SweepCommand& command) {
  if (command.measure) return visible_gpus();
  return std::max(std::thread::hardware_concurrency(), 1U);
}

// Throws Error if points have no result, with the first of those that failed.
void judge(const SweepDefinition& sweep, const SweepSummary& results,
           const std::string& how_to_go_on) {
  if (results.missing + results.failed == 0) return;
  std::string text = fmt::format("sweep: of {}", points_in_words(sweep.size()));
  if (results.missing > 0) text += fmt::format(", {} missing", grouped_digits(results.missing));
  if (results.first_failed) {
    text += fmt::format(", {} failed, the first {}: {}", grouped_digits(results.failed),
                        printable(sweep.label(*results.first_failed)), results.first_error);
  }
  throw Error(Fault::kCheckFailed, text + how_to_go_on);
}

// `how_to_go_on`: where points have no result.
void write_documents(const SweepCommand& command, const SweepFolder& folder,
                     const std::string& how_to_go_on) {
  for (const std::string& path : command.outputs) {
    Output file = Output::file(path);
    sweep_format_for_file(path).write_sweep(folder, Style{}, file);
    file.finish();
  }
  Output output = Output::standard();
  const SweepSummary results = format_named(command.format.value_or(default_format()))
                                   .write_sweep(folder, style_of_standard_output(), output);
  output.finish();
  judge(folder.definition(), results, how_to_go_on);
}

void submit_points(const SweepCommand& command, const SweepFolder& folder,
                   const SweepOrder& order) {
  const std::vector<std::size_t> points = folder.points_without_result();
  if (points.empty()) {
    say("every point has its result; nothing is submitted");
    return;
  }
  const SlurmJob job = write_job(
      folder.path(), points,
      {.sbatch = *command.slurm, .chunk = command.chunk, .measured = folder.definition().measured});
  write_order(order, job.folder / kDefinitionFile);
  const std::string number = submit(job);
  say(fmt::format(
      "submitted job {}: {} in {} task{}; when it has ended: fusecalc sweep --collect {}", number,
      points_in_words(points.size()), grouped_digits(job.chunks.size()),
      job.chunks.size() == 1 ? "" : "s", printable(folder.path().string())));
  Output output = Output::standard();
  output.write(number.substr(0, number.find(';')) + "\n");
  output.finish();
}

SweepCommand command_of(const SweepOrder& order) {
  std::vector<const char*> arguments = {"fusecalc"};
  for (const std::string& argument : order.arguments) arguments.push_back(argument.c_str());
  const Command parsed = parse_command_line(static_cast<int>(arguments.size()), arguments.data());
  if (const auto* command = std::get_if<SweepCommand>(&parsed)) return *command;
  throw Error(Fault::kBadInput, "sweep: the definition is not that of a sweep; run it again");
}

void refuse_definition(const SweepCommand& command, std::string_view why) {
  if (command.documents.empty() && command.axes.empty() && command.devices.empty() &&
      !command.plan && !command.dtype_bytes && !command.measure) {
    return;
  }
  throw Error(Fault::kBadInput,
              fmt::format("sweep: {}: leave out FILE, --dim, --device, --plan, --dtype-bytes and "
                          "--measure",
                          why));
}

void name_missing(const SweepFolder& folder) {
  constexpr std::size_t kMostNamed = 20;
  std::size_t missing = 0;
  for (const std::size_t point : folder.points_without_result()) {
    if (folder.state(point) != PointState::kMissing) continue;
    if (missing++ < kMostNamed) say("missing: " + folder.definition().label(point));
  }
  if (missing > kMostNamed) {
    say(fmt::format("missing: {} more", grouped_digits(missing - kMostNamed)));
  }
}

void collect(const SweepCommand& command) {
  refuse_definition(command, "--collect reads from the folder what the sweep is");
  const SweepOrder order = read_order(fs::path(*command.collect) / kDefinitionFile);
  SweepCommand defined = command_of(order);
  const SweepDefinition sweep = define_sweep(defined, order.documents);
  const SweepFolder folder(*command.collect, sweep);
  name_missing(folder);
  if (command.slurm) {
    // Without options of its own, those of the sweep count.
    if (!command.slurm->empty() || !defined.slurm) defined.slurm = command.slurm;
    if (command.chunk > 0) defined.chunk = command.chunk;
    return submit_points(defined, folder, order);
  }
  write_documents(command, folder, "; --collect DIR --slurm submits those without a result again");
}

std::string environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// A sweep that was defined before, in the folder that it was defined in.
struct DefinedSweep {
  SweepCommand command;
  SweepInputs inputs;
};

DefinedSweep read_defined(const fs::path& folder) {
  const SweepOrder order = read_order(folder / kDefinitionFile);
  if (::chdir(order.folder.c_str()) != 0) {
    throw Error(Fault::kBadInput,
                fmt::format("sweep: {}: {}", printable(order.folder), std::strerror(errno)));
  }
  DefinedSweep defined{.command = command_of(order), .inputs = {}};
  defined.inputs = read_inputs(defined.command);
  const auto same = [](const SweepDocument& now, const SweepDocument& then) {
    return now.path == then.path && now.hash == then.hash;
  };
  const auto changed = std::ranges::mismatch(defined.inputs.documents, order.documents, same).in1;
  if (changed != defined.inputs.documents.end()) {
    throw Error(Fault::kBadInput,
                printable(changed->path) + ": has changed since the sweep began; begin it again");
  }
  return defined;
}

// One task of a job that --slurm submitted.
void run_task(const fs::path& job) {
  const auto [command, inputs] = read_defined(job);
  const SweepDefinition sweep = define_sweep(command, inputs.documents);
  const SweepFolder folder(job.parent_path().parent_path(), sweep);
  std::vector<std::size_t> points = points_of_task(job, environment("SLURM_ARRAY_TASK_ID"));
  std::erase_if(points, [&](std::size_t point) {
    return point >= sweep.size() || folder.state(point) == PointState::kDone;
  });
  // Slurm gives a task one core, unless told otherwise.
  const int cores = std::atoi(environment("SLURM_CPUS_PER_TASK").c_str());
  const unsigned jobs =
      command.measure ? visible_gpus() : static_cast<unsigned>(std::max(cores, 1));
  const SweepProgress progress = run_sweep_points(command, folder, inputs, points, jobs);
  say(fmt::format("{} run, {} failed", points_in_words(progress.ran), progress.failed));
  if (progress.failed > 0) {
    throw Error(Fault::kCheckFailed, "sweep: points failed; --collect names them");
  }
}

// `command` says how to run it and what to write, `defined` what it is.
void run_sweep(const SweepCommand& command, const SweepCommand& defined,
               const SweepInputs& inputs) {
  const SweepDefinition sweep = define_sweep(defined, inputs.documents);
  const SweepFolder folder(command.folder, sweep);
  folder.create();
  const SweepOrder order{.folder = fs::current_path().string(),
                         .arguments = defined.arguments,
                         .documents = inputs.documents};
  write_order(order, folder.path() / kDefinitionFile);
  if (command.slurm) return submit_points(command, folder, order);
  const std::vector<std::size_t> points = folder.points_without_result();
  run_sweep_points(defined, folder, inputs, points, command.jobs.value_or(default_jobs(defined)));
  if (points.size() < sweep.size()) {
    say(fmt::format("{} run, {} had their results", points_in_words(points.size()),
                    grouped_digits(sweep.size() - points.size())));
  }
  write_documents(command, folder, "");
}

// Without FILE: a task of a job, or the sweep that was defined in the folder before.
void run_defined(SweepCommand command) {
  refuse_definition(command, "without FILE it goes on with the sweep of --dir");
  command.folder = fs::absolute(command.folder).lexically_normal();
  for (std::string& output : command.outputs) output = fs::absolute(output);
  if (is_job(command.folder)) return run_task(command.folder);
  const auto [defined, inputs] = read_defined(command.folder);
  run_sweep(command, defined, inputs);
}

}  // namespace

void run(const SweepCommand& command) {
  for (const std::string& path : command.outputs) sweep_format_for_file(path);  // refuse early
  if (command.slurm && command.slurm->find('\n') != std::string::npos) {
    throw Error(Fault::kBadInput, "sweep: --slurm: the options of sbatch must be on one line");
  }
  if (command.chunk > 0 && !command.slurm) {
    throw Error(Fault::kBadInput,
                "sweep: --chunk is about the tasks of a Slurm job; add --slurm, or leave it out");
  }
  if (command.collect) return collect(command);
  if (command.folder.empty()) {
    throw Error(Fault::kBadInput,
                "sweep: --dir is missing; it names the folder of the results, from which an "
                "interrupted sweep goes on");
  }
  if (command.documents.empty()) return run_defined(command);
  refuse_overwriting_inputs(command.outputs, command.documents);
  run_sweep(command, command, read_inputs(command));
}

}  // namespace fusecalc
