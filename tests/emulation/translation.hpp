#pragma once

#include <string>

#include "codegen/generated.hpp"

namespace fusecalc::testing {

// A kernel's CUDA C++ as C++ for the host's compiler, behind ptx_on_host.hpp. Each entry E becomes
// run_E(launch, arguments), of host::run_grid.
std::string on_host(const KernelSource& source, unsigned cuda_arch);

}  // namespace fusecalc::testing
