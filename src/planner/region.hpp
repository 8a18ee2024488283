#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

// A set of a region's ops, by their places in it.
using OpSet = std::uint64_t;
inline constexpr std::size_t kMostRegionOps = 64;

constexpr OpSet set_of(std::size_t place) { return OpSet{1} << place; }

// Up to kMostRegionOps ops of a graph, in canonical order, with no path from one of them to another
// through other ops.
class Region {
 public:
  Region(const OpGraph& graph, std::vector<OpId> ops);

  const OpGraph& graph() const { return graph_; }
  std::size_t size() const { return ops_.size(); }
  // The one op, which the region has.
  OpSet only(OpId op) const {
    return set_of(static_cast<std::size_t>(std::ranges::find(ops_, op) - ops_.begin()));
  }
  OpSet all() const { return ~OpSet{0} >> (kMostRegionOps - size()); }
  // Those that must run before the op at this place, directly or not; and those after it.
  OpSet before(std::size_t place) const { return before_[place]; }
  OpSet after(std::size_t place) const { return after_[place]; }
  // Those that share a tensor with it.
  OpSet neighbours(std::size_t place) const { return neighbours_[place]; }
  Kernel kernel(OpSet ops) const;
  // The same ops in canonical order, in which they can run, too.
  Kernel ranked(OpSet ops) const;

 private:
  void find_orders();
  void find_neighbours();

  const OpGraph& graph_;
  std::vector<OpId> ops_;
  std::vector<std::uint8_t> by_id_;  // places in the order of their ids
  std::vector<OpSet> before_;
  std::vector<OpSet> after_;
  std::vector<OpSet> neighbours_;
};

}  // namespace fusecalc
