#pragma once

#include <cstdint>
#include <string>

#include "codegen/schedule.hpp"
#include "plan/column_sums.hpp"

namespace fusecalc {

// A kernel around the loop of kernels/column_sums.cuh.
struct ColumnKernel {
  ColumnTiling tiling;
  ComputeType number = ComputeType::kF32;
  std::uint64_t row_sums = 0;
  std::uint64_t sums = 0;  // of columns
  std::uint64_t blocks = 1;

  // Numbers between a block's sums of two kinds.
  std::uint64_t pitch() const;
  std::uint64_t number_bytes() const { return number == ComputeType::kF64 ? 8 : 4; }
  // The struct Tiling, with more members.
  std::string constants(const std::string& more) const;
  // `structs`: all that the kernel uses, but for the loop; `body`: declares `body` out of `in`, a
  // struct In of the kernel's pointers.
  GeneratedKernel write(const KernelCode& code, const std::string& structs,
                        const std::string& body) const;
};

}  // namespace fusecalc
