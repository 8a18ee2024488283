#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/format.hpp"
#include "report/cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
void write_csv(const Analysis& analysis, const Look& /*look*/, Output& output) {
  const Savings savings = analysis.savings();
  output.write("name,plan,unfused_bytes,fused_bytes,savings_bytes,savings_pct,speedup_estimate\n");
  output.write(fmt::format("{},{},{},{},{},{},{}\n", csv_field(analysis.name), analysis.plan,
                           savings.unfused_bytes, savings.fused_bytes, savings.bytes(),
                           shortest_decimal(savings.percent()),
                           analysis.operations > 0 ? shortest_decimal(savings.speedup()) : ""));
}

}  // namespace fusecalc
