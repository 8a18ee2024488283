#include "predict/gathered_rows.hpp"

#include <algorithm>
#include <cmath>

namespace fusecalc {

GatheredRows gathered_rows(const OpGraph& graph, const Op& op) {
  if (op.row->access != Access::kGather || op.op_class != OpClass::kMovement) return {};
  const std::size_t table =
      table_input(op.row->family, graph.tensors[op.operands[0].tensor].type.dtype,
                  graph.tensors[op.operands[1].tensor].type.dtype);
  const Tensor& rows = graph.tensors[op.operands[table].tensor];
  if (rows.bytes == 0 || rows.producer != kNone) return {};
  const auto all = static_cast<double>(rows.bytes);
  const double drawn =
      static_cast<double>(op.work) * static_cast<double>(bytes_of(rows.type.dtype, 1));
  return {
      .drawn = drawn, .counted = std::min(drawn, all), .distinct = all * -std::expm1(-drawn / all)};
}

void add_repeated_rows(const OpGraph& graph, const Op& gather, const Device& device,
                       KernelWork& work) {
  const GatheredRows rows = gathered_rows(graph, gather);
  if (rows.counted == 0) return;
  const double kept =
      std::min(1.0, 0.4 * static_cast<double>(device.l2_bytes) / std::max(1.0, rows.distinct));
  work.dram_read += rows.distinct + (rows.drawn - rows.distinct) * (1 - kept) - rows.counted;
  work.read_doubt = kRepeatedDoubt;
}

}  // namespace fusecalc
