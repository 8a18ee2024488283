#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace {

// A descriptor of standard input or output that is closed would be given to the next file that is
// opened, which would then receive what is meant for another. This one can be neither read nor
// written.
void occupy_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) ::open("/", O_PATH);
  }
}

// glibc sets freed small blocks aside until a large one is freed, and then joins them all to their
// neighbours: on graphs of many ops that takes a tenth of the time. Joined at once, they take less.
void join_freed_blocks_at_once() {
#ifdef M_MXFAST
  ::mallopt(M_MXFAST, 0);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_descriptors();
  join_freed_blocks_at_once();
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
