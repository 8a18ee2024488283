#include "support/invocation.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

namespace fusecalc::testing {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  ~Descriptor() { close(); }

  int get() const { return value_; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_;
};

struct Channel {
  Descriptor read;
  Descriptor write;
};

Channel make_pipe() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// A terminal that passes bytes on as they are; one of no columns does not know its size.
Channel make_terminal(unsigned short columns) {
  int master = -1;
  int slave = -1;
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  REQUIRE(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
  ::fcntl(master, F_SETFD, FD_CLOEXEC);
  ::fcntl(slave, F_SETFD, FD_CLOEXEC);
  termios modes{};
  REQUIRE(::tcgetattr(slave, &modes) == 0);
  ::cfmakeraw(&modes);
  REQUIRE(::tcsetattr(slave, TCSANOW, &modes) == 0);
  return {Descriptor(master), Descriptor(slave)};
}

// Moves what is there; closes the descriptor at the end (for a terminal that is an error).
void read_some(Descriptor& from, std::string& into) {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(from.get(), buffer.data(), buffer.size());
  if (count > 0) {
    into.append(buffer.data(), static_cast<std::size_t>(count));
  } else {
    from.close();
  }
}

void write_some(Descriptor& into, std::string_view& text) {
  const ssize_t count = text.empty() ? 0 : ::write(into.get(), text.data(), text.size());
  if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  if (text.empty() || (count < 0 && errno != EAGAIN)) into.close();
}

void exchange(Descriptor input, std::string_view text, Descriptor output, Descriptor error,
              Outcome& outcome) {
  ::fcntl(input.get(), F_SETFL, O_NONBLOCK);
  while (input.get() >= 0 || output.get() >= 0 || error.get() >= 0) {
    std::array<pollfd, 3> ready = {pollfd{input.get(), POLLOUT, 0}, pollfd{output.get(), POLLIN, 0},
                                   pollfd{error.get(), POLLIN, 0}};
    REQUIRE(::poll(ready.data(), ready.size(), -1) > 0);
    if (ready[0].revents != 0) write_some(input, text);
    if (ready[1].revents != 0) read_some(output, outcome.out);
    if (ready[2].revents != 0) read_some(error, outcome.err);
  }
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Invocation::Invocation(std::string program, std::vector<std::string> arguments)
    : program_(std::move(program)), arguments_(std::move(arguments)) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    environment_[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const char* name : {"NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG", "GITHUB_ACTIONS",
                           "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"}) {
    environment_.erase(name);
  }
  environment_["TERM"] = "xterm";
}

Invocation& Invocation::input(std::string text) {
  input_ = std::move(text);
  return *this;
}

Invocation& Invocation::in(const std::filesystem::path& folder) {
  folder_ = folder;
  return *this;
}

Invocation& Invocation::with(const std::string& variable, const std::string& value) {
  environment_[variable] = value;
  return *this;
}

Invocation& Invocation::output_to(const std::string& path) {
  destination_ = Destination::kPath;
  output_path_ = path;
  return *this;
}

Invocation& Invocation::output_closed() {
  destination_ = Destination::kClosed;
  return *this;
}

Invocation& Invocation::reader_gone() {
  destination_ = Destination::kNobody;
  return *this;
}

Invocation& Invocation::on_terminal(unsigned short columns) {
  destination_ = Destination::kTerminal;
  columns_ = columns;
  return *this;
}

void Invocation::become_program(int input, int output, int error, char** environment) {
  std::vector<std::string> words = arguments_;
  words.insert(words.begin(), program_);
  const bool placed = ::dup2(input, STDIN_FILENO) >= 0 && ::dup2(error, STDERR_FILENO) >= 0 &&
                      ::chdir(folder_.c_str()) == 0;
  if (destination_ == Destination::kPath) output = ::open(output_path_.c_str(), O_WRONLY);
  if (destination_ == Destination::kClosed) {
    ::close(STDOUT_FILENO);
  } else if (::dup2(output, STDOUT_FILENO) < 0) {
    ::_exit(127);
  }
  std::signal(SIGPIPE, SIG_DFL);
  if (placed) ::execvpe(program_.c_str(), pointers(words).data(), environment);
  ::_exit(127);
}

Outcome Invocation::outcome() {
  std::signal(SIGPIPE, SIG_IGN);  // a program may leave its input unread
  std::vector<std::string> environment;
  for (const auto& [name, value] : environment_) environment.push_back(name + "=" + value);
  const std::vector<char*> environment_pointers = pointers(environment);

  Channel input = make_pipe();
  Channel error = make_pipe();
  Channel output = destination_ == Destination::kTerminal ? make_terminal(columns_) : make_pipe();
  if (destination_ == Destination::kNobody) output.read.close();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    become_program(input.read.get(), output.write.get(), error.write.get(),
                   const_cast<char**>(environment_pointers.data()));
  }
  input.read.close();
  output.write.close();
  error.write.close();
  Outcome outcome;
  exchange(std::move(input.write), input_, std::move(output.read), std::move(error.read), outcome);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Invocation invoke(std::vector<std::string> arguments) {
  return {built_program(), std::move(arguments)};
}

std::string built_program() { return FUSECALC_BINARY; }

}  // namespace fusecalc::testing
