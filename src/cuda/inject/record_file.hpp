#pragma once

#include <initializer_list>
#include <mutex>
#include <string>

#include "backend/injection.hpp"

namespace fusecalc::cuda {

// The records of this process, in a file of its own. Each is written at once, so that a process
// that crashes or is killed leaves all that it had recorded. Does nothing in a forked child, whose
// own CUDA would have loaded the library again.
class RecordFile {
 public:
  // Creates the file; without one nothing is recorded.
  explicit RecordFile(const std::string& folder);
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile() = default;  // the descriptor is the kernel's to close: records come until the end

  void write(RecordKind kind, std::initializer_list<std::string> fields);

 private:
  int descriptor_ = -1;
  int pid_;
  std::mutex mutex_;
};

}  // namespace fusecalc::cuda
