#pragma once

#include <cstdint>

#include "graph/op_graph.hpp"
#include "input/model.hpp"
#include "support/words.hpp"
#include "traffic/graph_bytes.hpp"

namespace fusecalc::testing {

// The kind of every op of a model, whose graph is valid.
inline Words rows_of(const Model& model) {
  build_graph(model.graph, {});
  Words rows;
  for (const WrittenOp& op : model.graph.ops) rows.push_back(op.op);
  return rows;
}

inline std::uint64_t unfused(const Model& model) {
  return unfused_bytes(build_graph(model.graph, {})).total();
}

}  // namespace fusecalc::testing
