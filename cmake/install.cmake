# The contents of `cmake --install` and the packages: a relocatable tree. The GPU
# module's own rules are in gpu.cmake.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # fusecalc_written is all that is installed, and no test
# Two programs of one name: the packages' (component dynamic) and the wheel's (component standalone).
install(TARGETS fusecalc RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT dynamic)
install(TARGETS fusecalc_standalone
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT standalone EXCLUDE_FROM_ALL)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(DIRECTORY specs/oplists specs/devices specs/schema DESTINATION ${CMAKE_INSTALL_DATADIR}/fusecalc/specs)

# The program writes its own completions and manual page.
set(written ${PROJECT_BINARY_DIR}/written)
set(shells bash zsh fish)
set(completions ${shells})
list(TRANSFORM completions PREPEND ${written}/completion.)
foreach(shell IN LISTS shells)
  add_custom_command(OUTPUT ${written}/completion.${shell} COMMAND ${CMAKE_COMMAND} -E make_directory ${written}
    COMMAND fusecalc completion ${shell} > ${written}/completion.${shell} DEPENDS fusecalc VERBATIM)
endforeach()
add_custom_command(OUTPUT ${written}/fusecalc.1 COMMAND ${CMAKE_COMMAND} -E make_directory ${written}
  COMMAND fusecalc manual > ${written}/fusecalc.1 DEPENDS fusecalc VERBATIM)
add_custom_target(fusecalc_written ALL DEPENDS ${completions} ${written}/fusecalc.1)

install(FILES ${written}/completion.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME fusecalc)
install(FILES ${written}/completion.zsh
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _fusecalc)
install(FILES ${written}/completion.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME fusecalc.fish)
install(FILES ${written}/fusecalc.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME fusecalc)
set(CPACK_PACKAGE_CONTACT "the fusecalc authors <fusecalc@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "memory traffic that fusing GPU operations saves")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"fusecalc counts the bytes that a list of GPU operations moves, unfused and
fused, and predicts their DRAM traffic and time without a GPU. On an NVIDIA
GPU it generates matching kernels, runs them, and reads the DRAM counters.
.
It also profiles unmodified CUDA programs, sweeps over sizes and devices,
reads models of PyTorch and ONNX, and compares results in CI.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Libraries of a toolkit given to the build belong to no Debian package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${FUSECALC_CUDA_FOLDERS})
include(CPack)
