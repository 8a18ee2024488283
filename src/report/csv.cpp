#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/format.hpp"
#include "report/listing.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

void write_row(Output& output, const Analysis& analysis, std::string_view plan,
               const Savings& savings) {
  output.write(fmt::format("{},{},{},{},{},{},{}\n", csv_field(analysis.name), plan,
                           savings.unfused_bytes, savings.fused_bytes, savings.bytes(),
                           shortest_decimal(savings.percent()),
                           analysis.lists_nothing() ? "" : shortest_decimal(savings.speedup())));
}

constexpr std::string_view kHead =
    "name,plan,unfused_bytes,fused_bytes,savings_bytes,savings_pct,speedup_estimate\n";

// One row per plan, each against the unfused one; the headline's comes first.
void write_rows(const Analysis& analysis, Output& output) {
  write_row(output, analysis, name_of(analysis.plan), analysis.savings());
  if (!analysis.graph) return;
  for (const PlanAnalysis& plan : analysis.graph->plans) {
    if (plan.kind == analysis.plan) continue;
    write_row(output, analysis, name_of(plan.kind), {analysis.unfused.total(), plan.bytes.total()});
  }
}

}  // namespace

void write_csv(const Analysis& analysis, const Style& /*style*/, Output& output) {
  output.write(kHead);
  write_rows(analysis, output);
}

void write_csv(std::span<const Analysis> analyses, const Style& /*style*/, Output& output) {
  output.write(kHead);
  for (const Analysis& analysis : analyses) write_rows(analysis, output);
}

}  // namespace fusecalc
