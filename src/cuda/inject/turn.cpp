#include "cuda/inject/turn.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <thread>

namespace fusecalc::cuda {
namespace {

using namespace std::chrono_literals;

// What the bytes of the file are locked for.
constexpr off_t kTurn = 0;
constexpr off_t kWaiting = 1;

struct flock lock_of(short type, off_t place) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = place;
  lock.l_len = 1;
  return lock;
}

}  // namespace

Turn::Turn(const std::string& folder, const std::string& uuid)
    : file_(::open((folder + "/" + uuid + ".turn").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}

Turn::~Turn() { ::close(file_); }

bool Turn::lock(short type, off_t place) const {
  struct flock wanted = lock_of(type, place);
  return ::fcntl(file_, F_SETLK, &wanted) == 0;
}

// Another process that has locked it, or 0.
pid_t Turn::holder(off_t place) const {
  struct flock wanted = lock_of(F_WRLCK, place);
  if (::fcntl(file_, F_GETLK, &wanted) != 0 || wanted.l_type == F_UNLCK) return 0;
  return wanted.l_pid;
}

bool Turn::take(std::chrono::milliseconds limit) {
  held_ = lock(F_WRLCK, kTurn);
  if (!held_ && limit > 0ms) {
    lock(F_RDLCK, kWaiting);
    pid_t before = holder(kTurn);
    auto begin = std::chrono::steady_clock::now();
    while (!held_ && std::chrono::steady_clock::now() - begin < limit) {
      std::this_thread::sleep_for(5ms);
      held_ = lock(F_WRLCK, kTurn);
      if (const pid_t now = holder(kTurn); now != before) {
        before = now;
        begin = std::chrono::steady_clock::now();
      }
    }
    lock(F_UNLCK, kWaiting);
  }
  start_share();
  return held_;
}

bool Turn::is_over(std::chrono::milliseconds share) const {
  return held_ && std::chrono::steady_clock::now() - since_ >= share && holder(kWaiting) != 0;
}

void Turn::give_up() {
  if (!held_) return;
  lock(F_UNLCK, kTurn);
  held_ = false;
  std::this_thread::sleep_for(20ms);
}

}  // namespace fusecalc::cuda
