#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "sweep/definition.hpp"
#include "sweep/results.hpp"

namespace fusecalc {

// What the scripts of a page draw curves from: the figures of every plan at the points of a sweep.
// Where there are more points than a page can hold, every second, third ... value of its longest
// dims is left out, the last one never.
class CurveData {
 public:
  explicit CurveData(const SweepDefinition& sweep);

  // Points must come in their order.
  void add(const PointResult& point);

  // Whether there is a dim to draw along, and the page can hold enough of its points.
  bool drawable() const;
  // What is not drawn: "12 of 200 values of T"; empty if everything is.
  std::string drawn_in_words() const;
  std::string json() const;

 private:
  static constexpr std::size_t kFigures = 3;  // measured time, predicted time, bytes
  struct Plan {
    std::string name;
    std::array<std::string, kFigures> curves{};  // numbers or "-", separated by spaces
    std::array<bool, kFigures> known{};
  };

  void choose_steps();
  bool drawn(std::size_t axis, std::size_t value) const;
  std::size_t drawn_values(std::size_t axis) const;
  std::size_t drawn_points() const;
  Plan& plan_named(const std::string& name);

  const SweepDefinition& sweep_;
  std::vector<std::size_t> steps_;  // of each axis: each so-many-th value is drawn
  std::vector<Plan> plans_;
  std::string best_;  // of each point: the place of a plan, or "-"
  std::size_t points_ = 0;
};

}  // namespace fusecalc
