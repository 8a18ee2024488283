#include "cli/commands.hpp"
#include "core/output.hpp"

namespace fusecalc {

void run(const ShowText& options) {
  Output output = Output::standard();
  output.write(options.text);
  output.finish();
}

}  // namespace fusecalc
