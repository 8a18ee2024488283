#pragma once

#include <vector>

#include "graph/size_chain.hpp"
#include "json/reader.hpp"

namespace fusecalc {

// Reads the array of operations of the sizes form and adds it up. Memory is O(1), but for
// `operations`: where each of them goes as well, if not null.
void read_sizes(JsonReader& reader, SizeChain& chain, std::vector<SizedOperation>* operations);

}  // namespace fusecalc
