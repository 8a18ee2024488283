#pragma once

#include "graph/axis.hpp"
#include "graph/op_graph.hpp"
#include "predict/kernel_work.hpp"

namespace fusecalc {

// Bytes of rows of an input that indices name, in the pieces that are fetched. Which these are is
// not known: as many of each row as there are draws, evenly.
struct GatheredRows {
  double drawn = 0;
  double counted = 0;   // by the byte rules: no more than the table has
  double distinct = 0;  // of rows that are drawn at all
  double choice = 0;    // of what one index chooses from: the table, or a part of it
};

inline constexpr double kRepeatedDoubt = 0.4;  // of what is read, where rows are drawn

// None of an op that gathers no rows.
GatheredRows gathered_rows(const OpGraph& graph, const Op& op, const Device& device);

// Rows that indices name again are fetched again if the L2 lost them.
void add_repeated_rows(const OpGraph& graph, const Op& gather, const Device& device,
                       KernelWork& work);

// The same of the rows that a scatter combines updates with, of which there are more than rows:
// what comes again once the L2 has evicted the row reads and writes it once more.
void add_repeated_updates(const OpGraph& graph, const Op& scatter, const Device& device,
                          KernelWork& work);

}  // namespace fusecalc
