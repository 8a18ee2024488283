#pragma once

#include <span>

#include "analysis/analysis.hpp"
#include "core/output.hpp"
#include "report/formats.hpp"

namespace fusecalc {

void write_table(const Analysis& analysis, const Style& style, Output& output);
void write_json(const Analysis& analysis, const Style& style, Output& output);
void write_csv(const Analysis& analysis, const Style& style, Output& output);
void write_markdown(const Analysis& analysis, const Style& style, Output& output);
// The graph, with the kernels of the headline's plan as boxes.
void write_dot(const Analysis& analysis, const Style& style, Output& output);
void write_mermaid(const Analysis& analysis, const Style& style, Output& output);

void write_table(std::span<const MeasurementReport> reports, const Style& style, Output& output);
void write_json(std::span<const MeasurementReport> reports, const Style& style, Output& output);
void write_csv(std::span<const MeasurementReport> reports, const Style& style, Output& output);
void write_markdown(std::span<const MeasurementReport> reports, const Style& style, Output& output);

void write_table(const Comparison& comparison, const Style& style, Output& output);
void write_json(const Comparison& comparison, const Style& style, Output& output);
void write_csv(const Comparison& comparison, const Style& style, Output& output);
void write_markdown(const Comparison& comparison, const Style& style, Output& output);
void write_junit(const Comparison& comparison, const Style& style, Output& output);
void write_github(const Comparison& comparison, const Style& style, Output& output);

}  // namespace fusecalc
