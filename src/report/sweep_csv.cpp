#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/format.hpp"
#include "report/listing.hpp"
#include "report/writers.hpp"
#include "sweep/results.hpp"

namespace fusecalc {
namespace {

using Row = std::vector<std::string>;

std::string text_of(const JsonValue& value) {
  return std::visit(
      [](const auto& content) -> std::string {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, bool>) {
          return content ? "true" : "false";
        } else if constexpr (std::is_same_v<Content, double>) {
          return shortest_decimal(content);
        } else if constexpr (std::is_integral_v<Content>) {
          return std::to_string(content);
        } else if constexpr (std::is_same_v<Content, std::string>) {
          return content;
        } else {
          return "";  // null
        }
      },
      value.content);
}

// Calls `visit` for every number, text and flag of a value: "auto_predicted_time_us".
template <typename Visit>
void visit_figures(const std::string& name, const JsonValue& value, const Visit& visit) {
  const std::string prefix = name.empty() ? "" : name + "_";
  if (const JsonValue::Object* members = value.object()) {
    for (const auto& [key, member] : *members) visit_figures(prefix + key, member, visit);
  } else if (const auto* elements = std::get_if<JsonValue::Array>(&value.content)) {
    for (std::size_t i = 0; i < elements->size(); ++i) {
      visit_figures(prefix + std::to_string(i), (*elements)[i], visit);
    }
  } else {
    visit(name, value);
  }
}

// The figures of a point that have no column of their own.
template <typename Visit>
void visit_figures(const PointResult& point, const Visit& visit) {
  const JsonValue::Object* members = point.figures.object();
  if (members == nullptr) return;
  for (const auto& [key, value] : *members) {
    if (key == "name" || key == "dims" || key == "device") continue;
    visit_figures(key == "plans" ? "" : key, value, visit);
  }
}

void write_row(Output& output, const Row& row) {
  std::string line;
  for (std::size_t i = 0; i < row.size(); ++i) line += (i > 0 ? "," : "") + csv_field(row[i]);
  output.write(line + "\n");
}

}  // namespace

// One row per point. The results are read twice: which columns there are is known at the end.
SweepSummary write_csv(const SweepFolder& folder, const Style& /*style*/, Output& output) {
  const SweepDefinition& sweep = folder.definition();
  Row columns = {"name", "device"};
  for (const SweepAxis& axis : sweep.axes) columns.push_back(axis.name);
  columns.insert(columns.end(), {"error", "best", "best_by"});
  const std::size_t first_figure = columns.size();
  std::unordered_map<std::string, std::size_t> places;
  read_sweep(folder, [&](const PointResult& point) {
    visit_figures(point, [&](const std::string& name, const JsonValue&) {
      if (places.emplace(name, columns.size()).second) columns.push_back(name);
    });
  });
  write_row(output, columns);
  return read_sweep(folder, [&](const PointResult& point) {
    Row row = {point.name, point.device};
    for (const DimOverride& dim : sweep.point(point.index).dims) {
      row.push_back(std::to_string(dim.extent));
    }
    row.push_back(point.state == PointState::kMissing ? "missing" : point.error);
    row.push_back(point.best);
    row.emplace_back(point.best.empty() ? "" : name_of(point.ranking));
    row.resize(columns.size());
    visit_figures(point, [&](const std::string& name, const JsonValue& value) {
      const auto place = places.find(name);  // none: the result changed since
      if (place != places.end() && place->second >= first_figure) {
        row[place->second] = text_of(value);
      }
    });
    write_row(output, row);
  });
}

}  // namespace fusecalc
