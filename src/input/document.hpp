#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/op_graph.hpp"
#include "input/model.hpp"
#include "input/op_list.hpp"
#include "json/source.hpp"

namespace fusecalc {

// What a command takes as its input.
struct Document {
  std::string name;  // in messages
  OpList list;
  std::optional<ModelOrigin> origin;  // of a model file
};

// Reads an op list or a model file; its first bytes tell which. `dims` are needed to read a model
// whose sizes depend on them; they still have to be given to build_graph. `operations`: as for
// read_op_list.
Document read_document(ByteSource source, const std::vector<DimOverride>& dims,
                       std::vector<SizedOperation>* operations = nullptr);

}  // namespace fusecalc
