// What an analysis found, in terms of the document and in words.
#pragma once

#include <string>

#include "analysis/analysis.hpp"
#include "graph/recompute.hpp"

namespace fusecalc {

// A verdict on ops of the graph with copies, on the ops of the document that they are copies of.
Verdict in_document(const Verdict& verdict, const Recomputation& recomputation);

// Why fusecalc generates no such kernel; for one that it does not.
std::string reason_of(const GraphAnalysis& analysis, const KernelAnalysis& kernel);

// Why the two kernels are not fused.
std::string reason_of(const GraphAnalysis& analysis, const Boundary& boundary);
// The same with the kinds of the two ops that the obstacle is between: "linear -> linear: ...", or
// "linear and linear: ..." where the kernels only read the same tensor; not if the reason begins
// so.
std::string full_reason_of(const GraphAnalysis& analysis, const Boundary& boundary);

}  // namespace fusecalc
