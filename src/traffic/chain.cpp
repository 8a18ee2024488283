#include "traffic/chain.hpp"

#include <fmt/format.h>

#include "core/checked.hpp"
#include "core/error.hpp"

namespace fusecalc {

ChainTraffic count_bytes(const SizeChain& chain, const std::string& document) {
  // Every other figure is a part of this one.
  std::uint64_t total = chain.input_elements;
  if (!checked_add(total, chain.output_elements) || !checked_multiply(total, chain.dtype_bytes)) {
    throw Error(Fault::kBadInput,
                fmt::format("{}: {}/{}: up to here, {} + {} elements of {} byte{} are more than {} "
                            "bytes",
                            document, chain.place, chain.operations - 1, chain.input_elements,
                            chain.output_elements, chain.dtype_bytes,
                            chain.dtype_bytes == 1 ? "" : "s", kMaxCount));
  }
  const auto bytes = [&](std::uint64_t read, std::uint64_t written) {
    return Bytes{.read = read * chain.dtype_bytes, .write = written * chain.dtype_bytes};
  };
  return {.unfused = bytes(chain.input_elements, chain.output_elements),
          .fused = bytes(chain.first_input, chain.last_output)};
}

Bytes bytes_of(const SizedOperation& operation, std::uint64_t dtype_bytes) {
  return {.read = operation.input_elements * dtype_bytes,
          .write = operation.output_elements * dtype_bytes};
}

}  // namespace fusecalc
