#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace fusecalc {

// Which tilings are measured: at most so many, and of at most so many times the least predicted
// time.
struct Measured {
  std::size_t most = 3;
  double times = 1.125;
};

// Of tilings with the time that they take, those to measure, the best first.
template <class Tiling>
std::vector<Tiling> about_least(std::vector<std::pair<double, Tiling>> timed,
                                const Measured& measured = {}) {
  std::ranges::stable_sort(timed, {}, [](const auto& each) { return each.first; });
  std::vector<Tiling> tilings;
  for (const auto& [time, tiling] : timed) {
    if (tilings.size() < measured.most && time <= timed.front().first * measured.times)
      tilings.push_back(tiling);
  }
  return tilings;
}

}  // namespace fusecalc
