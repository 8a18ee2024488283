#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"
#include "sweep/folder.hpp"

namespace fusecalc {

inline constexpr std::string_view kSweepSchema = "fusecalc.sweep/1";

// The figure that plans are ranked by: the first of these that at least two plans of a point have.
enum class Ranking : std::uint8_t { kMeasuredTime, kPredictedTime, kBytes };
std::string_view name_of(Ranking ranking);  // "measured time"

// A plan of a point, in the words of its result.
struct PlanOfPoint {
  std::string name;
  std::optional<double> bytes;
  std::optional<double> predicted_us;
  std::optional<double> measured_us;  // back to back, or kernel by kernel where that is missing
};

// A point as --collect finds it.
struct PointResult {
  std::size_t index = 0;
  PointState state = PointState::kMissing;
  std::string error{};  // of one that failed
  std::string name{};
  std::string device{};  // its name; empty for a list of sizes
  JsonValue dims{};      // all of its op list; those of the sweep if it is not done
  // The result without its schema, inputs, kernels and notes: every figure of every plan.
  JsonValue figures{};
  std::vector<PlanOfPoint> plans{};
  std::string best{};  // the plan with the least of `ranking`; empty if there are no plans
  std::vector<std::string> as_good{};  // every plan with as little of it, the best first
  Ranking ranking = Ranking::kBytes;
};

// Along one dim, with the values of all others fixed: from this value on another plan is best, and
// the one before is worse.
struct Crossover {
  std::size_t point = 0;  // the first with the new plan
  std::size_t axis = 0;
  std::string from;
  std::string to;
  Ranking ranking = Ranking::kBytes;
};

// The plans that have the least of a figure: the bound is none.
std::vector<std::string> plans_with_least(const std::vector<PlanOfPoint>& plans,
                                          std::optional<double> PlanOfPoint::*figure);

struct SweepSummary {
  std::size_t done = 0;
  std::size_t failed = 0;
  std::size_t missing = 0;
  std::optional<std::size_t> first_failed{};
  std::string first_error{};
  std::map<std::string, std::size_t> best{};  // by plan: how many points
  std::vector<Crossover> crossovers{};
};

// Reads the results of a sweep, one after the other in the order of its points, and gives them to
// `visit`; holds one at a time. A point whose file cannot be read is one that failed.
SweepSummary read_sweep(const SweepFolder& folder,
                        const std::function<void(const PointResult&)>& visit);

}  // namespace fusecalc
