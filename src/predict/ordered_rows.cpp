#include "predict/ordered_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "core/ceil_div.hpp"
#include "plan/ordered_rows.hpp"

namespace fusecalc {

// The steps of the network that sorts stretches, one after the other, or as many instructions as
// they have; then merges, each a launch.
double sort_us(const OpGraph& graph, const Op& op, const Device& device) {
  constexpr double kStepUs = 0.11;
  constexpr double kMergeUs = 3;
  constexpr double kSearch = 100;  // instructions' time of each step of a search in all other runs
  if (op.row->family != OpFamily::kSort) return 0;
  const OrderedRows rows = ordered_rows(graph, op);
  const SortTiling tiling = sort_tiling(graph, op, device);
  const double width = tiling.wide ? 2 : 1;
  // A network over all elements, or two over one of each thread.
  const double of_step = (8 + 8 / static_cast<double>(tiling.items)) * width;
  const std::uint64_t sorted = tiling.picks() ? tiling.threads() : tiling.stretch();
  const auto levels = static_cast<double>(std::bit_width(sorted) - 1);
  const double steps = (tiling.picks() ? 2 : 1) * levels * (levels + 1) / 2;
  const auto elements = static_cast<double>(rows.count * tiling.runs.front().runs * sorted);
  double us = std::max(lane_us(device, of_step * elements * steps), kStepUs * steps * width);
  for (std::size_t i = 0; i + 1 < tiling.runs.size(); ++i) {
    const SortedRuns& runs = tiling.runs[i];
    const auto searches = static_cast<double>(
        rows.count * runs.runs * runs.kept * static_cast<std::uint64_t>(std::bit_width(runs.kept)));
    us += kMergeUs + lane_us(device, kSearch * width * searches);
  }
  return us;
}

double sort_workspace(const OpGraph& graph, const Op& op, const Device& device) {
  if (op.row->family != OpFamily::kSort) return 0;
  const SortTiling tiling = sort_tiling(graph, op, device);
  const std::array<std::uint64_t, 2> bytes = tiling.buffers(ordered_rows(graph, op).count);
  return static_cast<double>(bytes[0] + bytes[1]);
}

// A block has a row, 256 elements at a time; or a thread a column.
double scan_us(const OpGraph& graph, const Op& op, const Device& device) {
  constexpr std::uint64_t kThreads = 256;
  constexpr std::uint64_t kBlocks = 8;  // on each multiprocessor
  constexpr double kStepUs = 0.33;      // of a row's, and a bit less of a column's
  constexpr double kColumnUs = 0.24;
  if (op.row->family != OpFamily::kScan) return 0;
  const OrderedRows rows = ordered_rows(graph, op);
  const std::uint64_t resident = kBlocks * std::max(1U, device.multiprocessors);
  const bool along = rows.apart == 1;
  const std::uint64_t waves = ceil_div(rows.count, along ? resident : resident * kThreads);
  const std::uint64_t steps = along ? ceil_div(rows.length, kThreads) : rows.length;
  return static_cast<double>(waves) * static_cast<double>(steps) * (along ? kStepUs : kColumnUs);
}

}  // namespace fusecalc
