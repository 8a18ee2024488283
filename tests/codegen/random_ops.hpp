#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/op_graph.hpp"

namespace fusecalc::testing {

// In every name of a random op list, between characters that would break a source.
inline constexpr const char* kNameMark = "NaMe";

// A valid op list, made of what the op table holds: an op that is added there is drawn from here
// on.
struct RandomOps {
  std::string text;  // the document
  OpGraph graph;
};

// About `ops` ops of any kind and attributes, over tensors of any type and of odd, even, empty and
// huge shapes: broadcasts and reductions of any axes, views, slices, gathers, in-place results,
// several outputs, contractions followed by more, attention. Most lists draw on the latest results,
// so that there is something to fuse. The same on every platform.
RandomOps random_ops(std::uint64_t seed, std::size_t ops);

}  // namespace fusecalc::testing
