#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "graph/op_graph.hpp"
#include "input/model.hpp"

namespace fusecalc {

// How much of a model file the op table covers.
struct ModelSummary {
  // All nodes of one operation that has no row.
  struct Missing {
    std::string op;
    std::uint64_t nodes = 0;
    std::uint64_t bytes = 0;
  };

  std::string model;
  std::uint64_t nodes = 0;
  std::uint64_t exact = 0;
  std::uint64_t views = 0;
  std::uint64_t folded = 0;
  std::uint64_t opaque = 0;
  std::uint64_t bytes = 0;  // of all ops, each a kernel of its own
  std::uint64_t opaque_bytes = 0;
  std::vector<Missing> missing{};  // the most bytes first
  std::vector<std::string> unstated{};
};

// `graph` was built from the graph that the file was read as.
ModelSummary summarise(const ModelOrigin& origin, const OpGraph& graph, const Device& device,
                       std::string model);

}  // namespace fusecalc
