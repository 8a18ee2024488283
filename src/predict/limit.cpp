#include "predict/limit.hpp"

#include <algorithm>

#include "predict/gathered_rows.hpp"

namespace fusecalc {
namespace {

// Operations, as many as take as long in products of 16 bits.
double products(const OpGraph& graph, const Op& op, const Device& device) {
  if (op.op_class != OpClass::kContract) return 0;
  double rate = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(2, op.operands.size()); ++i) {
    const DType type = graph.tensors[op.operands[i].tensor].type.dtype;
    // Kernels may convert fp8 to 16 bits.
    const bool narrow = is_fp8(type) && on_tensor_cores(DType::kF16, device);
    rate = std::max(
        rate,
        product_flops(narrow && tensor_share(type, device) == 0 ? DType::kF16 : type, device));
  }
  if (rate == 0) rate = device.constants.tensor_flops.value;
  return static_cast<double>(op.flops) * device.constants.tensor_flops.value / rate;
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
