#include "profile/run_program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include "core/error.hpp"
#include "core/text.hpp"
#include "profile/records.hpp"

extern char** environ;

namespace fusecalc {
namespace {

namespace fs = std::filesystem;

constexpr char kInjection[] = "CUDA_INJECTION64_PATH";
constexpr char kNvtxInjection[] = "NVTX_INJECTION64_PATH";

// Ours, with the library and its folder.
std::vector<std::string> environment(const std::string& library, const std::string& folder) {
  const std::vector<std::pair<std::string, std::string>> added = {
      {kInjection, library}, {kNvtxInjection, library}, {kInjectionFolderVariable, folder}};
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool replaced = std::ranges::any_of(
        added, [&](const auto& row) { return text.starts_with(row.first + "="); });
    if (!replaced) variables.emplace_back(text);
  }
  for (const auto& [name, value] : added) variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// While it exists, Ctrl-C is the program's alone: we wait for it to end.
class LeaveInterrupts {
 public:
  LeaveInterrupts() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &interrupt_);
    ::sigaction(SIGQUIT, &ignore, &quit_);
  }
  LeaveInterrupts(const LeaveInterrupts&) = delete;
  LeaveInterrupts& operator=(const LeaveInterrupts&) = delete;
  ~LeaveInterrupts() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGQUIT, &quit_, nullptr);
  }

 private:
  struct sigaction interrupt_ {};
  struct sigaction quit_ {};
};

pid_t spawn(std::vector<std::string> program, std::vector<std::string> variables,
            OutputOfProgram output) {
  posix_spawn_file_actions_t files{};
  ::posix_spawn_file_actions_init(&files);
  if (output == OutputOfProgram::kDiscarded) {
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ::posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_t attributes{};
  ::posix_spawnattr_init(&attributes);
  sigset_t defaults;
  ::sigemptyset(&defaults);
  for (const int signal : {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ}) ::sigaddset(&defaults, signal);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const std::string name = program.front();
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, name.c_str(), &files, &attributes,
                                    pointers(program).data(), pointers(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    throw Error(Fault::kBadInput,
                fmt::format("{}: cannot be run: {}", printable(name), std::strerror(failed)));
  }
  return pid;
}

}  // namespace

std::string outcome_text(const ProgramEnd& end) {
  if (end.signal == 0) return fmt::format("exit code {}", end.exit_code);
  const char* name = ::strsignal(end.signal);
  return fmt::format("signal {} ({})", end.signal, name == nullptr ? "?" : name);
}

void refuse_other_profilers() {
  const char* other = std::getenv(kInjection);
  if (other == nullptr || *other == '\0') return;
  throw Error(Fault::kUnavailable,
              fmt::format("another profiler is attached (CUDA_INJECTION64_PATH is {}); run "
                          "fusecalc profile without it",
                          printable(other)));
}

RecordFolder::RecordFolder() {
  std::string pattern = (fs::temp_directory_path() / "fusecalc-profile-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw Error(Fault::kUnavailable, fmt::format("{}: no folder can be made: {}; set TMPDIR",
                                                 printable(pattern), std::strerror(errno)));
  }
  path_ = pattern;
}

RecordFolder::~RecordFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

void RecordFolder::write_settings(const InjectionSettings& settings) const {
  std::ofstream(path_ + "/" + kSettingsFile) << settings_text(settings);
}

std::vector<ProfiledProcess> RecordFolder::read() const {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    if (entry.path().extension() == kRecordSuffix) files.push_back(entry.path());
  }
  // A name is "process-time", and times have equally many digits.
  std::ranges::sort(files, {}, [](const fs::path& file) {
    const std::string name = file.stem().string();
    return name.substr(name.find('-') + 1);
  });
  std::vector<ProfiledProcess> processes;
  for (const fs::path& path : files) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    processes.push_back(read_records(text));
  }
  return processes;
}

std::uint64_t RecordFolder::size() const {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::uintmax_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

ProgramEnd run_program(const std::vector<std::string>& program, const std::string& library,
                       const std::string& folder, OutputOfProgram output,
                       const std::function<void()>& meanwhile) {
  refuse_other_profilers();
  const LeaveInterrupts leave;
  const pid_t pid = spawn(program, environment(library, folder), output);
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) {
      throw Error(Fault::kUnavailable, fmt::format("waiting for {}: {}", printable(program.front()),
                                                   std::strerror(errno)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    meanwhile();
  }
  if (WIFSIGNALED(status)) return {.exit_code = 0, .signal = WTERMSIG(status)};
  return {.exit_code = WEXITSTATUS(status), .signal = 0};
}

}  // namespace fusecalc
