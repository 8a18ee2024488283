#pragma once

#include <variant>
#include <vector>

#include "graph/size_chain.hpp"
#include "graph/written_graph.hpp"
#include "json/reader.hpp"

namespace fusecalc {

using OpList = std::variant<SizeChain, WrittenGraph>;

// Reads a whole document in either form; its content tells which. The graph names its places by
// JSON pointers. The sizes form is summed as it is read; its operations are stored in
// `operations`, if given.
OpList read_op_list(JsonReader& reader, std::vector<SizedOperation>* operations = nullptr);

}  // namespace fusecalc
