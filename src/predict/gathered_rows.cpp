#include "predict/gathered_rows.hpp"

#include <algorithm>
#include <cmath>

#include "graph/axis.hpp"
#include "predict/fetched.hpp"

namespace fusecalc {

GatheredRows gathered_rows(const OpGraph& graph, const Op& op, const Device& device) {
  if (op.row->access != Access::kGather || op.op_class != OpClass::kMovement) return {};
  const Tensor& rows = graph.tensors[op.operands[table_input(graph, op)].tensor];
  if (rows.bytes == 0 || rows.producer != kNone) return {};
  const auto all = static_cast<double>(rows.bytes);
  const double needed =
      static_cast<double>(op.work) * static_cast<double>(bytes_of(rows.type.dtype, 1));
  // A row is what follows the axis that the indices name.
  const Shape& shape = rows.type.shape;
  const std::size_t axis = axis_of(op, shape.size());
  const bool elements = op.row->family == OpFamily::kGatherElements;
  const std::uint64_t row =
      bytes_of(rows.type.dtype, elements ? 1 : elements_between(shape, axis + 1, shape.size()));
  const double drawn = needed * fetched_bytes_of_run(row, piece_bytes(device)) /
                       static_cast<double>(std::max<std::uint64_t>(1, row));
  return {.drawn = drawn,
          .counted = std::min(needed, all),
          .distinct = all * -std::expm1(-drawn / all),
          .choice = static_cast<double>(
              bytes_of(rows.type.dtype, elements_between(shape, axis, shape.size())))};
}

void add_repeated_rows(const OpGraph& graph, const Op& gather, const Device& device,
                       KernelWork& work) {
  const GatheredRows rows = gathered_rows(graph, gather, device);
  if (rows.counted == 0) return;
  const double held = std::max(1.0, std::min(rows.distinct, rows.choice));
  const double kept = std::min(1.0, 0.4 * static_cast<double>(device.l2_bytes) / held);
  work.dram_read += rows.distinct + (rows.drawn - rows.distinct) * (1 - kept) - rows.counted;
  work.read_doubt = kRepeatedDoubt;
}

void add_repeated_updates(const OpGraph& graph, const Op& scatter, const Device& device,
                          KernelWork& work) {
  constexpr double kShareOfL2 = 0.25;  // that is left to the table: updates pass by, too
  if (scatter.op_class != OpClass::kMovement || scatter.attributes->combine == Combine::kReplace) {
    return;
  }
  const Tensor& table = graph.tensors[scatter.operands[0].tensor];
  const auto all = static_cast<double>(table.bytes);
  const double again =
      static_cast<double>(scatter.work) * static_cast<double>(bytes_of(table.type.dtype, 1)) - all;
  if (again <= 0) return;
  const double kept =
      std::min(1.0, kShareOfL2 * static_cast<double>(device.l2_bytes) / std::max(1.0, all));
  work.dram_read += again * (1 - kept);
  work.dram_write += again * (1 - kept);
  work.read_doubt = work.write_doubt = std::max(work.read_doubt, kRepeatedDoubt);
}

}  // namespace fusecalc
