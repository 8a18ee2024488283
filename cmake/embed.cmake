# Generates a C++ source that embeds files as text:
#   cmake -DOUTPUT=... -DFUNCTION=... -DFILES="a;b" -P embed.cmake
# A raw string literal holds at most 64 KiB in some compilers, so each file is cut into pieces.
set(pieces "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  string(REGEX REPLACE "\\..*$" "" name "${name}")
  file(READ "${file}" text)
  string(LENGTH "${text}" length)
  set(literals "")
  set(start 0)
  while(start LESS length)
    string(SUBSTRING "${text}" ${start} 8000 piece)
    string(APPEND literals "\n     R\"~~~(${piece})~~~\"")
    math(EXPR start "${start} + 8000")
  endwhile()
  # With its length, which compilers would count else, as a constant, and up to a limit.
  string(APPEND pieces "    {\"${name}\", ${literals}sv},\n")
endforeach()
file(WRITE "${OUTPUT}.new"
"#include \"core/embedded.hpp\"

namespace fusecalc {

using namespace std::string_view_literals;

std::span<const EmbeddedFile> ${FUNCTION}() {
  static constexpr EmbeddedFile kFiles[] = {
${pieces}};
  return kFiles;
}

}  // namespace fusecalc
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
