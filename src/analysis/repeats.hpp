#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/analysis.hpp"

namespace fusecalc {

// Consecutive kernels that repeat, as the layers of a model do: `period` kernels from `first` on,
// `count` times. Kernels are alike if they hold the same kinds of ops, move the same bytes, and
// have the same names but for numbers.
struct Repeat {
  KernelId first = 0;
  std::uint32_t period = 1;
  std::uint32_t count = 1;

  // A kernel of the first repetition, later.
  KernelId at(std::uint32_t place, std::uint32_t repetition) const {
    return first + repetition * period + place;
  }
};

// Covers all kernels of the plan, in their order.
std::vector<Repeat> repeats_of(const OpGraph& graph, const PlanAnalysis& plan);

// A name with each number in it as "#".
std::string without_numbers(std::string_view name);

}  // namespace fusecalc
