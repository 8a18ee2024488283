#include "json/value.hpp"

#include <charconv>
#include <type_traits>

#include "core/text.hpp"

namespace fusecalc {
namespace {

JsonValue read_number(JsonReader& reader) {
  const JsonNumber number = reader.read_number();
  if (number.fits && !number.negative) return {number.magnitude};
  if (number.fits) return {-static_cast<std::int64_t>(number.magnitude)};
  double value = 0;
  const auto parsed =
      std::from_chars(number.text.data(), number.text.data() + number.text.size(), value);
  if (parsed.ec != std::errc{}) {
    reader.fail("must be a number that a double can hold, not " + printable(number.text, 40));
  }
  return {value};
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  if (const Object* members = object()) {
    for (const auto& [name, value] : *members) {
      if (name == key) return &value;
    }
  }
  return nullptr;
}

JsonValue read_value(JsonReader& reader, const std::function<bool(std::string_view)>& keep) {
  switch (reader.peek()) {
    case JsonKind::kObject: {
      JsonValue::Object members;
      reader.read_members([&](const std::string& key) {
        if (!keep(key)) return reader.skip_value();
        std::string name = key;
        members.emplace_back(std::move(name), read_value(reader, keep));
      });
      return {std::move(members)};
    }
    case JsonKind::kArray: {
      JsonValue::Array elements;
      reader.read_array([&](std::size_t) { elements.push_back(read_value(reader, keep)); });
      return {std::move(elements)};
    }
    case JsonKind::kString: return {reader.read_string()};
    case JsonKind::kNumber: return read_number(reader);
    case JsonKind::kBoolean: return {reader.read_boolean()};
    case JsonKind::kNull: break;
  }
  reader.skip_value();
  return {};
}

void write_value(JsonWriter& json, const JsonValue& value) {
  std::visit(
      [&](const auto& content) {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, std::nullptr_t>) {
          json.null();
        } else if constexpr (std::is_same_v<Content, JsonValue::Array>) {
          json.begin_array(JsonWriter::Layout::kInline);
          for (const JsonValue& element : content) write_value(json, element);
          json.end();
        } else if constexpr (std::is_same_v<Content, JsonValue::Object>) {
          json.begin_object(JsonWriter::Layout::kInline);
          for (const auto& [key, member] : content) write_value(json.key(key), member);
          json.end();
        } else {
          json.value(content);
        }
      },
      value.content);
}

}  // namespace fusecalc
