#pragma once

#include <string>
#include <vector>

namespace fusecalc::cuda {

// The NVTX ranges that are open around this thread, outermost first: those that it pushed, and
// those that any thread started. NVTX_INJECTION64_PATH names this library, whose hook fills them.
std::vector<std::string> open_nvtx_ranges();

}  // namespace fusecalc::cuda
