#pragma once

#include <string>

#include "core/bytes.hpp"
#include "graph/size_chain.hpp"

namespace fusecalc {

struct ChainTraffic {
  Bytes unfused;  // every operation reads its input and writes its output
  Bytes fused;    // only the first input and the last output touch memory
};

// Throws an Error that names the last operation if the bytes exceed kMaxCount.
ChainTraffic count_bytes(const SizeChain& chain, const std::string& document);

// The bytes of one operation of such a chain. Cannot overflow after count_bytes.
Bytes bytes_of(const SizedOperation& operation, std::uint64_t dtype_bytes);

}  // namespace fusecalc
