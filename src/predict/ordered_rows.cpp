#include "predict/ordered_rows.hpp"

#include <algorithm>
#include <bit>

#include "core/ceil_div.hpp"
#include "plan/ordered_rows.hpp"

namespace fusecalc {

double sort_instructions(const OpGraph& graph, const Op& op, const Device& device) {
  constexpr double kStep = 8;     // of an element, in each step of the network
  constexpr double kSearch = 10;  // of each step of a search
  if (op.row->family != OpFamily::kSort) return 0;
  const OrderedRows rows = ordered_rows(graph, op);
  const SortTiling tiling = sort_tiling(graph, op, device.multiprocessors);
  const auto levels = static_cast<double>(std::bit_width(tiling.stretch) - 1);
  const auto stretches = static_cast<double>(rows.count * tiling.stretches);
  const auto searched = static_cast<double>(std::bit_width(tiling.stretch_kept()));
  return stretches * (kStep * static_cast<double>(tiling.stretch) * levels * (levels + 1) / 2 +
                      kSearch * static_cast<double>(tiling.stretch_kept()) * searched *
                          static_cast<double>(tiling.stretches - 1));
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
