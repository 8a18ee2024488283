#include <csignal>
#include <cstdio>
#include <new>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

int main(int argc, char** argv) {
  // A closed pipe and a file size limit then become ordinary error codes; Output treats the former
  // as a normal end.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    std::visit([](const auto& command) { fusecalc::run(command); },
               fusecalc::parse_command_line(argc, argv));
    return 0;
  } catch (const fusecalc::Error& error) {
    std::fprintf(stderr, "fusecalc: %s\n",
                 fusecalc::printable(error.what(), fusecalc::kNoLimit).c_str());
    return static_cast<int>(error.fault());
  } catch (const std::bad_alloc&) {
    std::fputs("fusecalc: out of memory\n", stderr);
    return static_cast<int>(fusecalc::Fault::kUnavailable);
  }
}
