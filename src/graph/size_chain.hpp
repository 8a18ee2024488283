#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fusecalc {

// One operation of the sizes form.
struct SizedOperation {
  std::string name;
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
};

// The totals of an op list in the sizes form: a chain of operations of which only the number of
// elements is known. It stores no operations, so a list may be of any length.
struct SizeChain {
  std::optional<std::string> name;
  std::uint64_t operations = 0;
  std::uint64_t input_elements = 0;   // over all operations
  std::uint64_t output_elements = 0;  // over all operations
  std::uint64_t first_input = 0;
  std::uint64_t last_output = 0;
  std::uint64_t dtype_bytes = 2;
  std::string place{};  // the JSON pointer of the list
};

}  // namespace fusecalc
