#include "cuda/inject/turn.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <thread>

namespace fusecalc::cuda {
namespace {

using namespace std::chrono_literals;

int open_lock(const std::string& path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

}  // namespace

Turn::Turn(const std::string& folder, const std::string& uuid)
    : turn_(open_lock(folder + "/" + uuid + ".turn")),
      waiting_(open_lock(folder + "/" + uuid + ".waiting")) {}

Turn::~Turn() {
  ::close(turn_);
  ::close(waiting_);
}

bool Turn::take(std::chrono::milliseconds limit) {
  const auto begin = std::chrono::steady_clock::now();
  held_ = ::flock(turn_, LOCK_EX | LOCK_NB) == 0;
  if (!held_ && limit > 0ms) {
    ::flock(waiting_, LOCK_SH);
    while (!held_ && std::chrono::steady_clock::now() - begin < limit) {
      std::this_thread::sleep_for(5ms);
      held_ = ::flock(turn_, LOCK_EX | LOCK_NB) == 0;
    }
    ::flock(waiting_, LOCK_UN);
  }
  start_share();
  return held_;
}

bool Turn::is_over() const {
  constexpr auto kShare = 500ms;
  if (!held_ || std::chrono::steady_clock::now() - since_ < kShare) return false;
  if (::flock(waiting_, LOCK_EX | LOCK_NB) != 0) return true;
  ::flock(waiting_, LOCK_UN);
  return false;
}

void Turn::give_up() {
  if (!held_) return;
  ::flock(turn_, LOCK_UN);
  held_ = false;
  std::this_thread::sleep_for(20ms);
}

}  // namespace fusecalc::cuda
