#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

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

// "op(inputs)" of every op; the graph is valid.
inline Words calls_of(const Model& model) {
  build_graph(model.graph, {});
  Words lines;
  for (const WrittenOp& op : model.graph.ops) {
    std::string line = op.op + "(";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const auto* tensor = std::get_if<std::string>(&op.inputs[i]);
      line += (i == 0 ? "" : ", ") + (tensor != nullptr ? *tensor : "number");
    }
    lines.push_back(line + ")");
  }
  return lines;
}

// What the ops move, each a kernel of its own.
inline std::uint64_t unfused(const Model& model, const std::vector<DimOverride>& dims = {}) {
  return unfused_bytes(build_graph(model.graph, dims)).total();
}

}  // namespace fusecalc::testing
