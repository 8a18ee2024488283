#include "plan/norm_backward.hpp"

#include <algorithm>
#include <bit>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

constexpr unsigned kWarpThreads = 32;
constexpr unsigned kAccessBytes = 16;
// Barriers of a block that teams of several warps can have, beside the block's own.
constexpr unsigned kMostBarriers = 15;
// Elements that a thread should have of a row, so that adding up threads' sums stays cheap.
constexpr std::uint64_t kWantedElements = 16;
constexpr std::uint64_t kReservedBytes = 4 << 10;  // static shared memory

// The most threads of a block, and the 32-bit registers that each can spare for column sums and
// weights. More threads with fewer registers spend more instructions on adding up threads' sums.
constexpr std::uint64_t kMostThreads = 512;
constexpr std::uint64_t kMostRegisters = 84;

std::uint64_t held_bytes(const OpGraph& graph, const Op& op, const Operand& operand) {
  if (!copied_as_stored(graph, operand)) return computes_in_f64(graph, op) ? 8 : 4;
  return bytes_of(graph.tensors[operand.tensor].type.dtype, 1);
}

// Elements of 16 bytes of the widest tensor as large as x, if rows begin where they can be moved
// together.
unsigned width_of(const OpGraph& graph, const Op& op, std::uint64_t length) {
  std::uint64_t widest = 1;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (!copied_as_stored(graph, op.operands[i])) continue;
    widest = std::max(widest, bytes_of(graph.tensors[op.operands[i].tensor].type.dtype, 1));
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (gradient_of(op, i) > 0) continue;
    widest = std::max(widest, bytes_of(graph.tensors[op.outputs[i]].type.dtype, 1));
  }
  auto width = static_cast<unsigned>(std::min<std::uint64_t>(8, kAccessBytes / widest));
  while (length % width != 0) width /= 2;
  return width;
}

// Distributes a row of so many groups; `state`: registers for a group's columns.
bool spread(NormBackwardTiling& tiling, std::uint64_t groups, std::uint64_t state) {
  const std::uint64_t most = kMostRegisters / state;
  const std::uint64_t least = ceil_div(groups, kMostThreads);
  if (least > most) return false;
  const std::uint64_t wanted = std::min({most, kWantedElements / tiling.width, groups});
  const std::uint64_t rounds = std::max(least, wanted);
  const std::uint64_t threads = ceil_div(groups, rounds);
  const std::uint64_t team = threads < kWarpThreads
                                 ? std::bit_ceil(threads)
                                 : ceil_div(threads, kWarpThreads) * kWarpThreads;
  tiling.rounds = static_cast<unsigned>(rounds);
  tiling.team = static_cast<unsigned>(team);
  tiling.teams = static_cast<unsigned>(kMostThreads / team);
  if (tiling.team > kWarpThreads) tiling.teams = std::min(tiling.teams, kMostBarriers);
  return true;
}

}  // namespace

bool copied_as_stored(const OpGraph& graph, const Operand& operand) {
  const Tensor& tensor = graph.tensors[operand.tensor];
  return tensor.window == tensor.value && is_float(tensor.type.dtype) &&
         !is_packed(tensor.type.dtype);
}

bool computes_in_f64(const OpGraph& graph, const Op& op) {
  const auto wide = [&](TensorId id) { return graph.tensors[id].type.dtype == DType::kF64; };
  return std::ranges::any_of(op.outputs, wide) ||
         std::ranges::any_of(op.operands, wide, &Operand::tensor);
}

std::optional<NormBackwardTiling> norm_backward_tiling(const OpGraph& graph, const Op& op,
                                                       std::uint64_t on_chip_bytes) {
  const std::size_t weight = op.row->accumulator == Accumulator::kMoments ? 4 : 3;
  NormBackwardTiling tiling;
  tiling.rows = graph.tensors[op.operands[2].tensor].elements;
  tiling.length = graph.tensors[op.operands[1].tensor].elements / tiling.rows;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const std::size_t which = gradient_of(op, i);
    (which == 0 ? tiling.rows_wanted : which == 1 ? tiling.dw_wanted : tiling.db_wanted) = true;
  }
  tiling.width = width_of(graph, op, tiling.length);
  const std::uint64_t number_bytes = computes_in_f64(graph, op) ? 8 : 4;
  std::uint64_t column_bytes = tiling.column_sums() * number_bytes;
  if (op.operands.size() > weight) column_bytes += held_bytes(graph, op, op.operands[weight]);
  const std::uint64_t state =
      std::max<std::uint64_t>(1, ceil_div(tiling.width * column_bytes, sizeof(std::uint32_t)));
  if (!spread(tiling, ceil_div(tiling.length, tiling.width), state)) return std::nullopt;
  const std::uint64_t group_bytes = tiling.width * (held_bytes(graph, op, op.operands[0]) +
                                                    held_bytes(graph, op, op.operands[1]));
  constexpr std::uint64_t kWantedBytes = 160 << 10;  // on the way, and in work
  constexpr std::uint64_t kMostStages = 8;
  if (on_chip_bytes <= kReservedBytes) return std::nullopt;
  const auto stage_bytes = [&] { return group_bytes * tiling.threads() * tiling.rounds; };
  // Fewer teams where rows are few, and where more leave no room for a row on the way.
  constexpr std::uint64_t kManyBlocks = 128;  // enough for all multiprocessors
  const unsigned least = std::max(1U, kWarpThreads / tiling.team);
  const std::uint64_t enough = ceil_div(ceil_div(tiling.rows, kManyBlocks), least) * least;
  tiling.teams = static_cast<unsigned>(std::min<std::uint64_t>(tiling.teams, enough));
  while (tiling.teams > least && 2 * stage_bytes() + kReservedBytes > on_chip_bytes) {
    tiling.teams -= least;
  }
  const std::uint64_t fit = (on_chip_bytes - kReservedBytes) / stage_bytes();
  if (fit == 0) return std::nullopt;
  tiling.stages = static_cast<unsigned>(
      std::min({fit, kMostStages, std::max<std::uint64_t>(2, kWantedBytes / stage_bytes())}));
  // The teams' sums of columns take the same place after the last row.
  const std::uint64_t merged = tiling.teams > 1 && tiling.column_sums() > 0
                                   ? std::uint64_t{tiling.teams} * tiling.length * number_bytes
                                   : 0;
  // And four numbers a thread in the end.
  const std::uint64_t finished = tiling.column_sums() > 0 ? number_bytes * tiling.threads() * 4 : 0;
  tiling.shared_bytes = std::max({tiling.stages * stage_bytes(), merged, finished});
  if (tiling.shared_bytes + kReservedBytes > on_chip_bytes) return std::nullopt;
  return tiling;
}

}  // namespace fusecalc
