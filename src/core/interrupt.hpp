#pragma once

#include <csignal>
#include <cstddef>
#include <string>

namespace fusecalc {

// From now on the first Ctrl-C sets a flag instead of ending the program; a second one ends it.
void note_interrupts();

// Throws an Error with Fault::kInterrupted after a Ctrl-C.
void stop_if_interrupted();
bool interrupted();

// While it exists, a signal that ends the program (SIGHUP, SIGINT, SIGQUIT, SIGTERM) removes this
// file first. A signal that was ignored when the program started stays ignored.
class RemoveOnSignal {
 public:
  explicit RemoveOnSignal(const std::string& path);
  RemoveOnSignal(const RemoveOnSignal&) = delete;
  RemoveOnSignal& operator=(const RemoveOnSignal&) = delete;
  ~RemoveOnSignal();

 private:
  std::size_t slot_;
};

// While it exists, those signals wait, whichever thread receives them. One at a time.
class DelaySignals {
 public:
  DelaySignals();
  DelaySignals(const DelaySignals&) = delete;
  DelaySignals& operator=(const DelaySignals&) = delete;
  ~DelaySignals();

 private:
  sigset_t before_{};
};

}  // namespace fusecalc
