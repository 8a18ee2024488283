#include "predict/limit.hpp"

#include <algorithm>

#include "predict/gathered_rows.hpp"

namespace fusecalc {
namespace {

// Operations, as many as take as long in products of 16 bits.
double products(const OpGraph& graph, const Op& op, const Device& device) {
  if (op.op_class != OpClass::kContract) return 0;
  double share = 1;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, op.operands.size()); ++i) {
    share = std::max(share, tensor_share(graph.tensors[op.operands[i].tensor].type.dtype, device));
  }
  return static_cast<double>(op.flops) / share;
}

}  // namespace

Prediction predict_limit(const OpGraph& graph, const KernelTraffic& traffic, const Device& device) {
  KernelWork work{.dram_read = static_cast<double>(traffic.bytes.read),
                  .dram_write = static_cast<double>(traffic.bytes.write),
                  .fixed_us = device.constants.launch_us.value,
                  .time_doubt = 0.1};
  double multiplied = 0;
  for (const Op& op : graph.ops) {
    multiplied += products(graph, op, device);
    const GatheredRows rows = gathered_rows(graph, op, device);
    work.dram_read -= std::min(work.dram_read, rows.counted - rows.distinct);
    if (rows.counted > 0) work.read_doubt = kRepeatedDoubt;
  }
  work.compute_us = tensor_us(device, multiplied) / kCool;
  return predict(work, device);
}

}  // namespace fusecalc
