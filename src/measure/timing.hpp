#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "measure/statistics.hpp"

namespace fusecalc {

// Times works by turns, one run of each after the other, until the rule is content with every one
// of them: a device that grows warm or meets its power limit slows them all alike, and what was
// timed first has no advantage. The rule's budget is one work's. `turn` hears how many turns are
// done. An interruption ends it; what has not run until then has no time.
std::vector<std::optional<TimeSpread>> time_by_turns(
    GpuBackend& gpu, std::span<const Work> works, const StoppingRule& rule,
    const std::function<void(std::size_t)>& turn = [](std::size_t) {});

}  // namespace fusecalc
