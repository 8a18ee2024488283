#include "json/writer.hpp"
#include "report/writers.hpp"

namespace fusecalc {

void write_json(const Analysis& analysis, const Look& /*look*/, Output& output) {
  const Savings savings = analysis.savings();
  JsonWriter json(output);
  json.begin_object();
  json.member("schema", kAnalysisSchema);
  json.member("name", analysis.name);
  json.member("plan", analysis.plan);
  json.member("unfused_bytes", savings.unfused_bytes);
  json.member("fused_bytes", savings.fused_bytes);
  json.member("savings_bytes", savings.bytes());
  json.member("savings_pct", savings.percent());
  if (analysis.operations > 0) json.member("speedup_estimate", savings.speedup());
  json.end();
}

}  // namespace fusecalc
