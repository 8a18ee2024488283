// program [LAUNCHES [END [WORKERS]]]: launches kernels with whatever driver it finds, alone or in
// forked workers, and ends: "return", "kill" (at once), "synchronize" (and kill), "idle" (and kill
// once its launches are counted), "interrupt" (the same by Ctrl-C), "fork" (children, while our
// thread works) or "wait" (for all workers, each of which has launched).
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace {

using namespace std::chrono_literals;

unsigned counted_launches() {
  const char* folder = std::getenv("FUSECALC_PROFILE_FOLDER");
  unsigned counted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with(std::to_string(::getpid()) + "-")) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("bytes\t")) ++counted;
    }
  }
  return counted;
}

int launch(unsigned launches) {
  if (cuInit(0) != CUDA_SUCCESS) return 1;
  for (unsigned i = 1; i <= launches; ++i) {
    cuLaunchKernel(nullptr, i, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
  }
  std::printf("launched %u\n", launches);
  std::fflush(stdout);
  return 0;
}

void end(std::string_view how, unsigned launches) {
  if (how == "synchronize") cuCtxSynchronize();
  if (how == "idle" || how == "interrupt") {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (counted_launches() < launches && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(5ms);
    }
  }
  if (how == "kill" || how == "synchronize" || how == "idle") std::raise(SIGKILL);
  if (how == "interrupt") std::raise(SIGINT);
  constexpr int kChildren = 100;
  for (int i = 0; i < kChildren && how == "fork"; ++i) {
    cuLaunchKernel(nullptr, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
    std::this_thread::sleep_for(std::chrono::microseconds{19'000 + 40 * i});
    const pid_t child = ::fork();
    if (child == 0) std::exit(0);
    ::waitpid(child, nullptr, 0);
  }
}

// Each worker tells that it has launched, and ends when all have.
int run_workers(unsigned launches, int workers) {
  int launched[2];
  int over[2];
  if (::pipe(launched) != 0 || ::pipe(over) != 0) return 1;
  for (int i = 0; i < workers; ++i) {
    if (::fork() != 0) continue;
    ::close(over[1]);
    const int failed = launch(launches);
    char byte = 0;
    if (::write(launched[1], &byte, 1) != 1 || ::read(over[0], &byte, 1) != 0) ::_exit(1);
    std::exit(failed);
  }
  char byte = 0;
  for (int i = 0; i < workers; ++i) {
    if (::read(launched[0], &byte, 1) != 1) return 1;
  }
  ::close(over[1]);
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed |= status;
  return failed;
}

}  // namespace

int main(int count, char** words) {
  const unsigned launches = count > 1 ? static_cast<unsigned>(std::atoi(words[1])) : 3;
  const std::string_view how = count > 2 ? words[2] : "return";
  if (how == "wait") return run_workers(launches, std::atoi(words[3]));
  if (const int failed = launch(launches); failed != 0) return failed;
  end(how, launches);
  return 0;
}
