#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/model.hpp"

namespace fusecalc {

// Reads a model that torch.export.save wrote, from the bytes of its archive. `name` is the file's
// in messages; `dims` are values for the model's symbols. Weights are not read.
Model read_pt2(std::string_view file, const std::string& name,
               const std::vector<DimOverride>& dims);

}  // namespace fusecalc
