#pragma once

#include "compare/comparison.hpp"

namespace fusecalc {

// Sets the file and the line of every finding whose op list is known. Paths are relative to the
// repository, as annotations need them; where the op list is not there any more, the line is 1.
void locate_findings(Comparison& comparison);

// Appends the comparison to the summary of the step, if there is one ($GITHUB_STEP_SUMMARY).
void append_step_summary(const Comparison& comparison);

}  // namespace fusecalc
