#include "core/interrupt.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "support/files.hpp"

using namespace fusecalc;
using namespace fusecalc::testing;

namespace {

// Runs in a child process, which must end by the signal that it sends itself; the exit code of
// `work` would say that it did not.
int signal_that_ends(void (*work)(const std::filesystem::path& folder),
                     const std::filesystem::path& folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) std::signal(signal, SIG_DFL);
    work(folder);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void pause_for_a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

}  // namespace

TEST_CASE("a delayed signal waits, also where another thread could take it") {
  const TempDir folder;
  const int signal = signal_that_ends(
      [](const std::filesystem::path& place) {
        std::thread idle([] { std::this_thread::sleep_for(std::chrono::seconds(20)); });
        {
          const DelaySignals delay;
          ::kill(::getpid(), SIGTERM);
          pause_for_a_moment();
          write_file(place / "whole", "text");
        }
        idle.join();
      },
      folder.path());
  CHECK(signal == SIGTERM);
  CHECK(read_file(folder / "whole") == "text");
}

TEST_CASE("a signal that another thread takes removes the files of this one") {
  const TempDir folder;
  const int signal = signal_that_ends(
      [](const std::filesystem::path& place) {
        std::thread idle([] { std::this_thread::sleep_for(std::chrono::seconds(20)); });
        const RemoveOnSignal removal((place / "part").string());
        write_file(place / "part", "text");
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
        ::kill(::getpid(), SIGHUP);
        idle.join();
      },
      folder.path());
  CHECK(signal == SIGHUP);
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("no signal, no change") {
  const TempDir folder;
  CHECK(signal_that_ends([](const std::filesystem::path&) { const DelaySignals delay; },
                         folder.path()) == 0);
}
