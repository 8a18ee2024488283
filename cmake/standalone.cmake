# Targets with the property FUSECALC_STANDALONE need nothing of the system but its C library, which may
# be an old one, and libgcc_s: the wheel's (scripts/wheel). Their objects are those of the others; only
# what they are linked with differs. Debian has no static fmt, so one is made of its headers.
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

# fusecalc_bind_to_old_glibc(TARGET): see old_glibc.cpp, whose names are replaced.
function(fusecalc_bind_to_old_glibc target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR sanitized OR
     NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64)$")
    return()
  endif()
  set(source ${PROJECT_SOURCE_DIR}/cmake/old_glibc.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} names REGEX "^older |^older_status |__wrap_[a-z0-9_]+( = |\\()")
  list(TRANSFORM names REPLACE "^(older |older_status |.*__wrap_)([a-z0-9_]+).*" "-Wl,--wrap=\\2")
  target_sources(${target} PRIVATE ${source})
  set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY COMPILE_OPTIONS -ffunction-sections)
  # Where these are libraries of their own, they hold some of the functions.
  target_link_options(${target} PRIVATE ${names}
    LINKER:--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2 LINKER:--pop-state)
endfunction()

# fusecalc_link_standalone(TARGET NAME): links it so, as standalone/NAME. `cmake --install
# --component standalone` installs all such targets.
function(fusecalc_link_standalone target name)
  set(folder ${PROJECT_BINARY_DIR}/standalone)
  set_target_properties(${target} PROPERTIES
    FUSECALC_STANDALONE ON OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${folder} LIBRARY_OUTPUT_DIRECTORY ${folder})
  # Not -static-libgcc: exceptions of the module reach the program, so both need one unwinder.
  target_link_options(${target} PRIVATE -static-libstdc++ -Wl,--gc-sections)
  fusecalc_bind_to_old_glibc(${target})
endfunction()
