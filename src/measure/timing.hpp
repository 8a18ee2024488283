#pragma once

#include "measure/backend.hpp"
#include "measure/statistics.hpp"

namespace fusecalc {

// Warms the work up and times it until the rule is content.
TimeSpread time_work(GpuBackend& gpu, const Work& work, const StoppingRule& rule);

}  // namespace fusecalc
