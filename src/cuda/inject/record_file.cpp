#include "cuda/inject/record_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <span>

#include "version.hpp"

namespace fusecalc::cuda {
namespace {

// The words of the command line, with a space between.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!text.empty()) text.pop_back();
  for (char& c : text) c = c == '\0' ? ' ' : c;
  constexpr std::size_t kMost = 1000;
  return text.substr(0, kMost);
}

}  // namespace

RecordFile::RecordFile(const std::string& folder) : pid_(::getpid()) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string time =
      std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  // A process that replaces its program keeps its id.
  const std::string path = fmt::format("{}/{}-{}{}", folder, pid_, time, kRecordSuffix);
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  write(RecordKind::kProcess, {std::to_string(pid_), std::to_string(::getppid()), time,
                               std::string(kVersion), command_line()});
}

void RecordFile::write(RecordKind kind, std::initializer_list<std::string> fields) {
  if (descriptor_ < 0 || ::getpid() != pid_) return;
  const std::string line = record_line(kind, std::span(fields.begin(), fields.size()));
  const std::lock_guard lock(mutex_);
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t written = ::write(descriptor_, line.data() + done, line.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

}  // namespace fusecalc::cuda
