#include "planner/cuts.hpp"

#include <algorithm>
#include <iterator>

namespace fusecalc {

std::vector<Part> parts_of(const OpGraph& graph, const Kernel& kernel) {
  const std::size_t count = kernel.size();
  std::vector<std::uint32_t> needs(count, 0);
  std::vector<std::uint32_t> needed_by(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    needs[i] = std::uint32_t{1} << i;
    for (const OpId earlier : graph.before[kernel[i]]) {
      const auto place = std::ranges::lower_bound(kernel, earlier);
      if (place != kernel.end() && *place == earlier)
        needs[i] |= needs[static_cast<std::size_t>(place - kernel.begin())];
    }
    for (std::size_t j = 0; j <= i; ++j) {
      if ((needs[i] >> j & 1U) != 0) needed_by[j] |= std::uint32_t{1} << i;
    }
  }
  const std::uint32_t all = (std::uint32_t{1} << count) - 1;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back({needed_by[i], true});
    parts.push_back({all & ~needed_by[i], false});
    parts.push_back({needs[i], false});
    parts.push_back({all & ~needs[i], true});
  }
  std::erase_if(parts, [&](const Part& part) { return part.mask == 0 || part.mask == all; });
  return parts;
}

std::pair<Kernel, Kernel> split(const Kernel& kernel, std::uint32_t mask) {
  std::pair<Kernel, Kernel> parts;
  parts.first.reserve(kernel.size());
  parts.second.reserve(kernel.size());
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    ((mask >> i & 1U) != 0 ? parts.first : parts.second).push_back(kernel[i]);
  }
  return parts;
}

Kernel joined(const Kernel& a, const Kernel& b) {
  Kernel both;
  both.reserve(a.size() + b.size());
  std::ranges::merge(a, b, std::back_inserter(both));
  return both;
}

}  // namespace fusecalc
