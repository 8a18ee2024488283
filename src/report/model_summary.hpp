#pragma once

#include <string>

#include "analysis/model_summary.hpp"
#include "core/output.hpp"

namespace fusecalc {

void write_model_summary(const ModelSummary& summary, Output& output);

// The same in one line.
std::string summary_line(const ModelSummary& summary);

}  // namespace fusecalc
