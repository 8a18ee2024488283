#pragma once

#include <vector>

#include "json/writer.hpp"
#include "report/boundaries.hpp"

namespace fusecalc {

// What an analysis and a measurement say of a plan and of a kernel alike: members of the object
// that is being written.
void write_plan_members(JsonWriter& json, const PlanReport& plan);
void write_kernel_members(JsonWriter& json, const GraphAnalysis& analysis, const PlanReport& plan,
                          const KernelReport& kernel, const std::vector<Boundary>& boundaries);

// Members "dims" and "inputs": what a graph was counted for. `compare` refuses two documents in
// which they differ.
void write_conditions(JsonWriter& json, const OpGraph& graph);

}  // namespace fusecalc
