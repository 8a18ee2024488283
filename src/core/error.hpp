#pragma once

#include <stdexcept>
#include <string>

namespace fusecalc {

// The kind of an error; its value is the exit code.
enum class Fault : int { kCheckFailed = 1, kBadInput = 2, kUnavailable = 3, kInterrupted = 130 };

// The only exception of the program. Thrown where the fault is detected, with its location in the
// text; main prints it as a single line on stderr and exits with the fault's code.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}

  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

}  // namespace fusecalc
