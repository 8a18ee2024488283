#include "input/op_lines.hpp"

#include <fmt/format.h>

#include "json/reader.hpp"

namespace fusecalc {

std::unordered_map<std::string, std::uint64_t> op_lines(ByteSource source) {
  JsonReader reader(std::move(source));
  std::unordered_map<std::string, std::uint64_t> lines;
  const auto read_op = [&](std::size_t position) {
    const std::uint64_t line = reader.next_line();
    std::string name = fmt::format("op#{}", position);  // as build_graph names it
    reader.read_members([&](const std::string& key) {
      if (key == "name") {
        name = reader.read_string();
      } else {
        reader.skip_value();
      }
    });
    lines.emplace(std::move(name), line);
  };
  reader.read_members([&](const std::string& key) {
    if (key == "ops") {
      reader.read_array(read_op);
    } else {
      reader.skip_value();
    }
  });
  return lines;
}

}  // namespace fusecalc
