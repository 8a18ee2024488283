#include "sweep/slurm.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>

#include "core/error.hpp"
#include "core/output.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

constexpr char kScript[] = "script.sh";
constexpr char kChunks[] = "chunks";

// What a script hands to a shell as one word.
std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// A path in an option of sbatch, which replaces %a and the like.
std::string log_path(const fs::path& folder) {
  std::string path;
  for (const char c : folder.string()) {
    if (c == '%') path += '%';
    if (c == '"' || c == '\\') path += '\\';
    path += c;
  }
  return "\"" + path + "/%a.log\"";
}

// Creates the first folder of slurm/1, slurm/2, ... that does not exist.
fs::path new_folder(const fs::path& sweep) {
  std::error_code error;
  const fs::path parent = fs::absolute(sweep).lexically_normal() / "slurm";
  fs::create_directories(parent, error);
  for (int i = 1; !error; ++i) {
    const fs::path folder = parent / std::to_string(i);
    if (fs::create_directory(folder, error)) return folder;
  }
  throw Error(Fault::kBadInput,
              fmt::format("cannot create {}: {}", printable(parent.string()), error.message()));
}

// A site's default for the largest array is 1001 tasks. A point that is analysed takes so little
// time that a task takes several.
std::size_t chunk_of(std::size_t points, const SlurmOptions& options) {
  constexpr std::size_t kMostTasks = 1000;
  constexpr std::size_t kAnalyses = 100;
  if (options.chunk > 0) return options.chunk;
  return std::max((points + kMostTasks - 1) / kMostTasks, options.measured ? 1 : kAnalyses);
}

// "0-9,12": points in rising order.
std::string ranges_of(std::span<const std::size_t> points) {
  std::string text;
  for (std::size_t i = 0; i < points.size();) {
    std::size_t end = i + 1;
    while (end < points.size() && points[end] == points[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", points[i]);
    if (end - i > 1) text += fmt::format("-{}", points[end - 1]);
    i = end;
  }
  return text;
}

std::string script_of(const SlurmJob& job, const SlurmOptions& options) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  std::string script = "#!/bin/sh\n#SBATCH --job-name=fusecalc-sweep\n";
  if (options.measured) script += "#SBATCH --gpus=1\n";
  script += "#SBATCH --output=" + log_path(job.folder) + "\n";
  // Of options that are given twice, the last counts.
  if (!options.sbatch.empty()) script += "#SBATCH " + options.sbatch + "\n";
  script += fmt::format("#SBATCH --array=0-{}\n", job.chunks.size() - 1);
  return script + fmt::format("exec {} sweep --dir {}\n", shell_word(program.string()),
                              shell_word(job.folder.string()));
}

// What a program printed on standard output and error, and how it ended.
struct Ended {
  int status = 0;
  std::string text;
};

Ended run_sbatch(const std::string& script) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) {
    throw Error(Fault::kUnavailable, std::string("sbatch: ") + std::strerror(errno));
  }
  const pid_t process = ::fork();
  if (process == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    ::execlp("sbatch", "sbatch", "--parsable", script.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(pipe[1]);
  Ended ended;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t count = ::read(pipe[0], chunk.data(), chunk.size());
    if (count > 0) ended.text.append(chunk.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR)) break;
  }
  ::close(pipe[0]);
  while (::waitpid(process, &ended.status, 0) < 0 && errno == EINTR) {
  }
  return ended;
}

}  // namespace

SlurmJob write_job(const fs::path& sweep, std::span<const std::size_t> points,
                   const SlurmOptions& options) {
  SlurmJob job{.folder = new_folder(sweep), .chunks = {}};
  const std::size_t chunk = chunk_of(points.size(), options);
  Output chunks = Output::file(job.folder / kChunks);
  for (std::size_t begin = 0; begin < points.size(); begin += chunk) {
    const auto part = points.subspan(begin, std::min(chunk, points.size() - begin));
    job.chunks.emplace_back(part.begin(), part.end());
    chunks.write(ranges_of(part) + "\n");
  }
  chunks.finish();
  Output script = Output::file(job.folder / kScript);
  script.write(script_of(job, options));
  script.finish();
  return job;
}

bool is_job(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kChunks, error);
}

std::vector<std::size_t> points_of_task(const fs::path& job, const std::string& task) {
  const fs::path path = job / kChunks;
  std::size_t number = 0;
  const auto parsed = std::from_chars(task.data(), task.data() + task.size(), number);
  std::ifstream file(path);
  std::string line;
  bool found = parsed.ec == std::errc{} && parsed.ptr == task.data() + task.size();
  for (std::size_t i = 0; found && i <= number; ++i) found = !std::getline(file, line).fail();
  if (!found) {
    throw Error(Fault::kBadInput, fmt::format("{}: has no task {}; tasks are started by Slurm, "
                                              "which sets SLURM_ARRAY_TASK_ID",
                                              printable(path.string()), in_quotes(task)));
  }
  std::vector<std::size_t> points;
  const char* const end = line.data() + line.size();
  for (const char* at = line.data(); at < end; ++at) {
    std::size_t first = 0;
    at = std::from_chars(at, end, first).ptr;
    std::size_t last = first;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (std::size_t point = first; point <= last; ++point) points.push_back(point);
  }
  return points;
}

std::string submit(const SlurmJob& job) {
  constexpr int kNotFound = 127;
  const fs::path script = job.folder / kScript;
  const Ended ended = run_sbatch(script.string());
  const std::string shown = printable(fs::proximate(script).string());
  if (WIFEXITED(ended.status) && WEXITSTATUS(ended.status) == kNotFound) {
    throw Error(Fault::kUnavailable, fmt::format("sweep: there is no sbatch on this machine; {} is "
                                                 "written, submit it where there is one",
                                                 shown));
  }
  if (!WIFEXITED(ended.status) || WEXITSTATUS(ended.status) != 0) {
    std::string text = ended.text;
    std::ranges::replace(text, '\n', ' ');
    throw Error(Fault::kUnavailable,
                fmt::format("sweep: sbatch refuses {}: {}", shown, printable(text, 600)));
  }
  // "JOB" or "JOB;CLUSTER", maybe after warnings.
  std::string text = ended.text.substr(0, ended.text.find_last_not_of(" \n") + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

}  // namespace fusecalc
