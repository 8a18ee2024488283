#pragma once

#include "graph/op_graph.hpp"
#include "predict/kernel_work.hpp"

namespace fusecalc {

// Rows that indices name again are fetched again if the L2 lost them; which indices there are is
// not known: as many as there are draws, evenly.
void add_repeated_rows(const OpGraph& graph, const Op& gather, const Device& device,
                       KernelWork& work);

}  // namespace fusecalc
