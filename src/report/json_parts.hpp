#pragma once

#include <span>

#include "analysis/analysis.hpp"
#include "json/writer.hpp"

namespace fusecalc {

// The member "predicted".
void write_prediction(JsonWriter& json, const Prediction& predicted);

// What an analysis and a measurement say of a plan and of a kernel alike: members of the object
// that is being written.
void write_plan_members(JsonWriter& json, const PlanAnalysis& plan);
void write_kernel_members(JsonWriter& json, const GraphAnalysis& analysis, const PlanAnalysis& plan,
                          const KernelAnalysis& kernel, std::span<const Boundary> boundaries);

// Members "dims" and "inputs": what a graph was counted for. `compare` refuses two documents in
// which they differ.
void write_conditions(JsonWriter& json, const OpGraph& graph);

}  // namespace fusecalc
