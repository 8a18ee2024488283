// What an analysis found, in terms of the document and in words.
#pragma once

#include <string>

#include "analysis/analysis.hpp"
#include "graph/recompute.hpp"

namespace fusecalc {

// A verdict on ops of the graph with copies, on the ops of the document that they are copies of.
Verdict in_document(const Verdict& verdict, const Recomputation& recomputation);
// The same of a boundary's verdict and its two ops.
void name_in_document(Boundary& boundary, const Recomputation& recomputation);

// Why fusecalc generates no such kernel; for one that it does not.
std::string reason_of(const GraphAnalysis& analysis, const KernelAnalysis& kernel);

// Why the two kernels are not fused.
std::string reason_of(const GraphAnalysis& analysis, const Boundary& boundary);
// The same with the kinds of the boundary's two ops: "linear -> linear: ...", or "linear and
// linear: ..." where the kernels only read the same tensor, or one op does not use the other's
// result; not if the reason begins so.
std::string full_reason_of(const GraphAnalysis& analysis, const Boundary& boundary);

}  // namespace fusecalc
