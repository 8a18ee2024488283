#pragma once

#include <vector>

#include "graph/size_chain.hpp"
#include "json/reader.hpp"

namespace fusecalc {

// Reads and sums the array of operations of the sizes form in O(1) memory. If `operations` is not
// null, each operation is also appended to it.
void read_sizes(JsonReader& reader, SizeChain& chain, std::vector<SizedOperation>* operations);

}  // namespace fusecalc
