#include "codegen/code_block.hpp"

#include <fmt/format.h>

namespace fusecalc {

CodeBlock block_of(unsigned width) { return {.width = width, .width_text = std::to_string(width)}; }

std::string CodeBlock::text(std::string_view indent) const {
  std::string result;
  const auto add = [&](const std::string& lines, std::string_view more) {
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin);
      result += fmt::format("{}{}{}\n", indent, more, lines.substr(begin, end - begin));
      begin = end + 1;
    }
  };
  add(before, "");
  if (!lanes.empty()) {
    result +=
        fmt::format("#pragma unroll\n{}for (int j = 0; j < {}; ++j) {{\n", indent, width_text);
    add(lanes, "  ");
    result += fmt::format("{}}}\n", indent);
  }
  add(after, "");
  return result;
}

}  // namespace fusecalc
