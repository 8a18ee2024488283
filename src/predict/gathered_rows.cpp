#include "predict/gathered_rows.hpp"

#include <algorithm>
#include <cmath>

namespace fusecalc {

void add_repeated_rows(const OpGraph& graph, const Op& gather, const Device& device,
                       KernelWork& work) {
  const std::size_t table =
      table_input(gather.row->family, graph.tensors[gather.operands[0].tensor].type.dtype,
                  graph.tensors[gather.operands[1].tensor].type.dtype);
  const Tensor& rows = graph.tensors[gather.operands[table].tensor];
  const double drawn =
      static_cast<double>(gather.work) * static_cast<double>(bytes_of(rows.type.dtype, 1));
  const auto all = static_cast<double>(rows.bytes);
  if (all > 0 && rows.producer == kNone) {
    const double distinct = all * -std::expm1(-drawn / all);
    const double kept =
        std::min(1.0, 0.4 * static_cast<double>(device.l2_bytes) / std::max(1.0, distinct));
    const double counted = std::min(drawn, all);
    work.dram_read += distinct + (drawn - distinct) * (1 - kept) - counted;
    work.read_doubt = 0.4;
  }
}

}  // namespace fusecalc
