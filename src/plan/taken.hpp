#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "graph/grid_part.hpp"

namespace fusecalc {

// A part of a value, as large as `elements`: a grid, where its places are known. Else a number
// tells it from others: parts of one number are of the same elements.
struct TakenPart {
  const GridPart* grid = nullptr;  // equal grids of a value are one object
  std::uint64_t number = 0;
  std::uint64_t elements = 0;
};

// How many elements grids of a value have together, each set of them counted once.
class GridUnions {
 public:
  // Nothing where that takes long to tell.
  std::optional<std::uint64_t> elements(const std::vector<const GridPart*>& sorted) {
    const auto [known, added] = known_.try_emplace(sorted);
    if (added) known->second = elements_of_union(sorted);
    return known->second;
  }

 private:
  std::map<std::vector<const GridPart*>, std::optional<std::uint64_t>> known_;
};

// What ops take of one value, part by part.
class TakenParts {
 public:
  void clear() {
    grids_.clear();
    others_.clear();
    sum_ = of_others_ = 0;
    overlap_ = false;
  }
  bool has(const TakenPart& part) const {
    if (part.grid != nullptr) return std::ranges::binary_search(grids_, part.grid);
    return std::ranges::find(others_, part.number, &TakenPart::number) != others_.end();
  }
  // One that it does not have.
  void add(const TakenPart& part) {
    if (part.grid != nullptr) {
      grids_.insert(std::ranges::lower_bound(grids_, part.grid), part.grid);
    } else {
      others_.push_back(part);
      of_others_ = sum(of_others_, part.elements);
    }
    sum_ = sum(sum_, part.elements);
  }
  // Its grids may have elements in common.
  void set_overlap() { overlap_ = true; }

  // Together, as far as places tell.
  std::uint64_t elements(GridUnions& unions) const {
    if (!overlap_ || grids_.size() < 2) return sum_;
    const std::optional<std::uint64_t> together = unions.elements(grids_);
    return together ? sum(*together, of_others_) : sum_;
  }
  bool overlap() const { return overlap_; }
  template <typename Function>
  void for_each(const Function& function) const {
    for (const GridPart* grid : grids_) function({.grid = grid, .elements = grid->elements()});
    for (const TakenPart& part : others_) function(part);
  }
  // Of which only the number of elements is known.
  const std::vector<TakenPart>& others() const { return others_; }

 private:
  static std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return b > most - a ? most : a + b;
  }

  std::vector<const GridPart*> grids_;  // sorted
  std::vector<TakenPart> others_;
  std::uint64_t sum_ = 0;  // of all
  std::uint64_t of_others_ = 0;
  bool overlap_ = false;
};

}  // namespace fusecalc
