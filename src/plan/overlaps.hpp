#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/grid_part.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// What the op takes of the value, if that is a part of it and known by place.
std::optional<StridedMap> part_taken_by(const OpGraph& graph, const Op& op,
                                        const Outline::Input& input);

// Which places of values ops take, by views, slices or indices. And of which values they take
// parts, by views or slices, that have elements in common: in a kernel, such elements count once.
// (Parts that have none in common need no places: they add up.)
class Overlaps {
 public:
  explicit Overlaps(const OpGraph& graph);

  bool of(TensorId value) const { return !parts_.empty() && overlaps_[value]; }
  // What the op that has this input takes of such a value; null where that is not known by place.
  // Equal parts are one.
  const GridPart* part_of(const Outline::Input& input) const {
    const std::uint32_t part = part_of_[static_cast<std::size_t>(&input - inputs_)];
    return part == kNone ? nullptr : &parts_[part];
  }
  // Equal for inputs that take the same places of their values; kNone where places are not known,
  // or are all.
  std::uint32_t places_of(const Outline::Input& input) const {
    return places_of_[static_cast<std::size_t>(&input - inputs_)];
  }

 private:
  const Outline::Input* inputs_ = nullptr;  // of all ops
  std::vector<GridPart> parts_;
  std::vector<std::uint32_t> places_of_;  // per input
  // Where there are parts: per input, in parts_ or kNone, and per tensor.
  std::vector<std::uint32_t> part_of_;
  std::vector<bool> overlaps_;
};

}  // namespace fusecalc
