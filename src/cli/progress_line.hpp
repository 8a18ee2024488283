#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include "core/text.hpp"

namespace fusecalc {

// A progress line on standard error, erased at the end; shown only on a terminal.
class ProgressLine {
 public:
  ProgressLine() : shown_(::isatty(STDERR_FILENO) == 1) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { erase(); }

  bool shown() const { return shown_; }

  // Prints a permanent line.
  void say(const std::string& text) {
    erase();
    std::fprintf(stderr, "%s\n", printable(text, kNoLimit).c_str());
  }

  void show(const std::string& text) {
    if (!shown_) return;
    std::fprintf(stderr, "\r\x1b[K%s", printable(text, 78).c_str());
    used_ = true;
  }

 private:
  void erase() {
    if (used_) std::fputs("\r\x1b[K", stderr);
    used_ = false;
  }

  bool shown_;
  bool used_ = false;
};

}  // namespace fusecalc
