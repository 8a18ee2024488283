#include "core/interrupt.hpp"

#include <csignal>

#include "core/error.hpp"

namespace fusecalc {
namespace {

volatile std::sig_atomic_t noted = 0;

}  // namespace

void note_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { noted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
}

bool interrupted() { return noted != 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Error(Fault::kInterrupted, "interrupted");
}

}  // namespace fusecalc
