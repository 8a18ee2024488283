#include "input/onnx/wire.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace fusecalc {

void WireReader::fail(std::string_view what) const {
  throw Error(Fault::kBadInput, fmt::format("{}: not a valid ONNX file: {} at byte {}", name_, what,
                                            rest_.data() - file_.data()));
}

std::string_view WireReader::take(std::uint64_t size) {
  if (size > rest_.size()) fail("a field extends past the end of its message");
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::uint64_t WireReader::read_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  fail("a number of more than ten bytes");
}

std::uint64_t WireReader::read_fixed(std::size_t size) {
  const std::string_view encoded = take(size);
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(encoded[i]);
  }
  return value;
}

bool WireReader::next(WireField& field) {
  if (rest_.empty()) return false;
  const std::uint64_t tag = read_varint();
  field = {};
  field.number = static_cast<std::uint32_t>(tag >> 3);
  if (field.number == 0 || tag >> 32 != 0) fail("a field number out of range");
  switch (tag & 7) {
    case 0:
      field.kind = WireField::Kind::kVarint;
      field.bits = read_varint();
      return true;
    case 1:
      field.kind = WireField::Kind::kFixed64;
      field.bits = read_fixed(8);
      return true;
    case 2:
      field.kind = WireField::Kind::kBytes;
      field.bytes = take(read_varint());
      return true;
    case 5:
      field.kind = WireField::Kind::kFixed32;
      field.bits = read_fixed(4);
      return true;
    default: fail("an unknown type of field");
  }
}

WireReader WireReader::inside(const WireField& field) const { return {file_, field.bytes, name_}; }

}  // namespace fusecalc
