#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/written_graph.hpp"
#include "json/reader.hpp"

namespace fusecalc {

// Read the parts of an op list's graph form, each from the reader's current position.
WrittenTensor read_tensor(JsonReader& reader, const std::string& name);
WrittenOp read_op(JsonReader& reader);
std::vector<std::string> read_names(JsonReader& reader);
// Skips the value of a key like "comment" in an object whose keys are names, where it is of another
// kind than the values of that object. Returns whether it did.
bool skip_note(JsonReader& reader, std::string_view name, JsonKind of_values);
// An object of counts; `what` names one in messages.
std::vector<std::pair<std::string, WrittenDim>> read_named_dims(JsonReader& reader);
std::vector<std::pair<std::string, std::uint64_t>> read_counts(JsonReader& reader,
                                                               std::string_view what);

}  // namespace fusecalc
