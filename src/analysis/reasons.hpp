// What an analysis found, in words.
#pragma once

#include <string>

#include "analysis/analysis.hpp"

namespace fusecalc {

// Why our runner cannot launch the kernel; for one that it cannot.
std::string reason_of(const GraphAnalysis& analysis, const KernelAnalysis& kernel);

// Why the two kernels are not fused.
std::string reason_of(const GraphAnalysis& analysis, const Boundary& boundary);
// The same with the kinds of the two ops that the obstacle is between: "linear -> linear: ...".
std::string full_reason_of(const GraphAnalysis& analysis, const Boundary& boundary);

}  // namespace fusecalc
