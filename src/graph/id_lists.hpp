#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fusecalc {

// Lists of ids, one per index, stored contiguously: traversals of large graphs are bound by memory
// latency.
class IdLists {
 public:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;  // index of the list, its item

  IdLists() = default;
  // `count` lists out of the pairs, each in ascending order and without duplicates.
  IdLists(std::size_t count, const std::vector<Pair>& pairs);

  std::size_t size() const { return starts_.empty() ? 0 : starts_.size() - 1; }
  std::span<const std::uint32_t> operator[](std::uint32_t i) const {
    return {items_.data() + starts_[i], starts_[i + 1] - starts_[i]};
  }

 private:
  std::vector<std::uint32_t> starts_;  // and the end of the last
  std::vector<std::uint32_t> items_;
};

}  // namespace fusecalc
