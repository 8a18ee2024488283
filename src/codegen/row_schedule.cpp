#include "codegen/row_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <set>

#include "codegen/schedule.hpp"
#include "core/ceil_div.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {
namespace {

constexpr unsigned kAccessBytes = 16;
constexpr unsigned kMostThreads = kMostRowThreads;
// What a thread keeps in flight.
constexpr std::uint64_t kFlightBytes = 64;
// What neighbouring threads take together in whole groups, or in smaller ones. A line, or a sector:
// less would waste parts of them.
constexpr std::uint64_t kLineBytes = 128;
constexpr std::uint64_t kSectorBytes = 32;
// Of a block, where a warp or less has a row: many small blocks end more evenly than few large
// ones.
constexpr unsigned kShortRowThreads = 128;
// Groups in a row that are worth its ends by themselves.
constexpr std::uint64_t kLeastShifted = 14;
// Elements of a row that is moved sooner in a run than from groups that begin anywhere, as long as
// its lanes find what they read in different banks of the shared memory.
constexpr std::uint64_t kLongestRun = 160;
// Bytes of a row whose loss is computed sooner from a run than from groups that begin anywhere: of
// elements that take two bytes in all memories together, and of others.
constexpr std::uint64_t kLongestLoss = 448;
constexpr std::uint64_t kLongestWideLoss = 288;
// Threads take so little at once where rows are better moved many together.
constexpr std::uint64_t kNarrowBytes = 4;
// What the hardware copies to shared memory at once, at least.
constexpr std::uint64_t kLeastCopy = 4;
// Of a state in 32 bits; wider states are passed in.
constexpr std::uint64_t kNarrowStateBytes = 28;
// Static shared memory through which states are merged.
constexpr std::uint64_t kScratchBytes = std::uint64_t{48} << 10U;
constexpr std::uint64_t kOther = 1024;  // static shared memory besides

std::uint64_t scratch_bytes(const RowSchedule& schedule, const RowWork& work) {
  const std::uint64_t states =
      schedule.columns ? schedule.threads / 2 * schedule.width : schedule.threads / kWarp;
  return std::min(kScratchBytes, work.state_bytes * states) + kOther;
}

bool hold_in_registers(RowSchedule& schedule, const RowWork& work) {
  // A block of 1024 threads leaves each 64 registers, which the rest of the code needs, too.
  const unsigned most = schedule.threads <= kMostThreads / 2 ? 128 : 64;
  const std::uint64_t groups = std::uint64_t{schedule.rounds} * schedule.width;
  if (groups * work.stored_bytes > most) return false;
  schedule.in_registers = schedule.rounds;
  schedule.as_stored = groups * work.held_bytes > most;
  return true;
}

// Where some threads have a group less than others, or ends, a branch would keep what is read after
// it back until the rest has been worked on. Of blocks that end, others take the place and read in
// the meantime; those that stay read a row's groups ahead, if they are many and the blocks small.
void read_ahead(RowSchedule& schedule, const RowWork& work) {
  const std::uint64_t groups = work.rows.row_length() / schedule.width;
  if (!schedule.shifted && groups % schedule.team == 0) return;
  const std::uint64_t bytes = std::uint64_t{schedule.rounds} * schedule.width * work.stored_bytes;
  if (bytes <= kFlightBytes || schedule.threads > kShortRowThreads) return;
  schedule.copies = hold_in_registers(schedule, work);
}

// A multiprocessor has one block of 1,024 threads where these have more than 32 registers. Of half
// as many it has two, one of which loads while the other works.
void prefer_two_blocks(RowSchedule& schedule, const RowWork& work) {
  if (work.held_bytes > sizeof(float)) return;
  RowSchedule half = schedule;
  half.team = half.threads = kMostThreads / 2;
  half.rounds = static_cast<unsigned>(
      ceil_div(work.rows.row_length() / schedule.width, std::uint64_t{half.team}));
  half.resident = 2;
  if (hold_in_registers(half, work) && !half.as_stored) schedule = half;
}

// Holds where there is room for it: in a block's registers, or so much of its shared memory.
void place_held(RowSchedule& schedule, const RowWork& work, std::uint64_t shared_bytes) {
  if (hold_in_registers(schedule, work)) return;
  const std::uint64_t groups = std::uint64_t{schedule.rounds} * schedule.width;
  if (groups * work.stored_bytes * schedule.threads + scratch_bytes(schedule, work) >
      shared_bytes) {
    return;
  }
  schedule.in_shared = schedule.rounds;
  schedule.as_stored = true;
}

// Rows too long for the registers of a small block: as many blocks per multiprocessor as possible,
// so that one reads while another reduces or writes. What exceeds a block's share of the shared
// memory stays in registers. Where no block holds a row, those of a cluster hold it together.
void place_long(RowSchedule& schedule, const RowWork& work, const Device& device) {
  constexpr std::uint64_t kReserved = 1024;  // of each block
  const std::uint64_t groups = work.rows.row_length() / schedule.width;
  const std::uint64_t group_bytes = schedule.width * work.stored_bytes;
  const unsigned wanted = schedule.team;
  const auto place = [&](const RowBlock& choice, std::uint64_t most) {
    // Wide arithmetic takes more registers than three blocks leave.
    if (choice.resident > 2 && work.state_bytes > kNarrowStateBytes) return false;
    schedule.team = schedule.threads = std::min(choice.threads, wanted);
    const unsigned resident = choice.resident * choice.threads / schedule.threads;
    const std::uint64_t share = (device.on_chip_bytes + kReserved) / resident;
    const std::uint64_t taken = kReserved + scratch_bytes(schedule, work);
    if (share < taken) return false;
    const std::uint64_t room = (share - taken) / (schedule.threads * group_bytes);
    const std::uint64_t held = room + choice.register_bytes / group_bytes;
    const std::uint64_t rounds = ceil_div(groups, schedule.threads);
    if (held * most < rounds) return false;
    schedule.splits = row_cluster_blocks(work.rows.rows(), rounds, ceil_div(rounds, held), most,
                                         resident, device.multiprocessors);
    schedule.cluster = schedule.splits > 1;
    schedule.rounds = static_cast<unsigned>(ceil_div(groups, schedule.splits * schedule.threads));
    schedule.resident = resident;
    schedule.in_shared = static_cast<unsigned>(std::min<std::uint64_t>(schedule.rounds, room));
    schedule.in_registers = schedule.rounds - schedule.in_shared;
    schedule.as_stored = true;
    schedule.copies = work.writes && work.plain && schedule.width * work.least_bytes >= kLeastCopy;
    return true;
  };
  const std::uint64_t cluster = row_cluster(work.rows, device.capability);
  // Where one value is held, two or three blocks on a multiprocessor in clusters are faster than
  // one that holds a row alone, and three than two where threads do more than wait: what is copied
  // is all on its way at once, but what they work out is not, and moments take long.
  const bool one = work.stored_bytes <= work.widest_bytes;
  const bool busy = !(work.writes && work.plain) || work.moments;
  for (const RowBlock& choice : kRowBlocks) {
    if (!one || choice.resident == 1) continue;
    if (place(choice, 1) || (busy && place(choice, cluster))) return;
  }
  for (const RowBlock& choice : kRowBlocks) {
    if (one && choice.resident > 1 && place(choice, cluster)) return;
  }
  for (const std::uint64_t most : {std::uint64_t{1}, cluster}) {
    for (const RowBlock& choice : kRowBlocks) {
      if (place(choice, most)) return;
    }
  }
}

// Few long rows: several blocks for each. Blocks that wait for each other must be resident
// together, two on each multiprocessor.
void split(RowSchedule& schedule, const RowWork& work, std::uint64_t blocks, const Device& device) {
  constexpr unsigned kLeastRounds = 8;
  const std::uint64_t resident = std::uint64_t{2} * device.multiprocessors;
  // What a block leaves of places takes long to merge.
  const std::uint64_t all = work.places ? resident * 3 / 2 : resident * 2;
  const std::uint64_t wanted = work.waits ? resident / blocks : ceil_div(all, blocks);
  const std::uint64_t most = schedule.rounds / kLeastRounds;
  if (wanted < 2 || most < 2) return;
  schedule.splits = std::min(wanted, most);
  schedule.rounds = static_cast<unsigned>(ceil_div(schedule.rounds, schedule.splits));
}

// Blocks that sum over all rows merge their sums in the end: the fewer there are, the better. Where
// that takes little of a block's time, there are several times as many as run at once, so that
// faster multiprocessors have more of them.
void stay(RowSchedule& schedule, const RowWork& work, const Device& device) {
  constexpr unsigned kResidentThreads = 1536;
  constexpr unsigned kHeavyThreads = 1024;  // that hold much of their own in registers
  constexpr unsigned kLightThreads = 2048;  // that go through runs, or share long rows
  constexpr unsigned kTurns = 4;
  const bool heavy = schedule.holds() || work.state_bytes > kNarrowStateBytes;
  const bool light = !heavy && (schedule.in_runs || schedule.threads > kShortRowThreads);
  if (schedule.resident == 0) {
    const unsigned threads = heavy ? kHeavyThreads : light ? kLightThreads : kResidentThreads;
    schedule.resident = threads / schedule.threads;
  }
  const std::uint64_t blocks =
      std::uint64_t{schedule.resident} * (light ? kTurns : 1) * device.multiprocessors;
  if (blocks < ceil_div(work.rows.rows(), schedule.teams())) schedule.stays = blocks;
}

// Threads, in whole warps, that have as many of a row's groups each; 0 where about so many rounds
// leave none. A group that only some threads have is a branch, behind which less is on its way.
unsigned even_team(std::uint64_t groups, std::uint64_t rounds, unsigned most) {
  for (const std::uint64_t each : {rounds, rounds + 1, rounds - 1, rounds + 2}) {
    if (each == 0 || groups % (each * kWarp) != 0 || groups / each > most) continue;
    return static_cast<unsigned>(groups / each);
  }
  return 0;
}

RowSchedule along_memory(const RowWork& work, unsigned width, const Device& device) {
  const bool shifted = work.rows.row_length() % width != 0;
  RowSchedule schedule{.columns = false, .width = width, .shifted = shifted};
  const std::uint64_t groups = work.rows.row_length() / width;
  const std::uint64_t group_bytes =
      std::uint64_t{width} * std::max<std::uint64_t>(1, work.widest_bytes);
  const std::uint64_t rounds = std::max<std::uint64_t>(1, kFlightBytes / group_bytes);
  std::uint64_t wanted = std::bit_ceil(std::max<std::uint64_t>(1, ceil_div(groups, rounds)));
  const std::uint64_t together = group_bytes < kAccessBytes ? kSectorBytes : kLineBytes;
  wanted = std::max(
      wanted, std::min(std::bit_ceil(std::max<std::uint64_t>(1, groups)), together / group_bytes));
  // A thread for each element at a row's ends.
  if (shifted) wanted = std::max(wanted, std::uint64_t{2} * width);
  const auto take = [&](unsigned team) {
    schedule.team = team;
    schedule.threads = schedule.team > kWarp ? schedule.team : kShortRowThreads;
    schedule.rounds =
        static_cast<unsigned>(std::max<std::uint64_t>(1, ceil_div(groups, schedule.team)));
  };
  const auto pattern = [&](unsigned most) {
    take(static_cast<unsigned>(std::min<std::uint64_t>(wanted, most)));
  };
  pattern(kMostThreads);
  if (work.holds) {
    // Asynchronous copies to shared memory need no registers while they are in flight.
    const bool copied = work.plain && schedule.team >= kMostThreads / 2;
    if (!copied && !shifted && schedule.team > kWarp && groups % schedule.team != 0) {
      const std::uint64_t least = std::max(rounds, ceil_div(groups, std::uint64_t{kMostThreads}));
      if (const unsigned team = even_team(groups, least, kMostThreads)) take(team);
    }
    if (schedule.team <= kWarp) {
      place_held(schedule, work, device.on_chip_bytes);
    } else if (copied || !hold_in_registers(schedule, work)) {
      place_long(schedule, work, device);
    } else if (schedule.team == kMostThreads) {
      prefer_two_blocks(schedule, work);
    }
  }
  if (!schedule.holds()) {
    // The end of a row takes longer than a round, and longer still where warps share it: where all
    // rows are summed, teams are small enough for several rounds.
    const std::uint64_t rounds_of_warp = shifted ? 4 : 2;
    constexpr std::uint64_t kRounds = 5;
    pattern(kMostThreads / 2);
    if (work.adds_up) {
      const std::uint64_t most =
          std::max(std::min<std::uint64_t>(kWarp, groups / rounds_of_warp), groups / kRounds);
      const std::uint64_t few =
          std::bit_floor(std::max<std::uint64_t>(shifted ? 2 * width : 1, most));
      pattern(static_cast<unsigned>(std::min<std::uint64_t>(few, schedule.team)));
    }
    if (schedule.team > kWarp) split(schedule, work, work.rows.rows(), device);
  }
  if (work.adds_up && schedule.splits == 1) {
    if (work.read_once) read_ahead(schedule, work);
    stay(schedule, work, device);
  }
  return schedule;
}

// Short rows that begin anywhere: whole groups are moved of many together. Few threads share a row,
// one element at a time.
std::optional<RowSchedule> in_runs(const RowWork& work, const Device& device) {
  constexpr std::uint64_t kRunBytes = std::uint64_t{36} << 10U;
  const std::uint64_t length = work.rows.row_length();
  // Threads that do little but read are better off in larger teams.
  const std::uint64_t rounds = work.holds || work.adds_up ? 40 : 20;
  RowSchedule schedule{.threads = kLoopThreads, .in_runs = true};
  const auto share = [&](std::uint64_t team) {
    schedule.team = static_cast<unsigned>(team);
    schedule.rounds = static_cast<unsigned>(ceil_div(length, team));
  };
  share(std::bit_ceil(ceil_div(length, rounds)));
  while (work.holds && !hold_in_registers(schedule, work)) {
    if (schedule.team == kWarp) return std::nullopt;
    share(std::uint64_t{2} * schedule.team);
  }
  while (schedule.teams() * length * work.run_bytes > kRunBytes) schedule.threads /= 2;
  // Runs of so many rows begin with a whole group, whatever the type.
  if (schedule.teams() < kAccessBytes) return std::nullopt;
  // Few rows are better spread over all multiprocessors.
  if (work.rows.rows() < std::uint64_t{2} * device.multiprocessors * schedule.teams()) {
    return std::nullopt;
  }
  if (work.adds_up) stay(schedule, work, device);
  return schedule;
}

// Lanes of a warp that read one bank of the shared memory at once, at most, in other words of it.
unsigned collisions(const RowSchedule& schedule, const RowWork& work) {
  constexpr std::uint64_t kBanks = 32;
  constexpr std::uint64_t kWordBytes = 4;
  std::array<std::set<std::uint64_t>, kBanks> words;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const std::uint64_t element =
        lane / schedule.team * work.rows.row_length() + lane % schedule.team;
    const std::uint64_t word = element * work.widest_bytes / kWordBytes;
    words[word % kBanks].insert(word);
  }
  std::size_t most = 0;
  for (const std::set<std::uint64_t>& each : words) most = std::max(most, each.size());
  return static_cast<unsigned>(most);
}

// A block has whole lines, so that it reads memory from end to end. Each multiprocessor has one
// large block: they leave little to merge.
std::optional<RowSchedule> whole_lines(const RowWork& work, const Device& device) {
  constexpr std::uint64_t kLeastRounds = 4;
  constexpr std::uint64_t kMostState = 256;  // of a thread: the rest of 64 registers is for loads
  const unsigned width = kAccessBytes / work.widest_bytes;
  const std::uint64_t columns = work.rows.rows();
  const std::uint64_t groups = columns * work.lines / width;
  const std::uint64_t team = kMostThreads / groups;
  const std::uint64_t room = (kScratchBytes - kOther) / (work.line_state_bytes * columns);
  if (team == 0 || room == 0 || width * work.line_state_bytes > kMostState) return std::nullopt;
  RowSchedule schedule{.columns = true, .width = width, .lines = work.lines, .room = room};
  schedule.team = static_cast<unsigned>(team);
  schedule.threads = static_cast<unsigned>(team * groups);
  schedule.splits = device.multiprocessors;
  const std::uint64_t rounds =
      ceil_div(work.rows.row_length() / work.lines, team * schedule.splits);
  if (rounds < kLeastRounds || columns > schedule.splits * schedule.threads) return std::nullopt;
  schedule.rounds = static_cast<unsigned>(rounds);
  return schedule;
}

RowSchedule across_memory(const RowWork& work, unsigned width, const Device& device) {
  RowSchedule schedule{.columns = true, .width = width};
  const std::uint64_t length = work.rows.row_length();
  const std::uint64_t column_groups = work.rows.rows() / width;
  // Threads side by side: where there are few columns, the others take other elements of them.
  const auto most_wide =
      static_cast<unsigned>(std::min<std::uint64_t>(kWarp, std::bit_ceil(column_groups)));
  const auto fit = [&](unsigned wide, unsigned threads, std::uint64_t shared_bytes) {
    schedule.threads = threads;
    schedule.team = threads / wide;
    schedule.rounds =
        static_cast<unsigned>(std::max<std::uint64_t>(1, ceil_div(length, schedule.team)));
    place_held(schedule, work, shared_bytes);
    return schedule.holds();
  };
  const auto hold = [&](unsigned least_bytes, std::uint64_t shared_bytes) {
    const unsigned least =
        std::min(most_wide, std::max(1U, least_bytes / std::max(1U, width * work.widest_bytes)));
    for (unsigned wide = most_wide; wide >= least; wide /= 2) {
      for (const unsigned threads : {kLoopThreads, 2 * kLoopThreads, kMostThreads}) {
        const bool enough = work.state_bytes * threads / 2 * width <= kScratchBytes;
        if (enough && fit(wide, threads, shared_bytes)) return true;
      }
    }
    return false;
  };
  // Several blocks to a multiprocessor, so that one reads while another writes, as long as each
  // reads two sectors of a line; else any.
  constexpr std::uint64_t kBlocks = 3;
  if (work.holds && (hold(64, device.on_chip_bytes / kBlocks) || hold(32, device.on_chip_bytes))) {
    return schedule;
  }
  const auto share = [&](unsigned wide) {
    unsigned threads = kLoopThreads;
    while (threads > kWarp && work.state_bytes * threads / 2 * width > kScratchBytes) threads /= 2;
    schedule.threads = threads;
    schedule.team = static_cast<unsigned>(
        std::min<std::uint64_t>(threads / wide, std::bit_ceil(std::max<std::uint64_t>(1, length))));
    schedule.rounds =
        static_cast<unsigned>(std::max<std::uint64_t>(1, ceil_div(length, schedule.team)));
    schedule.splits = 1;
    split(schedule, work, ceil_div(column_groups, threads / schedule.team), device);
  };
  share(most_wide);
  // Few columns: what blocks leave of them is merged by more threads where fewer are side by side.
  constexpr std::uint64_t kManySplits = 32;
  const auto line = static_cast<unsigned>(kLineBytes / (std::uint64_t{width} * work.widest_bytes));
  if (schedule.splits > kManySplits && !work.writes && line < most_wide) share(std::max(1U, line));
  return schedule;
}

}  // namespace

RowSchedule schedule_rows(const RowWork& work, const Device& device) {
  if (work.lines > 0) {
    if (const auto schedule = whole_lines(work, device)) return *schedule;
  }
  const RowLayout::MergedAxis inner = work.rows.axes.back();
  unsigned width = kAccessBytes / work.widest_bytes;
  const bool is_short = inner.extent < kLeastShifted * width;
  const std::uint64_t longest = work.run_bytes <= 2 ? kLongestLoss : kLongestWideLoss;
  const bool longer =
      work.adds_up ? inner.extent * work.run_bytes < longest : inner.extent < kLongestRun;
  const bool shifts = work.shifts && inner.reduced && !is_short;
  while (!shifts && inner.extent % width != 0) width /= 2;
  const bool narrow = inner.extent * work.widest_bytes % (2 * kNarrowBytes) != 0;
  if (inner.reduced && (is_short || longer) && narrow && work.run_bytes > 0) {
    const auto schedule = in_runs(work, device);
    const bool any = is_short || work.adds_up;
    if (schedule && (any || collisions(*schedule, work) <= 2)) return *schedule;
  }
  return inner.reduced ? along_memory(work, width, device) : across_memory(work, width, device);
}

std::string describe(const RowSchedule& schedule) {
  std::string text = fmt::format("{} by {} threads", schedule.columns ? "columns" : "rows",
                                 schedule.team * schedule.splits);
  if (schedule.splits > 1) text += fmt::format(" in {} blocks", schedule.splits);
  if (schedule.lines > 1) text += fmt::format(", {} lines as one", schedule.lines);
  if (schedule.in_runs) text += ", many together on chip";
  if (schedule.holds()) text += ", held in ";
  if (schedule.in_shared > 0) text += "shared memory";
  if (schedule.in_shared > 0 && schedule.in_registers > 0) text += " and ";
  if (schedule.in_registers > 0) text += "registers";
  return text;
}

}  // namespace fusecalc
