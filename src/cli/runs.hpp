#pragma once

#include <optional>
#include <string>

#include "analysis/analysis.hpp"
#include "backend/backend.hpp"
#include "cli/command_line.hpp"
#include "input/document.hpp"
#include "measure/plan_runner.hpp"
#include "plan/plan_kind.hpp"
#include "report/formats.hpp"

namespace fusecalc {

// What `analyze` makes of a document that was read from `path`; `sweep` makes it of every point.
Analysis analyze_document(const Document& read, const std::string& path,
                          const AnalyzeOptions& options);

// What `measure` makes of a document. `quiet`: a model's summary is not shown.
MeasurementReport measure_document(GpuBackend& gpu, const MeasureCommand& command,
                                   const std::string& path, const Progress& progress,
                                   bool quiet = false);

// Throws Error if the plan cannot be measured.
void check_plan_to_measure(std::optional<PlanKind> plan);

// Throws Error if results are wrong.
void judge(const Measurement& measurement);

}  // namespace fusecalc
