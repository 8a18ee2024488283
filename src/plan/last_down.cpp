#include "plan/last_down.hpp"

#include <algorithm>
#include <array>

#include "core/ceil_div.hpp"

namespace fusecalc {
namespace {

// Lines of the result that are summed at a time.
std::uint64_t open_lines(const LastShape& shape) {
  return (shape.taps[0] - 1) * shape.dilation[0] / shape.stride[0] + 1;
}

// Of a thread: weights, sums, a line of the input, and addresses.
std::uint64_t registers_of_thread(const LastShape& shape, const LastDown& down) {
  constexpr std::uint64_t kHeld = 24;
  const std::uint64_t taps = shape.taps[0] * shape.taps[1];
  return LastDown::kOwn * (taps + open_lines(shape) * down.beside + shape.covered(1, down.beside)) +
         kHeld;
}

// Instructions of a thread: of each line of the input, products, loads with their conversions,
// copies, and the epilogue of the lines of the result that end with it.
double instructions_of_thread(const LastShape& shape, const LastDown& down) {
  constexpr double kStep = 50;       // waits, copies' addresses, branches
  constexpr double kElement = 1.7;   // loads and copies of two channels
  constexpr double kConversion = 2;  // of them, from 16 bits
  constexpr double kEpilogue = 6;
  constexpr double kBegin = 3;  // steps
  const auto of = [](std::uint64_t count) { return static_cast<double>(count); };
  const double results = of(down.beside) / of(shape.stride[0]);
  const double span = of(shape.covered(1, down.beside));
  const double step = kStep + 2 * results * of(shape.taps[0] * shape.taps[1]) +
                      span * (kElement + (shape.bytes == 2 ? kConversion : 0)) +
                      results * kEpilogue;
  return step * (of(shape.covered(0, down.lines)) + kBegin);
}

// With as many stages as leave room for the blocks that registers leave room for.
bool fit_resident(const LastShape& shape, const Device& device, LastDown& down) {
  constexpr std::uint64_t kRegisters = 65536;
  constexpr std::uint64_t kThreadRegisters = 255;
  constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 30U;  // numbered by an int
  constexpr std::uint64_t kOnChip = std::uint64_t{200} << 10U;   // the rest is left to the L1
  const std::uint64_t on_chip = std::min(kOnChip, device.on_chip_bytes);
  constexpr std::uint64_t kFewestStages = 3;
  constexpr std::uint64_t kLine = 128;
  const std::uint64_t registers = registers_of_thread(shape, down);
  if (registers > kThreadRegisters || down.units(shape) > kMostUnits) return false;
  down.resident =
      std::max<std::uint64_t>(1, kRegisters / (ceil_div(registers, 8) * 8 * down.threads));
  const std::uint64_t own = LastDown::kOwn * shape.bytes;
  const std::uint64_t stage =
      shape.covered(1, down.beside) * (down.threads * own + kLine / (16 / own));
  down.stages = std::min(down.stages, on_chip / (down.resident * stage));
  down.shared_bytes = down.stages * stage;
  return down.stages >= kFewestStages;
}

// What the multiprocessor with the most blocks executes, longer where few warps wait for memory at
// a time, or where small blocks read what others read, too.
double time_going_down(const LastShape& shape, const LastDown& down,
                       std::uint64_t multiprocessors) {
  constexpr double kWarpsThatWait = 2;  // of a multiprocessor, as long as the rest of them
  constexpr double kSmallBlocks = 13;   // threads
  const std::uint64_t all = down.blocks(shape);
  const std::uint64_t running = std::min(down.resident, ceil_div(all, multiprocessors));
  const std::uint64_t waves = ceil_div(all, running * multiprocessors);
  const auto threads = static_cast<double>(down.threads);
  const double at_once = static_cast<double>(running) * threads;
  return static_cast<double>(waves) * at_once * instructions_of_thread(shape, down) *
         (1 + kWarpsThatWait / (at_once / 32)) * (1 + kSmallBlocks / threads);
}

}  // namespace

std::uint64_t LastDown::units(const LastShape& shape) const {
  return shape.images * ceil_div(shape.out[0], lines) * ceil_div(shape.out[1], beside) *
         (shape.channels / kOwn);
}

std::optional<LastDown> last_down(const LastShape& shape, const Device& device) {
  constexpr std::uint64_t kMostBeside = 7;
  constexpr std::array<std::uint64_t, 3> kThreads = {256, 128, 64};
  if (shape.channels * shape.bytes % 16 != 0 || shape.bytes > 4 || shape.bytes < 2) {
    return std::nullopt;
  }
  const std::uint64_t multiprocessors = std::max(1U, device.multiprocessors);
  std::optional<LastDown> best;
  double least = 0;
  const auto consider = [&](LastDown down) {
    if (!fit_resident(shape, device, down)) return;
    const double time = time_going_down(shape, down, multiprocessors);
    if (!best || time < least) best = down, least = time;
  };
  for (const std::uint64_t threads : kThreads) {
    for (std::uint64_t beside = 1; beside <= std::min(kMostBeside, shape.out[1]); ++beside) {
      for (std::uint64_t parts = 1; parts <= shape.out[0]; ++parts) {
        consider({.beside = beside, .lines = ceil_div(shape.out[0], parts), .threads = threads});
      }
    }
  }
  return best;
}

}  // namespace fusecalc
