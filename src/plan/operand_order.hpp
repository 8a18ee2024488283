#pragma once

#include <cstdint>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc {

// The axes of a contraction's operand in its own order, as if it lay there.
struct OperandOrder {
  std::uint64_t line = 0;              // from one m (or n) to the next
  std::uint64_t depth = 0;             // from one k to the next
  std::vector<std::uint64_t> batch{};  // along the result's batch axes, 0 where repeated
};
// Those of the result's axes that count matrices.
Shape batch_axes(const OpGraph& graph, const Op& op);
OperandOrder operand_order(const OpGraph& graph, const Op& op, std::size_t which);

}  // namespace fusecalc
