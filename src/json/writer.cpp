#include "json/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <string>

#include "core/format.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

// Bytes that a string cannot hold as they are, and those of which only code_point() can tell.
constexpr std::array<bool, 256> kSuspect = [] {
  std::array<bool, 256> suspect{};
  for (std::size_t byte = 0; byte < suspect.size(); ++byte) {
    suspect[byte] = byte < 0x20 || byte >= 0x7F;
  }
  suspect['"'] = suspect['\\'] = true;
  return suspect;
}();

bool is_suspect(char c) { return kSuspect[static_cast<unsigned char>(c)]; }

// As one UTF-16 unit, or two.
std::string escaped(char32_t code) {
  const auto number = static_cast<unsigned>(code);
  if (number < 0x10000) return fmt::format("\\u{:04x}", number);
  const unsigned rest = number - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10U), 0xDC00 + (rest & 0x3FFU));
}

}  // namespace

JsonWriter& JsonWriter::begin(char open, char close, Layout layout) {
  separate();
  const bool inside_line = !levels_.empty() && levels_.back().layout != Layout::kIndented;
  output_.write({&open, 1});
  levels_.push_back({close, inside_line ? levels_.back().layout : layout});
  return *this;
}

JsonWriter& JsonWriter::end() {
  assert(!levels_.empty() && !after_key_);
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty && level.layout == Layout::kIndented) new_line();
  output_.write({&level.close, 1});
  if (levels_.empty()) output_.write("\n");
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  write_string(name);
  output_.write(levels_.back().layout == Layout::kCompact ? ":" : ": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  write_string(text);
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t number) {
  const fmt::format_int digits(number);
  return raw({digits.data(), digits.size()});
}
JsonWriter& JsonWriter::value(std::int64_t number) {
  const fmt::format_int digits(number);
  return raw({digits.data(), digits.size()});
}
JsonWriter& JsonWriter::value(bool truth) { return raw(truth ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::value(double number) {
  assert(std::isfinite(number));
  return raw(shortest_decimal(number));
}

JsonWriter JsonWriter::part(Output& output, bool first) const {
  assert(!levels_.empty() && !after_key_);
  JsonWriter writer(output);
  writer.levels_ = levels_;
  writer.levels_.back().empty = first;
  return writer;
}

void JsonWriter::append(std::string_view text) {
  output_.write(text);
  levels_.back().empty = levels_.back().empty && text.empty();
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  output_.write(text);
  return *this;
}

void JsonWriter::separate() {
  if (after_key_ || levels_.empty()) {
    after_key_ = false;
    return;
  }
  Level& level = levels_.back();
  if (level.layout == Layout::kIndented) {
    if (!level.empty) output_.write(",");
    new_line();
  } else if (!level.empty) {
    output_.write(level.layout == Layout::kCompact ? "," : ", ");
  }
  level.empty = false;
}

void JsonWriter::new_line() {
  constexpr std::string_view kLine = "\n                              ";
  const std::size_t indent = 2 * levels_.size();
  output_.write(kLine.substr(0, 1 + indent));
  for (std::size_t more = kLine.size() - 1; more < indent; more += 2) output_.write("  ");
}

// Unsafe characters are escaped, which loses nothing; a byte that is not UTF-8 has no form in JSON
// and becomes U+FFFD.
void JsonWriter::write_string(std::string_view text) {
  output_.write("\"");
  while (true) {
    const auto found = std::find_if(text.begin(), text.end(), is_suspect);
    const auto plain = static_cast<std::size_t>(found - text.begin());
    output_.write(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    const char32_t code = length == 0 ? U'\uFFFD' : code_point(sequence);
    if (code == U'"' || code == U'\\') {
      output_.write("\\");
      output_.write(sequence);
    } else if (length == 0 || is_unsafe(code)) {
      output_.write(escaped(code));
    } else {
      output_.write(sequence);
    }
    text.remove_prefix(sequence.size());
  }
  output_.write("\"");
}

}  // namespace fusecalc
