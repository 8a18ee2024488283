#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fusecalc {

// Where `value` breaks `schema`, as "/pointer: what"; empty where it does not. Knows the keywords
// that specs/schema uses, and refuses a schema with others.
std::string schema_violation(const nlohmann::json& value, const nlohmann::json& schema);

// A schema of specs/schema: "measurement".
nlohmann::json schema_named(std::string_view name);

}  // namespace fusecalc
