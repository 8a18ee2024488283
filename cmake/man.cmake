# Generates the manual page from the program's own help:
#   cmake -DPROGRAM=... -DVERSION=... -DOUTPUT=... -P man.cmake
function(help_of variable)
  execute_process(COMMAND ${PROGRAM} ${ARGN} --help OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  # roff reads a backslash, and a dot or a quote at the start of a line.
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

help_of(help)
string(REGEX MATCH "Subcommands:\n(.*)\nExamples:" list "${help}")
string(REGEX MATCHALL "\n  [a-z]+ " commands "\n${CMAKE_MATCH_1}")
set(page ".TH FUSECALC 1 \"\" \"fusecalc ${VERSION}\" \"User Commands\"
.SH NAME
fusecalc \\- the memory traffic that fusing GPU operations saves
.SH SYNOPSIS
.B fusecalc
.I COMMAND
[\\fIOPTIONS\\fR]
.SH DESCRIPTION
.nf
${help}.fi
.SH COMMANDS
")
foreach(command IN LISTS commands)
  string(STRIP "${command}" command)
  help_of(help ${command})
  string(APPEND page ".SS fusecalc ${command}\n.nf\n${help}.fi\n")
endforeach()
file(WRITE ${OUTPUT} "${page}")
