#pragma once

#include <string_view>

#include "input/model_graph.hpp"

namespace fusecalc {

// The name and the scope of a node, from the modules that it belongs to (the node's
// nn_module_stack): "layers.3.mlp.up_proj" in "layers.3.mlp". `op` is the name of its operation,
// empty if it is none.
ModelGraph::Node named_node(std::string_view modules, std::string_view target, std::string_view op);

}  // namespace fusecalc
