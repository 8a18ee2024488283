#include "plan/last_few.hpp"

#include <algorithm>

namespace fusecalc {

std::optional<LastFew> last_few(const ConvolutionSize& size, const Device& device) {
  constexpr std::uint64_t kMostTaps = 31;
  constexpr std::uint64_t kFewest = 8;  // filters
  constexpr std::uint64_t kGroup = 32;
  constexpr std::uint64_t kMostFilters = 64;
  // Of windows of several elements, or several groups of filters; and of single ones, of which all
  // channels are on their way at once.
  constexpr std::uint64_t kMostChannels = 40, kMostOfSingle = 256;
  constexpr std::uint64_t kMostRows = std::uint64_t{1} << 30U;
  constexpr std::uint64_t kMostShared = 81920;  // bytes, of one of two blocks
  const std::uint64_t rows = size.images * size.out;
  const bool single = size.taps == 1 && size.filters <= kGroup;
  if (device.capability < kFirstWithCopies || !size.channels_last || size.groups > 1 ||
      size.channels % 8 != 0 || size.channels > (single ? kMostOfSingle : kMostChannels) ||
      size.taps > kMostTaps || size.filters < kFewest || size.filters > kMostFilters ||
      rows > kMostRows) {
    return std::nullopt;
  }
  LastFew few{.steps = ceil_div(size.taps * size.channels, 32)};
  few.wide = ceil_div(size.filters, kGroup);
  few.strips = few.wide > 1 ? 1 : 2;  // registers hold so many sums
  if (few.shared_bytes() > std::min(kMostShared, device.on_chip_bytes)) return std::nullopt;
  const std::uint64_t running = LastFew::kResident * std::max(1U, device.multiprocessors);
  few.blocks = std::min(running, ceil_div(rows, few.rows() * (LastFew::kThreads / 32)));
  return few;
}

}  // namespace fusecalc
