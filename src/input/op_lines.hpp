#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "json/source.hpp"

namespace fusecalc {

// The line of each op of an op list in the graph form, by the op's name. Throws Error if the
// document is no JSON object.
std::unordered_map<std::string, std::uint64_t> op_lines(ByteSource source);

}  // namespace fusecalc
