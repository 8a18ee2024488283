#pragma once

#include <stdexcept>
#include <string>

namespace fusecalc {

// What went wrong, as the exit code that it becomes.
enum class Fault : int { kCheckFailed = 1, kBadInput = 2, kUnavailable = 3, kInterrupted = 130 };

// The one exception of the program. Thrown where the fault is seen, with its location in the text;
// main prints it as a single line on stderr and exits with the fault's code.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}

  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

}  // namespace fusecalc
