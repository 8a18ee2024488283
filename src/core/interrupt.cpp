#include "core/interrupt.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/error.hpp"

namespace fusecalc {
namespace {

constexpr std::array kEndingSignals = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

volatile std::sig_atomic_t noting = 0;
volatile std::sig_atomic_t noted = 0;

// Files to remove. The handler may run at any moment and in any thread, so the paths lie in static
// memory, and `used` says whether one is complete.
struct Slot {
  std::atomic<bool> claimed{false};
  std::atomic<bool> used{false};
  std::array<char, PATH_MAX> path{};
};
constexpr std::size_t kSlots = 8;
std::array<Slot, kSlots> slots;
static_assert(std::atomic<bool>::is_always_lock_free);

// Signals that arrive while `delaying` wait in `delayed`. A handler counts itself before it asks,
// and a DelaySignals waits for the handlers that may have asked too early.
std::atomic<bool> delaying{false};
std::atomic<int> delayed{0};
std::atomic<int> handlers{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Only calls that are safe in a signal handler.
void end_by(int signal) {
  for (const Slot& slot : slots) {
    if (slot.used.load(std::memory_order_acquire)) ::unlink(slot.path.data());
  }
  // Ends the program as the signal would have, so that its parent sees which one it was.
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void handle_signal(int signal) {
  if (signal == SIGINT && noting != 0 && noted == 0) {
    noted = 1;
    return;
  }
  ++handlers;
  if (!delaying) return end_by(signal);  // does not return, so it stays counted
  delayed = signal;
  --handlers;
}

void install_handler(int signal) {
  struct sigaction action {};
  action.sa_handler = handle_signal;
  ::sigaction(signal, &action, nullptr);
}

void install_handlers() {
  static const bool installed = [] {
    for (const int signal : kEndingSignals) {
      struct sigaction present {};
      ::sigaction(signal, nullptr, &present);
      if (present.sa_handler == SIG_DFL) install_handler(signal);
    }
    return true;
  }();
  static_cast<void>(installed);
}

sigset_t ending_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : kEndingSignals) ::sigaddset(&set, signal);
  return set;
}

}  // namespace

void note_interrupts() {
  noting = 1;
  install_handler(SIGINT);
}

bool interrupted() { return noted != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Error(Fault::kInterrupted, "interrupted");
}

RemoveOnSignal::RemoveOnSignal(const std::string& path) : slot_(kSlots) {
  install_handlers();
  if (path.size() >= PATH_MAX) return;  // no file can have this path
  for (slot_ = 0; slot_ < kSlots && slots[slot_].claimed.exchange(true); ++slot_) {
  }
  if (slot_ == kSlots) return;
  std::memcpy(slots[slot_].path.data(), path.c_str(), path.size() + 1);
  slots[slot_].used.store(true, std::memory_order_release);
}

RemoveOnSignal::~RemoveOnSignal() {
  if (slot_ == kSlots) return;
  slots[slot_].used = false;
  slots[slot_].claimed = false;
}

DelaySignals::DelaySignals() {
  install_handlers();
  const sigset_t set = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  delaying = true;
  while (handlers != 0) std::this_thread::yield();
}

DelaySignals::~DelaySignals() {
  delaying = false;
  if (const int signal = delayed.exchange(0); signal != 0) ::kill(::getpid(), signal);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace fusecalc
