#include "json/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <string>

#include "core/format.hpp"

namespace fusecalc {
namespace {

// Characters that a string must escape.
constexpr std::array<bool, 256> kEscaped = [] {
  std::array<bool, 256> escaped{};
  for (std::size_t byte = 0; byte < 0x20; ++byte) escaped[byte] = true;
  escaped['"'] = escaped['\\'] = escaped[0x7F] = true;
  return escaped;
}();

bool is_escaped(char c) { return kEscaped[static_cast<unsigned char>(c)]; }

}  // namespace

JsonWriter& JsonWriter::begin(char open, char close, Layout layout) {
  separate();
  const bool inside_inline = !levels_.empty() && levels_.back().layout == Layout::kInline;
  output_.write({&open, 1});
  levels_.push_back({close, inside_inline ? Layout::kInline : layout});
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
  output_.write(": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  write_string(text);
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t number) { return raw(fmt::format_int(number).c_str()); }
JsonWriter& JsonWriter::value(std::int64_t number) { return raw(fmt::format_int(number).c_str()); }
JsonWriter& JsonWriter::value(bool truth) { return raw(truth ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::value(double number) {
  assert(std::isfinite(number));
  return raw(shortest_decimal(number));
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
    output_.write(", ");
  }
  level.empty = false;
}

void JsonWriter::new_line() {
  constexpr std::string_view kLine = "\n                              ";
  const std::size_t indent = 2 * levels_.size();
  output_.write(kLine.substr(0, 1 + indent));
  for (std::size_t more = kLine.size() - 1; more < indent; more += 2) output_.write("  ");
}

void JsonWriter::write_string(std::string_view text) {
  output_.write("\"");
  while (true) {
    const auto found = std::find_if(text.begin(), text.end(), is_escaped);
    const auto plain = static_cast<std::size_t>(found - text.begin());
    output_.write(text.substr(0, plain));
    if (plain == text.size()) break;
    const char c = text[plain];
    text.remove_prefix(plain + 1);
    if (c == '"' || c == '\\') {
      output_.write(std::string{'\\', c});
    } else {
      output_.write(fmt::format("\\u{:04x}", static_cast<unsigned char>(c)));
    }
  }
  output_.write("\"");
}

}  // namespace fusecalc
