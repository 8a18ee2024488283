#pragma once

#include <cstdint>
#include <optional>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"

namespace fusecalc {

// The result of a linear layer of which a kernel reads two halves of the columns and nothing else:
// a gate and what it is multiplied with, made by one product. The kernel's tiles then have the same
// columns of both halves, as if there were two products with the same rows.
struct Halves {
  TensorId first = kNone;  // what shows them (Tensor::window)
  TensorId second = kNone;
  std::uint64_t columns = 0;  // of each
};

// Nothing where the kernel reads the result in another way, or where no kernel of ours has such
// tiles: they are for 16 and 32-bit floats and weights as they lie in memory.
std::optional<Halves> halves_of(const OpGraph& graph, const Kernel& kernel, OpId contraction);

}  // namespace fusecalc
