#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/op_graph.hpp"

namespace fusecalc {

// The axis of a tensor with `rank` axes that an op's attribute of one axis names, or `otherwise` if
// the document leaves it out.
inline std::size_t axis_of(const Op& op, std::size_t rank, std::int64_t otherwise = 0) {
  const std::int64_t written = op.attributes->axes ? op.attributes->axes->front() : otherwise;
  return static_cast<std::size_t>(written < 0 ? written + static_cast<std::int64_t>(rank)
                                              : written);
}

}  // namespace fusecalc
