#pragma once

#include <span>

#include "analysis/analysis.hpp"
#include "core/output.hpp"
#include "report/formats.hpp"

namespace fusecalc {

void write_table(const Analysis& analysis, const Style& style, Output& output);
void write_json(const Analysis& analysis, const Style& style, Output& output);
void write_csv(const Analysis& analysis, const Style& style, Output& output);
void write_html(const Analysis& analysis, const Style& style, Output& output);
void write_html(std::span<const Analysis> analyses, const Style& style, Output& output);
void write_markdown(const Analysis& analysis, const Style& style, Output& output);
// Several op lists in one document.
void write_table(std::span<const Analysis> analyses, const Style& style, Output& output);
void write_json(std::span<const Analysis> analyses, const Style& style, Output& output);
void write_csv(std::span<const Analysis> analyses, const Style& style, Output& output);
void write_markdown(std::span<const Analysis> analyses, const Style& style, Output& output);
// The graph, with the kernels of the headline's plan as boxes.
void write_dot(const Analysis& analysis, const Style& style, Output& output);
void write_mermaid(const Analysis& analysis, const Style& style, Output& output);

void write_table(std::span<const MeasurementReport> reports, const Style& style, Output& output);
void write_json(std::span<const MeasurementReport> reports, const Style& style, Output& output);
void write_csv(std::span<const MeasurementReport> reports, const Style& style, Output& output);
void write_html(std::span<const MeasurementReport> reports, const Style& style, Output& output);
void write_markdown(std::span<const MeasurementReport> reports, const Style& style, Output& output);

void write_table(const Comparison& comparison, const Style& style, Output& output);
void write_json(const Comparison& comparison, const Style& style, Output& output);
void write_csv(const Comparison& comparison, const Style& style, Output& output);
void write_html(const Comparison& comparison, const Style& style, Output& output);
void write_markdown(const Comparison& comparison, const Style& style, Output& output);
void write_junit(const Comparison& comparison, const Style& style, Output& output);
void write_github(const Comparison& comparison, const Style& style, Output& output);
// JSON for github-action-benchmark.
void write_benchmark(const Analysis& analysis, const Style& style, Output& output);
void write_benchmark(std::span<const MeasurementReport> reports, const Style& style,
                     Output& output);
void write_benchmark(const Comparison& comparison, const Style& style, Output& output);
// Markdown of a bounded length, for the summary page of a CI job.
void write_summary(const Comparison& comparison, Output& output);

SweepSummary write_table(const SweepFolder& sweep, const Style& style, Output& output);
SweepSummary write_json(const SweepFolder& sweep, const Style& style, Output& output);
SweepSummary write_csv(const SweepFolder& sweep, const Style& style, Output& output);
SweepSummary write_html(const SweepFolder& sweep, const Style& style, Output& output);
SweepSummary write_markdown(const SweepFolder& sweep, const Style& style, Output& output);

void write_table(const Profile& profile, const Style& style, Output& output);
void write_json(const Profile& profile, const Style& style, Output& output);
void write_csv(const Profile& profile, const Style& style, Output& output);
void write_html(const Profile& profile, const Style& style, Output& output);
void write_markdown(const Profile& profile, const Style& style, Output& output);

}  // namespace fusecalc
