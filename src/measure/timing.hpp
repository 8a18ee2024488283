#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "measure/statistics.hpp"

namespace fusecalc {

// Times works in alternation, one run of each per turn, until the rule is satisfied for all of
// them: a device that warms up or reaches its power limit slows all of them alike, and what is
// timed first has no advantage. The rule's budget applies to each work. `turn` is called with the
// number of turns done. An interruption ends it; works that have not run until then have no time.
std::vector<std::optional<TimeSpread>> time_alternating(
    GpuBackend& gpu, std::span<const Work> works, const StoppingRule& rule,
    const std::function<void(std::size_t)>& turn = [](std::size_t) {});

}  // namespace fusecalc
