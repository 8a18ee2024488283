#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/model.hpp"

namespace fusecalc {

// Whether a file that begins so is an ONNX model, whose fields may be in any order. No JSON is. Of
// a file that is `named` .onnx any field of a model will do; of others only what no text begins
// with.
bool begins_onnx(std::string_view start, bool named);

// Reads an ONNX model, opsets 13 and later. `file` is all of its bytes; data that it keeps in other
// files is not needed. Symbolic dimensions take their values from `dims`. `name` names it in
// messages.
Model read_onnx(std::string_view file, const std::string& name,
                const std::vector<DimOverride>& dims);

}  // namespace fusecalc
