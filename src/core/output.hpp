#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/interrupt.hpp"

namespace fusecalc {

// Writes results to standard output, or to a file, atomically: to a temporary file next to it that
// is renamed on finish(), with the owner and the permissions of the file that it replaces. Where a
// rename is not possible (a read-only folder, a mount point), would break a hard link or would
// change the owner, the finished text is copied over the old one. A device, a pipe or an open
// descriptor of this process (/dev/stdout) is written to as it is. A file that is not writable is
// refused, even where a rename would replace it. Faults are Errors, except that if standard output
// is a closed pipe, the rest of the output is dropped.
class Output {
 public:
  static Output standard();
  static Output file(const std::string& path);
  // Keeps the text, for take().
  static Output memory();

  Output(Output&& other) noexcept;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  Output& operator=(Output&&) = delete;
  ~Output();

  void write(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  // Must be called last: it completes the output and moves the file to its target.
  void finish();
  // The text written to memory() so far.
  std::string take() { return std::exchange(buffer_, {}); }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 16U;

  // What becomes of the text on finish().
  enum class Finish { kNothing, kRename, kCopy };

  Output(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  void open_beside();
  void discard_temporary();
  void open_in_memory();
  void flush();
  void write_all(int descriptor, std::string_view text);
  void copy_over_target();
  [[noreturn]] void fail() const;

  int descriptor_;
  std::string name_;    // for messages
  std::string target_;  // the file's final path; empty for standard output
  Finish finish_ = Finish::kNothing;
  std::string temporary_;  // the temporary file's path, if there is one
  std::unique_ptr<RemoveOnSignal> removal_{};
  std::string buffer_;
  bool reader_gone_ = false;
};

}  // namespace fusecalc
