#include "graph/id_lists.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

namespace fusecalc {

IdLists::IdLists(std::size_t count, const std::vector<Pair>& pairs)
    : starts_(count + 1, 0), items_(pairs.size()) {
  assert(pairs.size() <= std::numeric_limits<std::uint32_t>::max());
  for (const auto& [list, item] : pairs) ++starts_[list + 1];
  for (std::size_t i = 0; i < count; ++i) starts_[i + 1] += starts_[i];
  std::vector<std::uint32_t> next(starts_.begin(), starts_.end() - 1);
  for (const auto& [list, item] : pairs) items_[next[list]++] = item;
  // Removing duplicates moves the lists towards the front.
  const auto at = [&](std::uint32_t i) { return items_.begin() + i; };
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t last = starts_[i + 1];
    std::sort(at(first), at(last));
    const auto unique_end = std::unique(at(first), at(last));
    starts_[i] = end;
    end = static_cast<std::uint32_t>(std::copy(at(first), unique_end, at(end)) - items_.begin());
    first = last;
  }
  starts_[count] = end;
  items_.resize(end);
}

}  // namespace fusecalc
