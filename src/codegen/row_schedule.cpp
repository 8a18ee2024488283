#include "codegen/row_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace fusecalc {
namespace {

constexpr unsigned kAccessBytes = 16;
constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kThreads = 256;
// What a thread keeps in flight.
constexpr std::uint64_t kFlightBytes = 64;
// Static shared memory, that states pass through.
constexpr std::uint64_t kScratchBytes = std::uint64_t{48} << 10U;

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// Holds where there is room for it.
void place_held(RowSchedule& schedule, const RowWork& work, const Target& target) {
  if (!work.holds) return;
  const std::uint64_t per_thread = std::uint64_t{schedule.looks} * schedule.width * work.held_bytes;
  const std::uint64_t scratch = std::min(
      kScratchBytes, work.state_bytes * (schedule.columns ? schedule.threads / 2 * schedule.width
                                                          : schedule.threads / kWarp) +
                         1024);
  // A block of 1024 threads leaves each 64 registers, which the rest of the code needs, too.
  const std::uint64_t in_registers = schedule.threads < kMostThreads ? 128 : 64;
  if (per_thread <= in_registers) {
    schedule.keep = RowSchedule::Keep::kRegisters;
  } else if (per_thread * schedule.threads + scratch <= target.shared_bytes_per_block) {
    schedule.keep = RowSchedule::Keep::kShared;
  }
}

// Few long rows: several blocks for each. Blocks that wait for each other must be resident
// together, two on each multiprocessor.
void split(RowSchedule& schedule, const RowWork& work, std::uint64_t blocks, const Target& target) {
  constexpr unsigned kLeastRounds = 8;
  const std::uint64_t resident = std::uint64_t{2} * target.multiprocessors;
  const std::uint64_t wanted = work.waits ? resident / blocks : ceil_div(2 * resident, blocks);
  const std::uint64_t most = schedule.looks / kLeastRounds;
  if (wanted < 2 || most < 2) return;
  schedule.splits = std::min(wanted, most);
  schedule.looks = static_cast<unsigned>(ceil_div(schedule.looks, schedule.splits));
}

RowSchedule along_memory(const RowWork& work, unsigned width, const Target& target) {
  RowSchedule schedule{.columns = false, .width = width};
  const std::uint64_t groups = work.rows.row_length() / width;
  const std::uint64_t group_bytes =
      std::uint64_t{width} * std::max<std::uint64_t>(1, work.widest_bytes);
  const std::uint64_t rounds = std::max<std::uint64_t>(1, kFlightBytes / group_bytes);
  const std::uint64_t wanted = std::bit_ceil(std::max<std::uint64_t>(1, ceil_div(groups, rounds)));
  schedule.team = static_cast<unsigned>(std::min<std::uint64_t>(wanted, kMostThreads));
  if (!work.holds) schedule.team = std::min(schedule.team, kMostThreads / 2);
  schedule.threads = std::max(schedule.team, kThreads);
  if (schedule.team > kWarp) schedule.threads = schedule.team;
  schedule.looks =
      static_cast<unsigned>(std::max<std::uint64_t>(1, ceil_div(groups, schedule.team)));
  place_held(schedule, work, target);
  if (schedule.keep == RowSchedule::Keep::kNothing && schedule.team > kWarp) {
    split(schedule, work, work.rows.rows(), target);
  }
  return schedule;
}

RowSchedule across_memory(const RowWork& work, unsigned width, const Target& target) {
  RowSchedule schedule{.columns = true, .width = width};
  const std::uint64_t length = work.rows.row_length();
  const std::uint64_t column_groups = work.rows.rows() / width;
  const auto fit = [&](unsigned wide, unsigned threads) {
    schedule.threads = threads;
    schedule.team = threads / wide;
    schedule.looks =
        static_cast<unsigned>(std::max<std::uint64_t>(1, ceil_div(length, schedule.team)));
    place_held(schedule, work, target);
    return schedule.keep != RowSchedule::Keep::kNothing;
  };
  if (work.holds) {
    const unsigned least = std::max(1U, kWarp / std::max(1U, width * work.widest_bytes));
    for (unsigned wide = kWarp; wide >= least; wide /= 2) {
      for (const unsigned threads : {kThreads, 2 * kThreads, kMostThreads}) {
        const bool enough = work.state_bytes * threads / 2 * width <= kScratchBytes;
        if (enough && fit(wide, threads)) return schedule;
      }
    }
  }
  schedule.keep = RowSchedule::Keep::kNothing;
  unsigned threads = kThreads;
  while (threads > kWarp && work.state_bytes * threads / 2 * width > kScratchBytes) threads /= 2;
  schedule.threads = threads;
  schedule.team = std::min<unsigned>(
      threads / kWarp, static_cast<unsigned>(std::bit_ceil(std::max<std::uint64_t>(1, length))));
  schedule.looks =
      static_cast<unsigned>(std::max<std::uint64_t>(1, ceil_div(length, schedule.team)));
  const std::uint64_t blocks = ceil_div(column_groups, threads / schedule.team);
  split(schedule, work, blocks, target);
  return schedule;
}

}  // namespace

RowSchedule schedule_rows(const RowWork& work, const Target& target) {
  const RowLayout::Run inner = work.rows.runs.back();
  unsigned width = kAccessBytes / work.widest_bytes;
  while (inner.extent % width != 0) width /= 2;
  return inner.reduced ? along_memory(work, width, target) : across_memory(work, width, target);
}

std::string describe(const RowSchedule& schedule) {
  std::string text = fmt::format("{} by {} threads", schedule.columns ? "columns" : "rows",
                                 schedule.team * schedule.splits);
  if (schedule.splits > 1) text += fmt::format(" in {} blocks", schedule.splits);
  if (schedule.keep == RowSchedule::Keep::kRegisters) text += ", held in registers";
  if (schedule.keep == RowSchedule::Keep::kShared) text += ", held in shared memory";
  return text;
}

}  // namespace fusecalc
