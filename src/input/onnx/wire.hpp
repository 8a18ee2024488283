#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fusecalc {

// One field of a protobuf message, in its encoded form.
struct WireField {
  enum class Kind : std::uint8_t { kVarint, kFixed64, kBytes, kFixed32 };
  std::uint32_t number = 0;
  Kind kind = Kind::kVarint;
  std::uint64_t bits = 0;  // of a varint or a fixed field
  std::string_view bytes;  // of a string, a nested message or a packed list
};

// Reads the fields of one message in the order in which they are encoded. Knows no schema; copies
// nothing. Refuses what is not well formed, with the offset in the file.
class WireReader {
 public:
  // `message` is a part of `file`, whose name appears in errors; both outlive the reader.
  WireReader(std::string_view file, std::string_view message, const std::string& name)
      : file_(file), rest_(message), name_(name) {}

  // The next field, or false at the end of the message.
  bool next(WireField& field);

  // A reader of a field that holds a message, or a packed list of numbers.
  WireReader inside(const WireField& field) const;
  bool at_end() const { return rest_.empty(); }
  std::uint64_t read_varint();
  std::uint64_t read_fixed(std::size_t size);

  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::string_view take(std::uint64_t size);

  std::string_view file_;
  std::string_view rest_;
  const std::string& name_;
};

}  // namespace fusecalc
