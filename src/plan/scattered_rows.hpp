#pragma once

#include <cstdint>
#include <numeric>

#include "graph/axis.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// How many neighbouring updates of a scatter surely go to neighbouring elements of one row: a
// divisor of `most`, which the threads of its kernel have each; 1 where each element has an index.
inline std::uint64_t updates_of_one_row(const OpGraph& graph, const Op& scatter,
                                        std::uint64_t most) {
  if (scatter.row->family != OpFamily::kScatter) return 1;
  const Shape& table = graph.tensors[scatter.operands[0].tensor].type.shape;
  const std::size_t axis = axis_of(scatter, table.size());
  return std::gcd(elements_between(table, axis + 1, table.size()), most);
}

}  // namespace fusecalc
