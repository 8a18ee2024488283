#include "report/cells.hpp"

#include <fmt/format.h>

namespace fusecalc {

std::string coloured(std::string_view text, std::string_view code, const Style& style) {
  return style.colour && !code.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text)
                                       : std::string(text);
}

std::string signed_percent(const std::optional<double>& percent) {
  return percent ? fmt::format("{:+.2f} %", *percent) : "";
}

std::string human_seconds(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

}  // namespace fusecalc
