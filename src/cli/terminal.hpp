#pragma once

#include <string>

#include "json/source.hpp"
#include "report/formats.hpp"

namespace fusecalc {

// The default name of a result, from the path of its document.
std::string name_of_document(const std::string& path);

// A file, - for standard input, or @name for an op list of the library.
ByteSource open_document(const std::string& document);

// Colour on a terminal, unless NO_COLOR is set or TERM is dumb.
Style style_of_standard_output(bool explain = false);

}  // namespace fusecalc
