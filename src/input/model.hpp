#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/written_graph.hpp"

namespace fusecalc {

// How the nodes of a model file became the ops of a graph. Each node is of one kind.
struct ModelOrigin {
  // A node without a row of the op table, which is now a custom op.
  struct Missing {
    std::string target;        // what the file calls its operation
    std::size_t position = 0;  // in WrittenGraph::ops
  };

  std::uint64_t nodes = 0;
  std::uint64_t exact = 0;   // ops of the table
  std::uint64_t views = 0;   // the same elements in another shape or order
  std::uint64_t folded = 0;  // constants, arithmetic of shapes, what no output needs
  std::uint64_t opaque = 0;  // custom ops
  std::vector<Missing> missing;
  std::vector<std::string> unstated;  // dims whose values depend on data
};

// What a model file says.
struct Model {
  WrittenGraph graph;
  ModelOrigin origin;
};

}  // namespace fusecalc
