#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/region.hpp"
#include "planner/search.hpp"

namespace fusecalc {

// A kernel that a region may be partitioned into.
struct LegalKernel {
  OpSet ops = 0;
  OpSet needs = 0;  // what must run before it
  std::uint64_t bytes = 0;
};

// All legal kernels of a region, those of one op among them; nothing where finding them takes more
// work than there is.
std::optional<std::vector<LegalKernel>> legal_kernels(TrafficCounter& counter, const Rules& rules,
                                                      const Region& region, std::size_t& work);

}  // namespace fusecalc
