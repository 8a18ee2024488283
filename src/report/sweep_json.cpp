#include <string>
#include <string_view>

#include "json/value.hpp"
#include "json/writer.hpp"
#include "report/writers.hpp"
#include "sweep/results.hpp"

namespace fusecalc {
namespace {

using Layout = JsonWriter::Layout;

std::string_view name_of(PointState state) {
  switch (state) {
    case PointState::kDone: return "done";
    case PointState::kFailed: return "failed";
    case PointState::kMissing: break;
  }
  return "missing";
}

void write_device(JsonWriter& json, const PointResult& point) {
  if (point.device.empty()) return;
  json.key("device").begin_object().member("name", point.device).end();
}

void write_point(JsonWriter& json, const PointResult& point) {
  json.begin_object(Layout::kInline).member("state", name_of(point.state));
  if (point.state == PointState::kDone) {
    for (const auto& [key, value] : *point.figures.object()) write_value(json.key(key), value);
    if (point.figures.find("device") == nullptr) write_device(json, point);
    json.member("best", point.best).member("best_by", name_of(point.ranking));
  } else {
    json.member("name", point.name);
    write_device(json, point);
    write_value(json.key("dims"), point.dims);
    if (point.state == PointState::kFailed) json.member("error", point.error);
  }
  json.end();
}

void write_crossover(JsonWriter& json, const SweepDefinition& sweep, const Crossover& crossover) {
  const SweepPoint at = sweep.point(crossover.point);
  json.begin_object(Layout::kInline);
  json.member("name", sweep.documents[at.document].name);
  if (!sweep.measured) json.member("device", sweep.devices[at.device]);
  json.member("dim", at.dims[crossover.axis].name);
  json.member("at", at.dims[crossover.axis].extent);
  json.key("dims").begin_object();
  for (const DimOverride& dim : at.dims) json.member(dim.name, dim.extent);
  json.end();
  json.member("from", crossover.from).member("to", crossover.to);
  json.member("by", name_of(crossover.ranking)).end();
}

}  // namespace

SweepSummary write_json(const SweepFolder& folder, const Style& /*style*/, Output& output) {
  const SweepDefinition& sweep = folder.definition();
  JsonWriter json(output);
  json.begin_object();
  json.member("schema", kSweepSchema).member("measured", sweep.measured);
  json.key("swept").begin_object();
  for (const SweepAxis& axis : sweep.axes) {
    json.key(axis.name).begin_array(Layout::kInline);
    for (const std::uint64_t value : axis.values) json.value(value);
    json.end();
  }
  json.end();
  json.key("points").begin_array();
  const SweepSummary summary =
      read_sweep(folder, [&](const PointResult& point) { write_point(json, point); });
  json.end();
  json.key("counts").begin_object(Layout::kInline);
  json.member("done", std::uint64_t{summary.done}).member("failed", std::uint64_t{summary.failed});
  json.member("missing", std::uint64_t{summary.missing}).end();
  json.key("crossovers").begin_array();
  for (const Crossover& crossover : summary.crossovers) write_crossover(json, sweep, crossover);
  json.end().end();
  return summary;
}

}  // namespace fusecalc
