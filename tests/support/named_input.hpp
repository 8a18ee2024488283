#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "graph/op_graph.hpp"
#include "reference/reference.hpp"

namespace fusecalc::testing {

// The data of the input with this name.
inline const InputData& input_called(const OpGraph& graph, const std::vector<GraphInput>& inputs,
                                     std::string_view name) {
  const auto found = std::ranges::find_if(
      inputs, [&](const GraphInput& input) { return graph.tensor(input.tensor).name == name; });
  REQUIRE(found != inputs.end());
  return found->data;
}

}  // namespace fusecalc::testing
