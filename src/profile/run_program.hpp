#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/injection.hpp"
#include "profile/profile.hpp"

namespace fusecalc {

// How a program ended.
struct ProgramEnd {
  int exit_code = 0;  // of a program that ended by itself
  int signal = 0;     // that killed it, or 0
};

std::string outcome_text(const ProgramEnd& end);

// A folder for settings and records, removed with all that is in it.
class RecordFolder {
 public:
  // Throws Error where none can be made.
  RecordFolder();
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  ~RecordFolder();

  const std::string& path() const { return path_; }
  void write_settings(const InjectionSettings& settings) const;
  // The processes that used CUDA, in the order in which they did.
  std::vector<ProfiledProcess> read() const;
  // Bytes of records so far, for a progress line.
  std::uint64_t size() const;

 private:
  std::string path_;
};

// What becomes of the program's output: standard output is kept for results.
enum class OutputOfProgram { kToStandardError, kDiscarded };

// Runs a program with a library that CUDA loads into it and its children, and waits for it. Signals
// of the terminal reach the program as they would without us; `meanwhile` is called now and then.
// Throws Error if there is no such program, or if another profiler is attached.
ProgramEnd run_program(const std::vector<std::string>& program, const std::string& library,
                       const std::string& folder, OutputOfProgram output,
                       const std::function<void()>& meanwhile);

// Throws Error if the environment attaches another profiler to CUDA programs.
void refuse_other_profilers();

}  // namespace fusecalc
