#pragma once

#include "analysis/model_summary.hpp"
#include "input/document.hpp"

namespace fusecalc {

// One line on standard error.
void show_summary(const ModelSummary& summary);

}  // namespace fusecalc
