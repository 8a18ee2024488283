#include "support/schema_check.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/embedded.hpp"

namespace fusecalc {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

class Checker {
 public:
  explicit Checker(const json& root) : root_(root) {}

  std::string check(const json& value, const json& schema, const std::string& at) const {
    static constexpr std::array<std::string_view, 20> kKnown = {
        "$schema", "$id",        "$defs",    "title",    "description",
        "type",    "properties", "required", "items",    "additionalProperties",
        "const",   "enum",       "minimum",  "maximum",  "$ref",
        "default", "examples",   "minItems", "maxItems", "minLength"};
    for (const auto& [keyword, unused] : schema.items()) {
      if (std::ranges::find(kKnown, keyword) == kKnown.end()) return "unknown keyword " + keyword;
    }
    if (schema.contains("$ref")) {
      const std::string target = schema["$ref"].get<std::string>().substr(1);
      const std::string wrong = check(value, root_.at(json::json_pointer(target)), at);
      if (!wrong.empty()) return wrong;
    }
    if (const std::string wrong = check_value(value, schema); !wrong.empty()) {
      return at + ": " + wrong;
    }
    return check_parts(value, schema, at);
  }

 private:
  static std::string check_value(const json& value, const json& schema) {
    if (schema.contains("type")) {
      const json types = schema["type"].is_array() ? schema["type"] : json{schema["type"]};
      const bool fits = std::ranges::any_of(
          types, [&](const json& type) { return has_type(value, type.get<std::string>()); });
      if (!fits) return "is no " + types.dump();
    }
    if (schema.contains("const") && value != schema["const"]) return "is another constant";
    if (schema.contains("enum") &&
        std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
      return "is not one of the enum";
    }
    if (!value.is_number()) return {};
    if (schema.contains("minimum") && value < schema["minimum"]) return "is too small";
    if (schema.contains("maximum") && value > schema["maximum"]) return "is too large";
    return {};
  }

  std::string check_parts(const json& value, const json& schema, const std::string& at) const {
    if (value.is_string() &&
        value.get<std::string>().size() < schema.value("minLength", std::size_t{0})) {
      return at + ": is too short";
    }
    if (value.is_array() && (value.size() < schema.value("minItems", std::size_t{0}) ||
                             value.size() > schema.value("maxItems", value.size()))) {
      return at + ": has too few or too many items";
    }
    if (value.is_array() && schema.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string wrong = check(value[i], schema["items"], at + "/" + std::to_string(i));
        if (!wrong.empty()) return wrong;
      }
    }
    if (!value.is_object()) return {};
    for (const json& key : schema.value("required", json::array())) {
      if (!value.contains(key.get<std::string>())) return at + ": lacks " + key.dump();
    }
    const json properties = schema.value("properties", json::object());
    const json others = schema.value("additionalProperties", json(true));
    for (const auto& [key, member] : value.items()) {
      const bool listed = properties.contains(key);
      if (!listed && others == json(false)) return at + ": has " + key;
      if (!listed && !others.is_object()) continue;
      const std::string wrong = check(member, listed ? properties[key] : others, at + "/" + key);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  const json& root_;
};

}  // namespace

std::string schema_violation(const json& value, const json& schema) {
  return Checker(schema).check(value, schema, "");
}

json schema_named(std::string_view name) {
  const auto schemas = embedded_schemas();
  return json::parse(std::ranges::find(schemas, name, &EmbeddedFile::name)->text);
}

}  // namespace fusecalc
