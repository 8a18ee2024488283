#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/format.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

// RFC 4180: quoted where it must be.
std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

}  // namespace

void write_csv(const Analysis& analysis, const Look& /*look*/, Output& output) {
  const Savings savings = analysis.savings();
  output.write("name,plan,unfused_bytes,fused_bytes,savings_bytes,savings_pct,speedup_estimate\n");
  output.write(fmt::format("{},{},{},{},{},{},{}\n", csv_field(analysis.name), analysis.plan,
                           savings.unfused_bytes, savings.fused_bytes, savings.bytes(),
                           shortest_decimal(savings.percent()),
                           analysis.operations > 0 ? shortest_decimal(savings.speedup()) : ""));
}

}  // namespace fusecalc
