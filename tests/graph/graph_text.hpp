#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.hpp"

namespace fusecalc::testing {

// The graph of an op list given as JSON text; the document is called "t".
OpGraph graph_of(std::string_view json, const std::vector<DimOverride>& overrides = {});

// An op list of bf16 whose tensors and ops are these.
std::string bf16_list(const std::string& tensors, const std::string& ops);

// What reading the text throws, without the document's name; empty where it is fine.
std::string fault_of(std::string_view json, const std::vector<DimOverride>& overrides = {});

const Tensor& tensor_named(const OpGraph& graph, std::string_view name);
OpId op_called(const OpGraph& graph, std::string_view name);

}  // namespace fusecalc::testing
