#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fusecalc {

// A document's bytes, handed out in chunks so that its size never matters.
class ByteSource {
 public:
  // Opens a file, or standard input for "-". Throws Error where that fails.
  static ByteSource open(const std::string& path);
  // Text in memory, which must outlive the source. The chunk size is for tests of readers.
  static ByteSource from_memory(std::string_view text, std::string name,
                                std::size_t chunk_bytes = std::string_view::npos);

  ByteSource(ByteSource&& other) noexcept;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ByteSource& operator=(ByteSource&&) = delete;
  ~ByteSource();

  // The next bytes, valid until the next call; empty at the end. Throws Error on a read fault.
  std::string_view next();

  // The first bytes, which the next call of next() returns again; to be called before it.
  std::string_view peek();

  // All bytes at once, valid as long as the source, for formats that are not read front to back.
  // A regular file is mapped, so that only what is used of it is read; anything else is read to its
  // end, and refused if it is longer than `limit`. To be called before next().
  std::string_view whole(std::size_t limit);

  // The name of this document in messages.
  const std::string& name() const { return name_; }

 private:
  ByteSource(std::string name, int descriptor, std::string_view text, std::size_t chunk_bytes)
      : name_(std::move(name)), descriptor_(descriptor), text_(text), chunk_bytes_(chunk_bytes) {}

  void close();
  bool map();

  std::string name_;
  int descriptor_ = -1;
  std::string_view text_;  // what is left of it
  std::size_t chunk_bytes_ = 0;
  std::vector<char> buffer_;
  bool peeked_ = false;      // buffer_ holds what the next call of next() returns
  std::string_view mapped_;  // of the file, where whole() mapped it
};

}  // namespace fusecalc
