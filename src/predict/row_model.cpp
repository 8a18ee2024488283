#include "predict/row_model.hpp"

#include <algorithm>

#include "core/ceil_div.hpp"
#include "plan/norm_backward.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

constexpr double kRowsUs = 0.9;  // a row's passes wait for each other

// Sums of columns (kernels/column_sums.cuh): behind the last row the blocks leave their sums in the
// L2, wait for each other, and add up what all of them have left.
void add_column_sums(std::uint64_t rows, std::uint64_t length, std::uint64_t sums,
                     const Device& device, KernelWork& work) {
  constexpr double kGridUs = 3;  // to wait, also for the first sums
  if (sums == 0) return;
  const std::uint64_t blocks = std::min<std::uint64_t>(std::max(1U, device.multiprocessors), rows);
  const double bytes = 2 * static_cast<double>(blocks) * static_cast<double>(length) *
                       static_cast<double>(sums * sizeof(float));
  work.fixed_us += kGridUs + bytes / bytes_per_us(device.constants.l2_gbps);
}

}  // namespace

void add_norm_backward(const OpGraph& graph, const Op& op, const Device& device, KernelWork& work) {
  const std::uint64_t rows = graph.tensors[op.operands[2].tensor].elements;
  const std::uint64_t length =
      graph.tensors[op.operands[1].tensor].elements / std::max<std::uint64_t>(1, rows);
  work.fixed_us += kRowsUs;
  work.time_doubt = 0.15;
  const std::uint64_t sums = (lists_gradient(op, 1) ? 1U : 0U) + (lists_gradient(op, 2) ? 1U : 0U);
  add_column_sums(rows, length, sums, device, work);
}

void add_row_latency(const OpGraph& graph, const Kernel& kernel, const Phases& phases, double space,
                     const Device& device, KernelWork& work) {
  constexpr double kLossUs = 5;      // rows' losses are added up behind the last
  constexpr double kMergeUs = 0.07;  // for each block that shares columns
  constexpr double kColumnBytes = 2048;
  constexpr double kMostShares = 4;    // of each multiprocessor
  constexpr double kLeastShare = 64;   // elements of a column
  constexpr double kManyShares = 32;   // from which on four times as many threads merge them
  constexpr double kColumnLanes = 32;  // threads side by side
  const RowLayout& rows = phases.rows;
  work.fixed_us += kRowsUs;
  if (!rows.reduces_innermost()) {
    const double width =
        space / static_cast<double>(std::max<std::uint64_t>(1, rows.row_length())) * 4;
    const double most = std::min(static_cast<double>(rows.row_length()) / kLeastShare,
                                 kMostShares * static_cast<double>(device.multiprocessors));
    const double shares =
        std::clamp(kColumnBytes * device.multiprocessors / width, 1.0, std::max(1.0, most));
    // Of few columns, more threads merge each.
    const double lanes =
        std::min(kColumnLanes / (shares > kManyShares ? 4 : 1), static_cast<double>(rows.rows()));
    work.fixed_us += kMergeUs * shares * lanes / kColumnLanes;
  }
  std::uint64_t column_sums = 0;
  for (const OpId id : kernel) {
    const Op& op = graph.ops[id];
    if (op.row->family == OpFamily::kLoss) work.fixed_us += kLossUs;
    if (phases.crossed && !op.rows.empty() && op.rows != rows) ++column_sums;
  }
  add_column_sums(rows.rows(), rows.row_length(), column_sums, device, work);
  if (phases.never_fits || (phases.mixed_rows && !phases.crossed)) work.time_doubt = 0.25;
  work.time_doubt = std::max(work.time_doubt, 0.15);
}

// Clusters that begin together read, reduce and write together: of a wave of them, the first loads
// and the waits for the cluster's other blocks are not hidden behind others.
double cluster_waves_us(const Phases& phases, bool fit, const Device& device) {
  constexpr double kWaveUs = 2.7;
  constexpr std::uint64_t kTaken = 2 << 10;  // of a block's shared memory, for all else
  constexpr std::uint64_t kAccessBytes = 16;
  const std::uint64_t most = row_cluster(phases.rows, device.capability);
  if (!fit || most == 1 || phases.contracts || phases.held_bytes <= device.on_chip_bytes) return 0;
  for (const RowBlock& block : kRowBlocks) {
    const std::uint64_t share = device.on_chip_bytes / block.resident;
    if (share <= kTaken) continue;
    const std::uint64_t held = share - kTaken + std::uint64_t{block.threads} * block.register_bytes;
    const std::uint64_t least = ceil_div(phases.held_bytes, held);
    if (least > most) continue;
    const std::uint64_t rounds = ceil_div(phases.held_bytes, block.threads * kAccessBytes);
    const std::uint64_t blocks =
        row_cluster_blocks(phases.rows.rows(), rounds, std::max<std::uint64_t>(2, least), most,
                           block.resident, device.multiprocessors);
    return kWaveUs * static_cast<double>(ceil_div(
                         phases.rows.rows(),
                         running_clusters(blocks, block.resident, device.multiprocessors)));
  }
  return 0;
}

}  // namespace fusecalc
