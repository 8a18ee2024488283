#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/output.hpp"

namespace fusecalc {

// Writes one JSON document front to back, indented by two spaces; a container begun as kInline
// stays on its line, one begun as kCompact has no spaces either. The caller keeps begin and end in
// balance.
class JsonWriter {
 public:
  enum class Layout { kIndented, kInline, kCompact };

  explicit JsonWriter(Output& output) : output_(output) {}

  JsonWriter& begin_object(Layout layout = Layout::kIndented) { return begin('{', '}', layout); }
  JsonWriter& begin_array(Layout layout = Layout::kIndented) { return begin('[', ']', layout); }
  JsonWriter& end();

  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(double number);
  JsonWriter& value(bool truth);
  JsonWriter& null();

  // A writer of values that stand in the array at hand, for another thread: append() then takes the
  // text that it wrote. `first`: nothing stands before them.
  JsonWriter part(Output& output, bool first) const;
  void append(std::string_view text);

  template <typename Value>
  JsonWriter& member(std::string_view name, const Value& content) {
    return key(name).value(content);
  }

 private:
  struct Level {
    char close = '}';
    Layout layout = Layout::kIndented;
    bool empty = true;
  };

  JsonWriter& begin(char open, char close, Layout layout);
  JsonWriter& raw(std::string_view text);
  void separate();
  void new_line();
  void write_string(std::string_view text);

  Output& output_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace fusecalc
