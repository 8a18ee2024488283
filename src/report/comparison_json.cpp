#include <cmath>

#include "json/writer.hpp"
#include "report/comparison_cells.hpp"
#include "report/writers.hpp"

namespace fusecalc {
namespace {

using Layout = JsonWriter::Layout;

void write_value(JsonWriter& json, std::string_view key, Unit unit,
                 const std::optional<std::int64_t>& value) {
  if (!value) {
    json.key(key).null();
  } else if (unit == Unit::kPicoseconds) {
    json.member(key, static_cast<double>(*value) / kPicosecondsInMicrosecond);
  } else {
    json.member(key, *value);
  }
}

void write_finding(JsonWriter& json, const Finding& finding) {
  constexpr std::string_view kUnits[] = {"", "bytes", "us"};
  const FigureRow& figure = row_of(finding.figure);
  json.begin_object(Layout::kInline);
  json.member("spec", finding.spec);
  json.member("plan", finding.plan);
  json.member("kernel", finding.kernel);
  json.member("change", name_of(finding.change));
  json.member("figure", figure.name);
  json.member("unit", kUnits[static_cast<std::size_t>(figure.unit)]);
  write_value(json, "before", figure.unit, as_signed(finding.before));
  write_value(json, "after", figure.unit, as_signed(finding.after));
  write_value(json, "delta", figure.unit, finding.delta());
  if (const std::optional<double> share = finding.share()) {
    json.member("share_pct", std::round(*share * 1e6) / 1e6);
  } else {
    json.key("share_pct").null();
  }
  json.member("verdict", name_of(finding.judgement));
  json.member("failed", finding.failed);
  json.member("note", finding.note);
  json.end();
}

void write_tolerances(JsonWriter& json, const Tolerances& tolerances) {
  json.key("tolerances").begin_array();
  for (const ToleranceRule& rule : tolerances.rules()) {
    json.begin_object(Layout::kInline);
    json.member("spec", rule.spec);
    json.member("plan", rule.plan);
    json.member("kernel", rule.kernel);
    for (std::size_t i = 0; i < kQuantities; ++i) {
      const auto quantity = static_cast<Quantity>(i);
      if (rule.tolerances[i]) {
        json.member(name_of(quantity), to_string(quantity, *rule.tolerances[i]));
      }
    }
    json.end();
  }
  json.end();
}

}  // namespace

void write_json(const Comparison& comparison, const Style& /*style*/, Output& output) {
  JsonWriter json(output);
  json.begin_object();
  json.member("schema", kComparisonSchema);
  json.member("base", comparison.base);
  json.member("new", comparison.fresh);
  json.member("verdict", comparison.failed() ? "fail" : "pass");
  json.member("strict", comparison.strict);
  json.member("allow_missing", comparison.allow_missing);
  write_tolerances(json, comparison.tolerances);
  const auto write_counts = [&](std::string_view key, auto count) {
    json.key(key).begin_object(Layout::kInline);
    for (std::size_t i = 0; i < judgement_names().size(); ++i) {
      json.member(judgement_names()[i],
                  std::uint64_t{(comparison.*count)(static_cast<Judgement>(i))});
    }
    json.end();
  };
  write_counts("counts", &Comparison::count);
  write_counts("failed_counts", &Comparison::count_failed);
  json.key("specs").begin_array(Layout::kInline);
  for (const std::string& spec : comparison.specs) json.value(spec);
  json.end();
  json.key("findings").begin_array();
  for (const Finding& finding : comparison.findings) write_finding(json, finding);
  json.end();
  json.key("notes").begin_array();
  for (const std::string& note : comparison.notes) json.value(note);
  json.end();
  json.end();
}

}  // namespace fusecalc
