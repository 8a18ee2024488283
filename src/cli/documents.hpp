#pragma once

#include <span>
#include <string>

#include "analysis/model_summary.hpp"
#include "input/document.hpp"

namespace fusecalc {

// One line on standard error.
void show_summary(const ModelSummary& summary);

// What was read from standard input is gone: a second `-` would find nothing.
void refuse_standard_input_twice(std::span<const std::string> documents);

}  // namespace fusecalc
