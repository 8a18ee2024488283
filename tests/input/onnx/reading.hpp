#pragma once

#include <doctest/doctest.h>

#include <string>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "input/onnx/onnx.hpp"
#include "support/models.hpp"

namespace fusecalc::testing {

inline Model read(const std::string& bytes, const std::vector<DimOverride>& dims = {}) {
  return read_onnx(bytes, "m.onnx", dims);
}

// Each op as "add(x, y) -> z", of a graph that is valid.
inline Words ops_of(const Model& model) {
  build_graph(model.graph, {});
  Words result;
  for (const WrittenOp& op : model.graph.ops) {
    std::string line = op.op + "(";
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (i > 0) line += ", ";
      const auto* name = std::get_if<std::string>(&op.inputs[i]);
      line += name != nullptr ? *name : "#";
    }
    line += ") ->";
    for (const std::string& output : op.outputs) line += " " + output;
    result.push_back(line);
  }
  return result;
}

// What is said of a model that is refused.
inline std::string refusal(const std::string& bytes, const std::vector<DimOverride>& dims = {}) {
  try {
    read(bytes, dims);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::kBadInput);
    return error.what();
  }
  return "accepted";
}

}  // namespace fusecalc::testing
