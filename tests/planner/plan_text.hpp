#pragma once

#include <string>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc::testing {

// "[a b] [c]": the ops of each kernel by name.
std::string shown(const OpGraph& graph, const std::vector<Kernel>& kernels);

// These plans for the first known device.
std::string compiler_of(const OpGraph& graph);
std::string auto_of(const OpGraph& graph);

// Why the ops cannot be one kernel of our runner; empty where they can.
std::string obstacle(const OpGraph& graph, const std::vector<std::string>& ops);

}  // namespace fusecalc::testing
