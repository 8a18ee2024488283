#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/schedule.hpp"

namespace fusecalc {

// A transposed read: rows of the loop run along axis `along` of the map, rows of the tensor along
// axis `across`.
struct Transposition {
  IndexTransform map;
  std::size_t across = 0;
  std::size_t along = 0;
  std::vector<TensorId> tensors{};  // that are read so
};

// The first transposition that a large scattered read of the block follows, where tiles help: axes
// that are long, and in whole groups of `width`.
std::optional<Transposition> find_transposition(const KernelView& kernel, const CodeBlock& block,
                                                std::uint64_t space, unsigned width);

// The index of the first element of a thread's group.
Index element_index();

// The kernel by tiles that are transposed on chip, in groups of so many elements.
GeneratedKernel generate_tiles(const KernelView& kernel, const Roots& roots,
                               const Transposition& found, std::uint64_t space, unsigned width);
// The same where rows are no whole groups, and so begin anywhere in one.
GeneratedKernel generate_shifted_tiles(const KernelView& kernel, const Roots& roots,
                                       const Transposition& found, std::uint64_t space,
                                       unsigned width);

}  // namespace fusecalc
