#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"

namespace fusecalc {

// Two halves of the columns that a kernel multiplies, such as a gate and what it is multiplied
// with. One product of rows and a matrix makes both, of whose result the kernel reads these halves
// and nothing else, at once or once elementwise ops, a bias say, have changed all of it; or each is
// the result of one of two such products with the same input (siblings.hpp), as if their weights
// were one matrix. The kernel's tiles have the same columns of both halves.
struct Halves {
  TensorId first = kNone;  // what shows them (Tensor::window)
  TensorId second = kNone;
  std::uint64_t columns = 0;   // of each
  OpId other = kNone;          // makes the second half, if `contraction` makes the first alone
  std::vector<OpId> before{};  // those elementwise ops, each of which alone reads the last one's
                               // result, as it alone reads the product's
};

// Nothing where the kernel reads results in another way, or where no kernel of ours has such tiles:
// they are for 16 and 32-bit floats (lines_in_tiles). `contraction`: the kernel's first.
std::optional<Halves> halves_of(const OpGraph& graph, const Kernel& kernel, OpId contraction);

}  // namespace fusecalc
