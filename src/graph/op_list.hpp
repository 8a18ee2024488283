#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "json/reader.hpp"

namespace fusecalc {

// The sizes form of an op list, already added up: a chain of operations of which only the number of
// elements is known. Reading holds no operation, so a list may be of any length.
struct SizeChain {
  std::optional<std::string> name;
  std::uint64_t operations = 0;
  std::uint64_t input_elements = 0;   // over all operations
  std::uint64_t output_elements = 0;  // over all operations
  std::uint64_t first_input = 0;
  std::uint64_t last_output = 0;
  std::uint64_t dtype_bytes = 2;
};

// One operation of that form.
struct SizedOperation {
  std::string name;
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
};

// Reads a whole document in the sizes form: an array of operations, or an object around one. The
// operations themselves are held only where somebody wants them.
SizeChain read_op_list(JsonReader& reader, std::vector<SizedOperation>* operations = nullptr);

}  // namespace fusecalc
