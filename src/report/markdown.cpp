#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/format.hpp"
#include "report/cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

void write_row(Output& output, std::string_view plan, const Bytes& bytes) {
  output.write(fmt::format("| {} | {} | {} | {} |\n", plan, human_bytes(bytes.read),
                           human_bytes(bytes.write), human_bytes(bytes.total())));
}

}  // namespace

void write_markdown(const Analysis& analysis, const Look& /*look*/, Output& output) {
  const Savings savings = analysis.savings();
  output.write(fmt::format("### {}\n\n", markdown_text(analysis.name)));
  output.write("| plan | read | written | total |\n|---|---:|---:|---:|\n");
  write_row(output, "unfused", analysis.unfused);
  write_row(output, "fused", analysis.fused);
  if (analysis.operations == 0) {
    output.write("\nNo operations.\n");
    return;
  }
  output.write(fmt::format("\nFusion saves **{} %** of the traffic; estimated speedup **{}x**.\n",
                           shortest_decimal(savings.percent()),
                           shortest_decimal(savings.speedup())));
}

}  // namespace fusecalc
