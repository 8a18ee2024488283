#include "planner/region.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>
#include <utility>

namespace fusecalc {

Region::Region(const OpGraph& graph, std::vector<OpId> ops)
    : graph_(graph),
      ops_(std::move(ops)),
      by_id_(ops_.size()),
      before_(ops_.size(), 0),
      after_(ops_.size(), 0),
      neighbours_(ops_.size(), 0) {
  assert(!ops_.empty() && ops_.size() <= kMostRegionOps);
  std::ranges::sort(ops_, {}, [&](OpId op) { return graph_.rank[op]; });
  std::iota(by_id_.begin(), by_id_.end(), std::uint8_t{0});
  std::ranges::sort(by_id_, {}, [&](std::uint8_t place) { return ops_[place]; });
  find_orders();
  find_neighbours();
}

Kernel Region::kernel(OpSet ops) const {
  Kernel kernel;
  kernel.reserve(static_cast<std::size_t>(std::popcount(ops)));
  for (const std::uint8_t place : by_id_) {
    if ((ops >> place & 1U) != 0) kernel.push_back(ops_[place]);
  }
  return kernel;
}

Kernel Region::ranked(OpSet ops) const {
  Kernel kernel;
  kernel.reserve(static_cast<std::size_t>(std::popcount(ops)));
  for (; ops != 0; ops &= ops - 1) {
    kernel.push_back(ops_[static_cast<std::size_t>(std::countr_zero(ops))]);
  }
  return kernel;
}

void Region::find_orders() {
  for (std::size_t i = 0; i < size(); ++i) {
    for (const OpId earlier : graph_.before[ops_[i]]) {
      const auto place = static_cast<std::size_t>(std::ranges::find(ops_, earlier) - ops_.begin());
      if (place < size()) before_[i] |= before_[place] | set_of(place);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if ((before_[i] >> j & 1U) != 0) after_[j] |= set_of(i);
    }
  }
}

// Those that read the same memory, or of which one reads what the other makes.
void Region::find_neighbours() {
  std::vector<std::pair<TensorId, std::size_t>> readers;
  const auto link = [&](std::size_t a, std::size_t b) {
    if (a == b) return;
    neighbours_[a] |= set_of(b);
    neighbours_[b] |= set_of(a);
  };
  for (std::size_t i = 0; i < size(); ++i) {
    for (const Outline::Input& input : graph_.outline.inputs_of(ops_[i])) {
      readers.emplace_back(input.storage, i);
      if (input.producer == kNone) continue;
      const auto producer = std::ranges::find(ops_, input.producer);
      if (producer != ops_.end()) link(static_cast<std::size_t>(producer - ops_.begin()), i);
    }
  }
  std::ranges::sort(readers);
  for (std::size_t first = 0, i = 0; i < readers.size(); ++i) {
    if (readers[i].first != readers[first].first) first = i;
    for (std::size_t j = first; j < i; ++j) link(readers[j].second, readers[i].second);
  }
}

}  // namespace fusecalc
