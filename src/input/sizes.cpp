#include "input/sizes.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "core/checked.hpp"

namespace fusecalc {
namespace {

void add_elements(const JsonReader& reader, std::uint64_t& total, std::uint64_t elements) {
  if (checked_add(total, elements)) return;
  reader.fail(fmt::format("the sizes up to here add up to more than {} elements", kMaxCount));
}

void read_operation(JsonReader& reader, SizeChain& chain, std::vector<SizedOperation>* operations) {
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
      input = reader.read_count(kElementCount);
      add_elements(reader, chain.input_elements, input);
      if (chain.operations == 0) chain.first_input = input;
    } else {
      chain.last_output = reader.read_count(kElementCount);
      add_elements(reader, chain.output_elements, chain.last_output);
    }
  });
  for (const Field field : {kInputSize, kOutputSize}) {
    if ((seen >> field & 1U) != 0) continue;
    reader.fail(fmt::format("missing key \"{}\"", kFields[field]));
  }
  ++chain.operations;
  if (operations != nullptr) operations->push_back({std::move(name), input, chain.last_output});
}

}  // namespace

void read_sizes(JsonReader& reader, SizeChain& chain, std::vector<SizedOperation>* operations) {
  reader.read_array([&](std::size_t) { read_operation(reader, chain, operations); });
}

}  // namespace fusecalc
