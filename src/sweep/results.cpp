#include "sweep/results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"

namespace fusecalc {
namespace {

// The lower bound is no plan that could run.
constexpr std::string_view kBound = "limit";

bool is_kept(std::string_view key) {
  static constexpr std::array<std::string_view, 6> kDropped = {"schema",  "source", "inputs",
                                                               "kernels", "notes",  "boundary"};
  return std::ranges::find(kDropped, key) == kDropped.end();
}

std::optional<double> number_of(const JsonValue* value) {
  if (value == nullptr) return std::nullopt;
  if (const std::uint64_t* count = value->count()) return static_cast<double>(*count);
  if (const double* number = std::get_if<double>(&value->content)) return *number;
  return std::nullopt;
}

// The member of a member, or null.
const JsonValue* find(const JsonValue& value, std::string_view first, std::string_view second) {
  const JsonValue* member = value.find(first);
  return member == nullptr ? nullptr : member->find(second);
}

std::optional<double> median_of(const JsonValue& plan, std::string_view key) {
  const JsonValue* time = find(plan, key, "time_us");
  return time == nullptr ? std::nullopt : number_of(time->find("median"));
}

PlanOfPoint plan_of(const std::string& name, const JsonValue& plan) {
  PlanOfPoint read{.name = name,
                   .bytes = number_of(plan.find("total")),
                   .predicted_us = number_of(find(plan, "predicted", "time_us")),
                   .measured_us = median_of(plan, "measured_pipeline")};
  if (!read.measured_us) read.measured_us = median_of(plan, "measured");
  return read;
}

// Among equals the first: unfused before compiler before auto.
void choose_best(PointResult& point) {
  struct Row {
    Ranking ranking;
    std::optional<double> PlanOfPoint::*figure;
    std::ptrdiff_t least;  // plans that must have it
  };
  static constexpr std::array kRows = {
      Row{Ranking::kMeasuredTime, &PlanOfPoint::measured_us, 2},
      Row{Ranking::kPredictedTime, &PlanOfPoint::predicted_us, 2},
      Row{Ranking::kBytes, &PlanOfPoint::bytes, 1},
  };
  for (const Row& row : kRows) {
    const auto has = [&](const PlanOfPoint& plan) {
      return plan.name != kBound && (plan.*row.figure).has_value();
    };
    if (std::ranges::count_if(point.plans, has) < row.least) continue;
    point.as_good = plans_with_least(point.plans, row.figure);
    point.best = point.as_good.front();
    point.ranking = row.ranking;
    return;
  }
}

// A list of sizes has its figures at the top.
void add_plans(PointResult& point) {
  const JsonValue* plans = point.figures.find("plans");
  if (plans != nullptr && plans->object() != nullptr) {
    for (const auto& [name, plan] : *plans->object()) point.plans.push_back(plan_of(name, plan));
    return;
  }
  for (const auto& [name, key] :
       {std::pair("unfused", "unfused_bytes"), {"fused", "fused_bytes"}}) {
    point.plans.push_back({.name = name,
                           .bytes = number_of(point.figures.find(key)),
                           .predicted_us = {},
                           .measured_us = {}});
  }
}

// The figures that a point's file holds. Throws Error, which says what to do, if it is damaged.
JsonValue read_figures(const SweepFolder& folder, std::size_t index) {
  const std::string file = folder.result_file(index);
  try {
    JsonReader reader(ByteSource::open(file));
    JsonValue figures = read_value(reader, is_kept);
    reader.expect_end();
    return figures;
  } catch (const Error& error) {
    throw Error(error.fault(), fmt::format("{}; delete the file and run the sweep again, which "
                                           "makes this point alone",
                                           error.what()));
  }
}

PointResult read_point(const SweepFolder& folder, std::size_t index) {
  const SweepDefinition& definition = folder.definition();
  const SweepPoint at = definition.point(index);
  PointResult point{.index = index, .state = folder.state(index)};
  if (point.state == PointState::kFailed) point.error = folder.failure(index);
  if (point.state == PointState::kDone) {
    try {
      point.figures = read_figures(folder, index);
    } catch (const Error& error) {
      point.state = PointState::kFailed;
      point.error = error.what();
    }
  }
  if (point.state == PointState::kDone) {
    const auto text_of = [](const JsonValue* value) {
      return value != nullptr && value->text() != nullptr ? *value->text() : std::string();
    };
    point.name = text_of(point.figures.find("name"));
    point.device = text_of(find(point.figures, "device", "name"));
    // A list of sizes has the same bytes on every device, and is still a point of each.
    if (point.device.empty() && definition.devices.size() > 1) {
      point.device = definition.devices[at.device];
    }
    if (const JsonValue* dims = point.figures.find("dims")) point.dims = *dims;
    add_plans(point);
    choose_best(point);
    return point;
  }
  point.name = definition.documents[at.document].name;
  if (!definition.measured) point.device = definition.devices[at.device];
  JsonValue::Object dims;
  for (const DimOverride& dim : at.dims) dims.emplace_back(dim.name, JsonValue{dim.extent});
  point.dims = JsonValue{std::move(dims)};
  return point;
}

// Which plan is best at every point, in few bytes, so that crossovers along every axis are found
// without the results.
class BestPlans {
 public:
  explicit BestPlans(const SweepDefinition& definition)
      : definition_(definition), of_(definition.size(), kNone), as_good_(definition.size(), 0) {}

  void add(const PointResult& point) {
    if (point.best.empty()) return;
    const std::pair key(point.best, point.ranking);
    const auto found = std::ranges::find(known_, key);
    of_[point.index] = static_cast<std::uint8_t>(found - known_.begin());
    if (found == known_.end()) known_.push_back(key);
    for (const std::string& plan : point.as_good) as_good_[point.index] |= bit_of(plan);
  }

  std::vector<Crossover> crossovers() const {
    std::vector<Crossover> found;
    std::size_t stride = of_.size() / definition_.documents.size() / definition_.devices.size();
    for (std::size_t axis = 0; axis < definition_.axes.size(); ++axis) {
      const std::size_t values = definition_.axes[axis].values.size();
      stride /= values;
      for (std::size_t first = 0; first < of_.size(); ++first) {
        if (first / stride % values == 0) follow(axis, first, stride, found);
      }
    }
    return found;
  }

 private:
  static constexpr std::uint8_t kNone = 255;

  // Along an axis, in the order of its values; points without a result are passed over.
  void follow(std::size_t axis, std::size_t first, std::size_t stride,
              std::vector<Crossover>& found) const {
    std::uint8_t before = kNone;
    for (std::size_t i = 0; i < definition_.axes[axis].values.size(); ++i) {
      const std::size_t point = first + i * stride;
      const std::uint8_t now = of_[point];
      if (now == kNone) continue;
      if (before != kNone && known_[now].first != known_[before].first) {
        if ((as_good_[point] & bits_.at(known_[before].first)) != 0) continue;
        found.push_back({.point = point,
                         .axis = axis,
                         .from = known_[before].first,
                         .to = known_[now].first,
                         .ranking = known_[now].second});
      }
      before = now;
    }
  }

  // Of a few plans: a result has no more than seven.
  std::uint32_t bit_of(const std::string& plan) {
    const std::size_t place = bits_.size();
    return bits_.try_emplace(plan, place < 32 ? std::uint32_t{1} << place : 0).first->second;
  }

  const SweepDefinition& definition_;
  std::vector<std::pair<std::string, Ranking>> known_;
  std::vector<std::uint8_t> of_;  // the place in known_
  std::map<std::string, std::uint32_t> bits_;
  std::vector<std::uint32_t> as_good_;  // the bits of the plans that are as good as the best
};

}  // namespace

std::string_view name_of(Ranking ranking) {
  static constexpr std::array<std::string_view, 3> kNames = {"measured time", "predicted time",
                                                             "bytes"};
  return kNames[static_cast<std::size_t>(ranking)];
}

// In the order of the plans: unfused before compiler before auto.
std::vector<std::string> plans_with_least(const std::vector<PlanOfPoint>& plans,
                                          std::optional<double> PlanOfPoint::*figure) {
  std::vector<std::string> least;
  double value = 0;
  for (const PlanOfPoint& plan : plans) {
    if (plan.name == kBound || !(plan.*figure)) continue;
    if (least.empty() || *(plan.*figure) < value) {
      least.clear();
      value = *(plan.*figure);
    }
    if (*(plan.*figure) <= value) least.push_back(plan.name);
  }
  return least;
}

SweepSummary read_sweep(const SweepFolder& folder,
                        const std::function<void(const PointResult&)>& visit) {
  SweepSummary summary;
  BestPlans best(folder.definition());
  for (std::size_t i = 0; i < folder.definition().size(); ++i) {
    const PointResult point = read_point(folder, i);
    switch (point.state) {
      case PointState::kDone: ++summary.done; break;
      case PointState::kFailed: ++summary.failed; break;
      case PointState::kMissing: ++summary.missing; break;
    }
    if (point.state == PointState::kFailed && !summary.first_failed) {
      summary.first_failed = i;
      summary.first_error = point.error;
    }
    if (!point.best.empty()) ++summary.best[point.best];
    best.add(point);
    visit(point);
  }
  summary.crossovers = best.crossovers();
  return summary;
}

}  // namespace fusecalc
