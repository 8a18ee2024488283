#include "plan/column_sums.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

constexpr unsigned kTeamWarp = 32;
constexpr std::uint64_t kGroupBytes = 16;
constexpr std::uint64_t kWidestGroup = 8;  // elements
// Groups in a row that are worth its ends by themselves.
constexpr std::uint64_t kLeastGroups = 16;
// Elements that a warp moves at full speed one by one.
constexpr std::uint64_t kAloneBytes = 4;
// Barriers of a block that teams of several warps can have, beside the block's own.
constexpr unsigned kMostBarriers = 15;
// Elements that a thread should have of a row, so that adding up threads' sums stays cheap.
constexpr std::uint64_t kWantedElements = 16;
// Static shared memory: a row's sums by each warp, for two rows, and a little more.
constexpr std::uint64_t kLeastReserved = 4 << 10;
constexpr std::uint64_t kMostReserved = 48 << 10;  // that a block may have

// The most threads of a block, and the 32-bit registers that each can spare for column sums and
// weights. More threads with fewer registers spend more instructions on adding up threads' sums.
constexpr std::uint64_t kTeamThreads = 512;
constexpr std::uint64_t kMostRegisters = 84;
// With which no other part of the loop has to spill.
constexpr std::uint64_t kEasyRegisters = 64;

std::uint64_t reserved_bytes(const ColumnWork& work) {
  constexpr std::uint64_t kWarps = kTeamThreads / kTeamWarp;
  constexpr std::uint64_t kOther = 512;
  return std::max(kLeastReserved, kOther + 2 * kWarps * work.row_sums * work.number_bytes);
}

void give_rounds(ColumnTiling& tiling, std::uint64_t rounds) {
  const std::uint64_t threads = ceil_div(tiling.groups, rounds);
  std::uint64_t team =
      threads < kTeamWarp ? std::bit_ceil(threads) : ceil_div(threads, kTeamWarp) * kTeamWarp;
  // A thread for each element at the ends, of which there are less than two groups.
  if (tiling.ends > 0) team = std::max<std::uint64_t>(team, std::uint64_t{2} * tiling.width);
  tiling.rounds = static_cast<unsigned>(rounds);
  tiling.team = static_cast<unsigned>(team);
  tiling.teams = static_cast<unsigned>(kTeamThreads / team);
  if (tiling.team > kTeamWarp) tiling.teams = std::min(tiling.teams, kMostBarriers);
}

// Distributes a row; `state`: registers for a group's columns.
bool spread(ColumnTiling& tiling, std::uint64_t state) {
  const std::uint64_t most = kMostRegisters / state;
  const std::uint64_t least = ceil_div(tiling.groups, kTeamThreads);
  if (least > most) return false;
  const std::uint64_t wanted = std::min({most, kWantedElements / tiling.width, tiling.groups});
  give_rounds(tiling, std::max(least, wanted));
  // More rounds, up to twice as many, where that leaves clearly fewer threads without a group.
  const auto busy = [](const ColumnTiling& each) {
    return each.teams * ceil_div(each.groups, std::uint64_t{each.rounds});
  };
  const std::uint64_t last =
      std::min<std::uint64_t>(kEasyRegisters / state, std::uint64_t{2} * tiling.rounds);
  for (std::uint64_t rounds = tiling.rounds + 1; rounds <= last; ++rounds) {
    ColumnTiling other = tiling;
    give_rounds(other, rounds);
    if (10 * busy(other) > 11 * busy(tiling)) tiling = other;
  }
  return true;
}

void choose_groups(ColumnTiling& tiling, const ColumnWork& work) {
  std::uint64_t width = std::bit_floor(
      std::min(kWidestGroup, std::max<std::uint64_t>(1, kGroupBytes / work.widest_bytes)));
  const bool anywhere = work.shifts && work.widest_bytes < kAloneBytes &&
                        work.length % width != 0 && work.length >= kLeastGroups * width;
  while (!anywhere && work.length % width != 0) width /= 2;
  tiling.width = static_cast<unsigned>(width);
  // Wherever a row begins, it has as many.
  tiling.groups = anywhere ? (work.length - (width - 1)) / width : work.length / width;
  tiling.ends = work.length - tiling.groups * width;
}

}  // namespace

std::uint64_t ColumnTiling::blocks(unsigned multiprocessors) const {
  const std::uint64_t most =
      std::min<std::uint64_t>(std::max(1U, multiprocessors), ceil_div(rows, std::uint64_t{teams}));
  if (ends == 0) return most;
  // So many rows after another one begin at the same place.
  const std::uint64_t period = width / std::gcd(length, std::uint64_t{width});
  const std::uint64_t step = period / std::gcd(period, std::uint64_t{teams});
  return most < step ? step : most / step * step;
}

std::optional<ColumnTiling> column_tiling(const ColumnWork& work, std::uint64_t on_chip_bytes) {
  const std::uint64_t reserved = reserved_bytes(work);
  if (reserved > kMostReserved || on_chip_bytes <= reserved) return std::nullopt;
  ColumnTiling tiling{.rows = work.rows, .length = work.length};
  choose_groups(tiling, work);
  const std::uint64_t state = std::max<std::uint64_t>(
      1, ceil_div(tiling.width * (work.column_bytes + work.sums * work.number_bytes),
                  sizeof(std::uint32_t)));
  if (!spread(tiling, state)) return std::nullopt;
  constexpr std::uint64_t kWantedBytes = 160 << 10;  // on the way, and in work
  constexpr std::uint64_t kMostStages = 8;
  const auto stage_bytes = [&] {
    return tiling.width * work.element_bytes * tiling.threads() * tiling.rounds;
  };
  // Fewer teams where rows are few, and where more leave no room for a row on the way.
  constexpr std::uint64_t kManyBlocks = 128;  // enough for all multiprocessors
  const unsigned least = std::max(1U, kTeamWarp / tiling.team);
  const std::uint64_t enough = ceil_div(ceil_div(tiling.rows, kManyBlocks), least) * least;
  tiling.teams = static_cast<unsigned>(std::min<std::uint64_t>(tiling.teams, enough));
  while (tiling.teams > least && 2 * stage_bytes() + reserved > on_chip_bytes) {
    tiling.teams -= least;
  }
  const std::uint64_t fit = (on_chip_bytes - reserved) / stage_bytes();
  if (fit == 0) return std::nullopt;
  tiling.stages = static_cast<unsigned>(
      std::min({fit, kMostStages, std::max<std::uint64_t>(2, kWantedBytes / stage_bytes())}));
  // The teams' sums of columns take the same place after the last row, and four numbers a thread in
  // the end.
  const std::uint64_t merged =
      tiling.teams > 1 && work.sums > 0 ? tiling.teams * tiling.length * work.number_bytes : 0;
  const std::uint64_t finished = work.sums > 0 ? work.number_bytes * tiling.threads() * 4 : 0;
  tiling.shared_bytes = std::max({tiling.stages * stage_bytes(), merged, finished});
  if (tiling.shared_bytes + reserved > on_chip_bytes) return std::nullopt;
  return tiling;
}

}  // namespace fusecalc
