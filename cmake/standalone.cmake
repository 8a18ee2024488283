# Targets with the property FUSECALC_STANDALONE need nothing of the system but its C library: the
# wheel's (scripts/wheel). Their objects are those of the others; only what they are linked with
# differs. Debian has no static fmt, so one is made of its headers.
set(standalone $<BOOL:$<TARGET_PROPERTY:FUSECALC_STANDALONE>>)
find_library(FUSECALC_ZLIB_A libz.a)
mark_as_advanced(FUSECALC_ZLIB_A)
set(static_zlib $<IF:$<BOOL:${FUSECALC_ZLIB_A}>,${FUSECALC_ZLIB_A},ZLIB::ZLIB>)

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/fmt.cpp CONTENT
     "#include <fmt/format.h>\n#include <fmt/ranges.h>\n")
add_library(fusecalc_fmt STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/generated/fmt.cpp)
target_link_libraries(fusecalc_fmt PRIVATE fmt::fmt-header-only)
target_compile_options(fusecalc_fmt PRIVATE
  $<$<CXX_COMPILER_ID:GNU>:-fkeep-inline-functions> -ffunction-sections)
set_target_properties(fusecalc_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)

# fusecalc_link_standalone(TARGET NAME): links it so, as standalone/NAME. `cmake --install
# --component standalone` installs all such targets.
function(fusecalc_link_standalone target name)
  set(folder ${PROJECT_BINARY_DIR}/standalone)
  set_target_properties(${target} PROPERTIES
    FUSECALC_STANDALONE ON OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${folder} LIBRARY_OUTPUT_DIRECTORY ${folder})
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
endfunction()
