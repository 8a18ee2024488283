#pragma once

#include <string>

#include "report/formats.hpp"

namespace fusecalc {

// What a result is called where its document does not say.
std::string name_of_document(const std::string& path);

// Colour on a terminal, unless NO_COLOR or a dumb one forbids it.
Look look_of_standard_output();

}  // namespace fusecalc
