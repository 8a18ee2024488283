#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fusecalc {

// One list of ids for each of a row of things, kept side by side: walks over graphs with many ops
// spend their time on fetching memory.
class IdLists {
 public:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;  // whose list, what is in it

  IdLists() = default;
  // `count` lists out of the pairs, each in ascending order and without repetitions.
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
