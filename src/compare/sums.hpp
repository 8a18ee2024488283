#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compare/document.hpp"

namespace fusecalc {

// The sum of several kernels of a plan, chosen by their places in it. A figure that one of them
// lacks is missing.
KernelFigures sum_of(const std::vector<KernelFigures>& kernels,
                     const std::vector<std::size_t>& chosen);
std::vector<std::size_t> all_of(const std::vector<KernelFigures>& kernels);

// How many of their ops are in kernels that cannot be launched.
std::size_t unlaunchable_ops(const std::vector<KernelFigures>& kernels,
                             const std::vector<std::size_t>& chosen);

// "not fused at h: the second contraction needs whole rows of the first": why a kernel was split.
std::string why_not_fused(const std::vector<KernelFigures>& kernels,
                          const std::vector<std::size_t>& chosen);

// Whether a plan's kernels move all of its bytes, so that none is left out of its list.
bool adds_up(const PlanFigures& plan);

}  // namespace fusecalc
