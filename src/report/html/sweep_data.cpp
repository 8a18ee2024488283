#include "report/html/sweep_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/ceil_div.hpp"
#include "core/format.hpp"
#include "core/output.hpp"
#include "core/text.hpp"
#include "json/writer.hpp"

namespace fusecalc {
namespace {

// About 1.2 MB of figures; style, scripts and tables fit into the rest of 2 MB.
constexpr std::size_t kMostPoints = 10'000;

using Layout = JsonWriter::Layout;

struct Figure {
  std::string_view words;
  std::string_view unit;
  std::optional<double> PlanOfPoint::*member;
};
constexpr std::array kFigureRows = {
    Figure{"measured time", "us", &PlanOfPoint::measured_us},
    Figure{"predicted time", "us", &PlanOfPoint::predicted_us},
    Figure{"bytes", "B", &PlanOfPoint::bytes},
};

// More digits cannot be seen.
std::string text_of(const std::optional<double>& number) {
  return number ? fmt::format("{:.5g}", *number) : "-";
}

void append(std::string& list, std::string_view text) {
  if (!list.empty()) list += ' ';
  list += text;
}

}  // namespace

CurveData::CurveData(const SweepDefinition& sweep) : sweep_(sweep), steps_(sweep.axes.size(), 1) {
  choose_steps();
}

void CurveData::choose_steps() {
  while (drawn_points() > kMostPoints) {
    std::size_t longest = 0;
    for (std::size_t axis = 1; axis < steps_.size(); ++axis) {
      if (drawn_values(axis) > drawn_values(longest)) longest = axis;
    }
    if (steps_.empty() || drawn_values(longest) <= 2) return;
    ++steps_[longest];
  }
}

bool CurveData::drawn(std::size_t axis, std::size_t value) const {
  return value % steps_[axis] == 0 || value + 1 == sweep_.axes[axis].values.size();
}

std::size_t CurveData::drawn_values(std::size_t axis) const {
  const std::size_t values = sweep_.axes[axis].values.size();
  return ceil_div(values, steps_[axis]) + ((values - 1) % steps_[axis] == 0 ? 0 : 1);
}

std::size_t CurveData::drawn_points() const {
  std::size_t points = sweep_.documents.size() * sweep_.devices.size();
  for (std::size_t axis = 0; axis < steps_.size(); ++axis) points *= drawn_values(axis);
  return points;
}

CurveData::Plan& CurveData::plan_named(const std::string& name) {
  const auto found = std::ranges::find(plans_, name, &Plan::name);
  if (found != plans_.end()) return *found;
  Plan& plan = plans_.emplace_back(Plan{.name = name});
  for (std::size_t i = 0; i < points_; ++i) {
    for (std::string& curve : plan.curves) append(curve, "-");
  }
  return plan;
}

void CurveData::add(const PointResult& point) {
  std::size_t rest = point.index;
  for (std::size_t axis = steps_.size(); axis-- > 0;) {
    const std::size_t values = sweep_.axes[axis].values.size();
    if (!drawn(axis, rest % values)) return;
    rest /= values;
  }
  for (const PlanOfPoint& plan : point.plans) plan_named(plan.name);
  for (Plan& plan : plans_) {
    const auto figures = std::ranges::find(point.plans, plan.name, &PlanOfPoint::name);
    for (std::size_t i = 0; i < kFigures; ++i) {
      const std::optional<double> figure =
          figures == point.plans.end() ? std::nullopt : (*figures).*kFigureRows[i].member;
      plan.known[i] = plan.known[i] || figure.has_value();
      append(plan.curves[i], text_of(figure));
    }
  }
  const auto best = std::ranges::find(plans_, point.best, &Plan::name);
  append(best_, best == plans_.end() ? "-" : std::to_string(best - plans_.begin()));
  ++points_;
}

bool CurveData::drawable() const {
  return !plans_.empty() && drawn_points() <= kMostPoints &&
         std::ranges::any_of(sweep_.axes,
                             [](const SweepAxis& axis) { return axis.values.size() > 1; });
}

std::string CurveData::drawn_in_words() const {
  std::string words;
  for (std::size_t axis = 0; axis < steps_.size(); ++axis) {
    if (steps_[axis] == 1) continue;
    words += fmt::format("{}{} of {} values of {}", words.empty() ? "" : ", ", drawn_values(axis),
                         grouped_digits(sweep_.axes[axis].values.size()), sweep_.axes[axis].name);
  }
  return words;
}

std::string CurveData::json() const {
  Output output = Output::memory();
  JsonWriter json(output);
  json.begin_object(Layout::kCompact);
  json.key("lists").begin_array();
  for (const SweepDocument& document : sweep_.documents) {
    json.value(printable(document.name, kNoLimit));
  }
  json.end().key("devices").begin_array();
  for (const std::string& device : sweep_.devices) json.value(printable(device, kNoLimit));
  json.end().key("dims").begin_array();
  for (std::size_t axis = 0; axis < steps_.size(); ++axis) {
    json.begin_object().member("name", printable(sweep_.axes[axis].name, kNoLimit));
    json.key("values").begin_array();
    for (std::size_t i = 0; i < sweep_.axes[axis].values.size(); ++i) {
      if (drawn(axis, i)) json.value(sweep_.axes[axis].values[i]);
    }
    json.end().end();
  }
  json.end().member("best", best_);
  json.key("plans").begin_array();
  for (const Plan& plan : plans_) json.value(printable(plan.name, kNoLimit));
  json.end().key("figures").begin_array();
  for (std::size_t i = 0; i < kFigures; ++i) {
    if (std::ranges::none_of(plans_, [&](const Plan& plan) { return plan.known[i]; })) continue;
    json.begin_object().member("name", kFigureRows[i].words).member("unit", kFigureRows[i].unit);
    json.key("curves").begin_array();
    for (const Plan& plan : plans_) {
      if (plan.known[i]) {
        json.value(plan.curves[i]);
      } else {
        json.null();
      }
    }
    json.end().end();
  }
  json.end().end();
  return output.take();
}

}  // namespace fusecalc
