#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sweep/definition.hpp"
#include "sweep/results.hpp"

namespace fusecalc {

// "D = 8, h200: from T = 4096 on, auto moves the fewest bytes (before: unfused)".
std::string crossover_in_words(const SweepDefinition& sweep, const Crossover& crossover);

// "1,000 points, 2 failed, 1 missing".
std::string points_in_words(const SweepDefinition& sweep, const SweepSummary& summary);

// The figures of a plan as text; empty where there are none.
std::string bytes_in_words(const PlanOfPoint& plan);
std::string time_in_words(const std::optional<double>& microseconds);

}  // namespace fusecalc
