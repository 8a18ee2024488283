#pragma once

#include <span>
#include <string>

namespace fusecalc {

// Refuses an output file that is also an input, under any path: the input would be lost. `-`
// among the inputs is standard input; a folder among them stands for the results in it, and takes
// no new one.
void refuse_overwriting_inputs(std::span<const std::string> outputs,
                               std::span<const std::string> inputs);

}  // namespace fusecalc
