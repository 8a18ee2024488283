#include "graph/op_list.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "core/checked.hpp"

namespace fusecalc {
namespace {

constexpr std::string_view kElements = "a whole number of elements";

void add_elements(const JsonReader& reader, std::uint64_t& total, std::uint64_t elements) {
  if (checked_add(total, elements)) return;
  reader.fail(fmt::format("the sizes up to here add up to more than {} elements", kMaxCount));
}

using Operations = std::vector<SizedOperation>*;

void read_operation(JsonReader& reader, SizeChain& chain, Operations operations) {
  static constexpr std::array<std::string_view, 3> kFields = {"name", "input_size", "output_size"};
  enum Field : std::size_t { kName, kInputSize, kOutputSize };

  std::string name;
  std::uint64_t input = 0;
  const std::uint64_t seen = reader.read_object(kFields, [&](std::size_t field) {
    if (field == kName) {
      if (operations == nullptr) {
        reader.skip_string();
      } else {
        name = reader.read_string();
      }
    } else if (field == kInputSize) {
      input = reader.read_count(kElements);
      add_elements(reader, chain.input_elements, input);
      if (chain.operations == 0) chain.first_input = input;
    } else {
      chain.last_output = reader.read_count(kElements);
      add_elements(reader, chain.output_elements, chain.last_output);
    }
  });
  for (const Field field : {kInputSize, kOutputSize}) {
    if ((seen >> field & 1U) == 0) reader.fail(fmt::format("missing key \"{}\"", kFields[field]));
  }
  ++chain.operations;
  if (operations != nullptr) operations->push_back({std::move(name), input, chain.last_output});
}

void read_operations(JsonReader& reader, SizeChain& chain, Operations operations) {
  reader.read_array([&](std::size_t) { read_operation(reader, chain, operations); });
}

void read_wrapped(JsonReader& reader, SizeChain& chain, Operations operations) {
  static constexpr std::array<std::string_view, 3> kFields = {"name", "dtype_bytes", "operations"};
  enum Field : std::size_t { kName, kDtypeBytes, kOperations };

  const std::uint64_t seen = reader.read_object(kFields, [&](std::size_t field) {
    if (field == kName) {
      chain.name = reader.read_string();
    } else if (field == kDtypeBytes) {
      chain.dtype_bytes = reader.read_count("a whole number of bytes");
      if (chain.dtype_bytes == 0) reader.fail("must be at least 1");
    } else {
      read_operations(reader, chain, operations);
    }
  });
  if ((seen >> kOperations & 1U) == 0) reader.fail("missing key \"operations\"");
}

}  // namespace

SizeChain read_op_list(JsonReader& reader, std::vector<SizedOperation>* operations) {
  SizeChain chain;
  switch (reader.peek()) {
    case JsonKind::kArray: read_operations(reader, chain, operations); break;
    case JsonKind::kObject: read_wrapped(reader, chain, operations); break;
    default: reader.fail_type("an array of operations or an object");
  }
  reader.expect_end();
  return chain;
}

}  // namespace fusecalc
