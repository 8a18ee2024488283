#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "core/format.hpp"
#include "core/ratio.hpp"
#include "core/text.hpp"
#include "report/cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

constexpr int kBarCells = 30;

// A bar of `share` of the full width, to an eighth of a cell; never empty for a share above 0.
std::string bar(double share) {
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  auto eighths = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBarCells * 8));
  if (share > 0) eighths = std::max<std::size_t>(eighths, 1);
  std::string text;
  for (std::size_t i = 0; i < eighths / 8; ++i) text += "█";
  text += kEighths[eighths % 8];
  return text;
}

void write_row(Output& output, std::string_view plan, const Bytes& bytes, std::uint64_t most,
               std::string_view code, const Look& look) {
  const double share = most == 0 ? 0.0 : exact_ratio(bytes.total(), most);
  output.write(fmt::format("  {:<8}{:>12}{:>12}{:>12}  {}\n", plan, human_bytes(bytes.read),
                           human_bytes(bytes.write), human_bytes(bytes.total()),
                           coloured(bar(share), code, look)));
}

}  // namespace

void write_table(const Analysis& analysis, const Look& look, Output& output) {
  const Savings savings = analysis.savings();
  output.write(fmt::format("{}: {} operation{}, {} byte{} an element\n\n",
                           coloured(printable(analysis.name), "1", look),
                           grouped_digits(analysis.operations), analysis.operations == 1 ? "" : "s",
                           analysis.dtype_bytes, analysis.dtype_bytes == 1 ? "" : "s"));
  const std::uint64_t most = std::max(savings.unfused_bytes, savings.fused_bytes);
  output.write(fmt::format("  {:<8}{:>12}{:>12}{:>12}\n", "", "read", "written", "total"));
  write_row(output, "unfused", analysis.unfused, most, "33", look);
  write_row(output, "fused", analysis.fused, most, "32", look);
  if (analysis.operations == 0) return;
  output.write(
      fmt::format("\n  fusion saves {} ({} %), estimated speedup {}x\n",
                  coloured(human_bytes(savings.unfused_bytes - savings.fused_bytes), "1", look),
                  shortest_decimal(savings.percent()),
                  coloured(shortest_decimal(savings.speedup()), "1", look)));
}

}  // namespace fusecalc
