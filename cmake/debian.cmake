# CPack runs this on the staged tree of the Debian package: policy wants compressed manual pages and
# changelogs, and one changelog in Debian's own format.
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
set(doc ${share}/doc/${CPACK_PACKAGE_NAME})
set(ENV{LC_ALL} C)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH where that is set
file(WRITE ${doc}/changelog.Debian
"${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION}; changelog.gz lists the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
execute_process(
  COMMAND gzip -9n ${share}/man/man1/fusecalc.1 ${doc}/changelog ${doc}/changelog.Debian
  COMMAND_ERROR_IS_FATAL ANY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lintian-overrides ${share}/lintian/overrides/fusecalc COPYONLY)
