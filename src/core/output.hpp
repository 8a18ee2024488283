#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fusecalc {

// Where results are written: standard output, or a file that appears whole or not at all (it is
// written beside its place and renamed on finish). Faults are Errors; a reader of standard output
// that has gone away is none, and what is left to say is dropped.
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
  // Must be called last: only then is everything written and the file in place.
  void finish();

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 16U;

  Output(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  void flush();
  [[noreturn]] void fail() const;

  int descriptor_;
  std::string name_;    // for messages
  std::string target_;  // the file's final place; empty for standard output
  std::string
      temporary_;  // what holds the text until then; empty where target_ is not a plain file
  std::string buffer_;
  bool reader_gone_ = false;
};

}  // namespace fusecalc
