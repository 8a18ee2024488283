#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph_text.hpp"
#include "graph/op_graph.hpp"
#include "input/model.hpp"
#include "reference/element.hpp"
#include "reference/reference.hpp"

namespace fusecalc::testing {

inline TensorId id_of(const OpGraph& graph, std::string_view name) {
  return static_cast<TensorId>(&tensor_named(graph, name) - graph.tensors.data());
}

// All elements of a tensor, by the reference.
inline std::vector<double> elements_of(const OpGraph& graph, const std::vector<GraphInput>& inputs,
                                       std::string_view name) {
  const TensorId tensor = id_of(graph, name);
  std::vector<std::uint64_t> all(graph.tensor(tensor).elements);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  const Answer answer = Reference(graph, inputs).evaluate(tensor, all);
  REQUIRE(answer.reason == "");
  std::vector<double> values;
  for (const Expected& expected : answer.elements) values.push_back(expected.value);
  return values;
}

// The first output, in exact arithmetic, of inputs that are whole numbers.
inline std::vector<double> result_of(const Model& model) {
  const OpGraph graph = build_graph(model.graph, {});
  std::vector<GraphInput> inputs;
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    if (graph.tensor(id).producer != kNone || graph.tensor(id).view_of != kNone) continue;
    std::vector<std::int64_t> values(graph.tensor(id).elements);
    const auto seed = static_cast<std::int64_t>(graph.tensor(id).name.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = (static_cast<std::int64_t>(i) * 7 + seed) % 23 - 11;
    }
    inputs.push_back(
        {.tensor = id,
         .data = {.fill = {.dtype = DType::kI64}, .data = encode_integers(DType::kI64, values)}});
  }
  return elements_of(graph, inputs, model.graph.outputs->front());
}

// A graph whose inputs hold given integers, as any type can.
struct Given {
  OpGraph graph;
  std::vector<GraphInput> inputs;

  Given(std::string_view json, const std::map<std::string, std::vector<std::int64_t>>& values)
      : graph(graph_of(json)) {
    for (TensorId id = 0; id < graph.tensors.size(); ++id) {
      const auto found = values.find(graph.tensor(id).name);
      if (found == values.end()) continue;
      const InputData data{.fill = {.dtype = DType::kI64},
                           .data = encode_integers(DType::kI64, found->second)};
      inputs.push_back({.tensor = id, .data = data});
    }
  }

  std::vector<double> values(std::string_view name) const {
    return elements_of(graph, inputs, name);
  }
};

}  // namespace fusecalc::testing
