#pragma once

#include <functional>
#include <string>

#include "graph/attributes.hpp"
#include "graph/written_graph.hpp"

namespace fusecalc {

// What reading an attribute's value needs from the document.
struct AttributeScope {
  // The value of a dim's name; throws where there is none.
  std::function<std::int64_t(const std::string&)> dim;
  // Throws an Error at the attribute.
  std::function<void(const std::string&)> fail;
};

// "unknown dtype "x"", with the nearest one or all of them.
std::string unknown_dtype(const std::string& name);

// Stores `written` as `attribute`, refusing a value of the wrong kind.
void set_attribute(Attributes& attributes, Attribute attribute, const WrittenValue& written,
                   const AttributeScope& scope);

}  // namespace fusecalc
