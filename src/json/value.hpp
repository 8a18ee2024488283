#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "json/reader.hpp"
#include "json/writer.hpp"

namespace fusecalc {

// A whole JSON value, with the members of objects in their order.
struct JsonValue {
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;

  std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string, Array,
               Object>
      content = nullptr;

  // The member of an object; null if there is none, or if this is no object.
  const JsonValue* find(std::string_view key) const;
  // Null if it is of another kind.
  const std::uint64_t* count() const { return std::get_if<std::uint64_t>(&content); }
  const std::string* text() const { return std::get_if<std::string>(&content); }
  const Object* object() const { return std::get_if<Object>(&content); }
};

// Members of objects whose keys `keep` refuses are skipped, wherever they are.
JsonValue read_value(JsonReader& reader, const std::function<bool(std::string_view)>& keep);

void write_value(JsonWriter& json, const JsonValue& value);

}  // namespace fusecalc
