#include "sweep/workers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/interrupt.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kNoPoint = static_cast<std::size_t>(-1);
constexpr std::size_t kLongestError = 1000;

// In memory that all processes share.
struct Board {
  std::atomic<std::size_t> next{0};  // into the list of points
  std::atomic<std::size_t> ran{0};
  std::atomic<std::size_t> failed{0};
  std::atomic<bool> stop{false};
  // The first Error that a process could not handle.
  std::atomic<bool> has_error{false};
  int fault = 0;
  std::array<char, kLongestError> error{};
};
static_assert(std::atomic<std::size_t>::is_always_lock_free);

struct Worker {
  pid_t process = -1;
  std::atomic<std::size_t> point{kNoPoint};  // that it is at
};

// An array in memory that is shared with processes forked later.
template <typename Type>
class Shared {
 public:
  explicit Shared(std::size_t count) : count_(count) {
    void* memory = ::mmap(nullptr, count * sizeof(Type), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<Type*>(memory);
    for (std::size_t i = 0; i < count; ++i) new (begin_ + i) Type();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(begin_, count_ * sizeof(Type)); }

  std::span<Type> all() const { return {begin_, count_}; }

 private:
  Type* begin_;
  std::size_t count_;
};

class Pool {
 public:
  Pool(std::span<const std::size_t> points, const WorkerOptions& options,
       const std::function<RunPoint(unsigned)>& start)
      : points_(points), options_(options), start_(start), board_(1), workers_(options.jobs) {}

  SweepProgress run(const std::function<void(std::size_t, const std::string&)>& on_death,
                    const std::function<void(const SweepProgress&)>& on_progress) {
    for (unsigned job = 0; job < options_.jobs; ++job) begin(job);
    while (running_ > 0) {
      if (interrupted() && !board().stop) stop();
      if (board().has_error) board().stop = true;
      reap(on_death);
      on_progress(progress());
      if (running_ > 0) wait_a_moment();
    }
    if (board().has_error) throw Error(static_cast<Fault>(board().fault), board().error.data());
    return progress();
  }

  ~Pool() {
    for (const Worker& worker : workers_.all()) {
      if (worker.process > 0) ::kill(worker.process, SIGTERM);
    }
  }

 private:
  Board& board() const { return board_.all().front(); }

  SweepProgress progress() const {
    return {.points = points_.size(), .ran = board().ran, .failed = board().failed};
  }

  bool finished() const { return board().stop || board().next >= points_.size(); }

  void begin(unsigned job) {
    const pid_t parent = ::getpid();
    const pid_t process = ::fork();
    if (process < 0) {
      throw Error(Fault::kUnavailable,
                  fmt::format("sweep: cannot start a process: {}", std::strerror(errno)));
    }
    if (process == 0) work(job, parent);
    workers_.all()[job].process = process;
    ++running_;
  }

  // In the new process. It is in a process group of its own, so that a Ctrl-C reaches the program
  // alone, which passes it on once; and it ends with the program.
  [[noreturn]] void work(unsigned job, pid_t parent) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    try {
      work_on_points(job);
    } catch (const Error& error) {
      report(error);
    } catch (const std::bad_alloc&) {
      report(Error(Fault::kUnavailable, "sweep: out of memory"));
    }
    ::_exit(0);
  }

  void work_on_points(unsigned job) {
    const RunPoint run = start_(job);
    std::atomic<std::size_t>& point = workers_.all()[job].point;
    while (!board().stop && !interrupted()) {
      const std::size_t place = board().next++;
      if (place >= points_.size()) return;
      point = points_[place];
      const PointEnd end = run(point);
      if (end == PointEnd::kInterrupted) return;
      if (end == PointEnd::kFailed) ++board().failed;
      ++board().ran;
      point = kNoPoint;
      if (end == PointEnd::kFailed && options_.end_after_failure) return;
    }
  }

  void report(const Error& error) {
    if (error.fault() == Fault::kInterrupted || board().has_error.exchange(true)) return;
    board().fault = static_cast<int>(error.fault());
    std::strncpy(board().error.data(), error.what(), kLongestError - 1);
    board().stop = true;
  }

  void stop() {
    board().stop = true;
    for (const Worker& worker : workers_.all()) {
      if (worker.process > 0) ::kill(worker.process, SIGINT);
    }
  }

  void reap(const std::function<void(std::size_t, const std::string&)>& on_death) {
    for (unsigned job = 0; job < options_.jobs; ++job) {
      Worker& worker = workers_.all()[job];
      int status = 0;
      if (worker.process <= 0 || ::waitpid(worker.process, &status, WNOHANG) != worker.process) {
        continue;
      }
      worker.process = -1;
      --running_;
      const std::size_t point = worker.point.exchange(kNoPoint);
      const bool died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
      if (died && !interrupted()) {
        const std::string how = WIFSIGNALED(status)
                                    ? fmt::format("ended by signal {} ({})", WTERMSIG(status),
                                                  ::strsignal(WTERMSIG(status)))
                                    : fmt::format("ended with exit code {}", WEXITSTATUS(status));
        if (point == kNoPoint) {
          report(Error(Fault::kUnavailable, "sweep: a process " + how + " before its first point"));
        } else {
          ++board().failed;
          ++board().ran;
          on_death(point, how);
        }
      }
      if (!finished()) begin(job);
    }
  }

  static void wait_a_moment() {
    constexpr long kTwentyMilliseconds = 20'000'000;
    const timespec pause{.tv_sec = 0, .tv_nsec = kTwentyMilliseconds};
    ::nanosleep(&pause, nullptr);
  }

  std::span<const std::size_t> points_;
  const WorkerOptions& options_;
  const std::function<RunPoint(unsigned)>& start_;
  Shared<Board> board_;
  Shared<Worker> workers_;
  unsigned running_ = 0;
};

}  // namespace

SweepProgress run_points(std::span<const std::size_t> points, const WorkerOptions& options,
                         const std::function<RunPoint(unsigned job)>& start,
                         const std::function<void(std::size_t, const std::string&)>& on_death,
                         const std::function<void(const SweepProgress&)>& on_progress) {
  if (points.empty()) return {};
  WorkerOptions needed = options;
  needed.jobs = static_cast<unsigned>(std::min<std::size_t>(options.jobs, points.size()));
  return Pool(points, needed, start).run(on_death, on_progress);
}

unsigned visible_gpus() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    return static_cast<unsigned>(std::ranges::count(std::string_view(visible), ',')) + 1;
  }
  unsigned count = 0;
  while (::access(fmt::format("/dev/nvidia{}", count).c_str(), F_OK) == 0) ++count;
  return std::max(count, 1U);
}

}  // namespace fusecalc
