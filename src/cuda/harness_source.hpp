#pragma once

#include <cstdint>

#include "codegen/generated.hpp"
#include "core/dtype.hpp"

namespace fusecalc::cuda {

// What the host knows of kernels/harness.cuh; its source asserts all of it.

constexpr unsigned kHarnessThreads = 256;  // of a block, but for hold()

// How its kernels see elements.
struct ElementKind {
  std::int32_t number = 0;
  std::uint64_t bytes = 1;  // of what is stored at once: one element, or two of 4 bits
};
constexpr ElementKind kBits64{0, 8};
constexpr ElementKind kBits8{1, 1};
ElementKind kind_of(DType dtype);

// What a block of compare() stores.
struct Differences {
  double excess;
  std::uint64_t worst;
  std::uint64_t beyond;
  double magnitude;
};

// sweep(), hold(), fill() and compare().
KernelSource harness_source();

}  // namespace fusecalc::cuda
