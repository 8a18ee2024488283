#pragma once

#include "predict/kernel_work.hpp"

namespace fusecalc {

// What ops take whose rows have an order (codegen/{scanned,sorted}_rows.cpp), on top of what
// streams take.

// Of a sort; 0 of other ops.
double sort_us(const OpGraph& graph, const Op& op, const Device& device);
// Bytes of what blocks have sorted and others merge: written to memory in the end, and read from
// the L2 before; 0 of other ops.
double sort_workspace(const OpGraph& graph, const Op& op, const Device& device);

// Of a scan, whose elements wait for those before them; 0 of other ops.
double scan_us(const OpGraph& graph, const Op& op, const Device& device);

inline constexpr double kOrderDoubt = 0.4;  // of the time, by few measurements

}  // namespace fusecalc
