#pragma once

#include <cstdint>
#include <vector>

#include "core/bytes.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// What one kernel moves, tensor by tensor.
struct KernelTraffic {
  struct Entry {
    TensorId tensor = kNone;
    std::uint64_t bytes = 0;  // over all passes
    std::uint32_t passes = 1;
  };

  Bytes bytes;
  std::uint64_t flops = 0;
  std::vector<Entry> reads;
  std::vector<Entry> writes;
};

}  // namespace fusecalc
