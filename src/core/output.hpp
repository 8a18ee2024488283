#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fusecalc {

// Writes results to standard output, or to a file, atomically (to a temporary file next to it that
// is renamed on finish). Faults are Errors, except that if standard output is a closed pipe, the
// rest of the output is dropped.
class Output {
 public:
  static Output standard();
  static Output file(const std::string& path);

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

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 16U;

  Output(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  void flush();
  [[noreturn]] void fail() const;

  int descriptor_;
  std::string name_;       // for messages
  std::string target_;     // the file's final path; empty for standard output
  std::string temporary_;  // the temporary file; empty if target_ is not a regular file
  std::string buffer_;
  bool reader_gone_ = false;
};

}  // namespace fusecalc
