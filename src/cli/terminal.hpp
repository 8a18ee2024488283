#pragma once

#include <optional>
#include <string>

#include "json/source.hpp"
#include "report/formats.hpp"

namespace fusecalc {

// The default name of a result, from the path of its document.
std::string name_of_document(const std::string& path);

// A file, - for standard input, or @name for an op list of the library.
ByteSource open_document(const std::string& document);

// What is printed where no format was asked for: a table on a terminal, else JSON.
std::string default_format();

// What a listing prints of one name is JSON, whose format cannot be chosen.
void refuse_format_of_one(const std::string& command, const std::optional<std::string>& format);

// Colour on a terminal, unless NO_COLOR is set or TERM is dumb.
Style style_of_standard_output(bool explain = false);

}  // namespace fusecalc
