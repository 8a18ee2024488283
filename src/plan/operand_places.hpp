#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "graph/grid_part.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {

// What the op takes of the value, if that is a part of it and known by place.
std::optional<StridedMap> part_taken_by(const OpGraph& graph, const Op& op,
                                        const Outline::Input& input);

// Which places of values ops take, by views, slices or indices, or for a part of their result. In a
// kernel, elements that several of them take count once.
class OperandPlaces {
 public:
  explicit OperandPlaces(const OpGraph& graph);

  // Whether ops take parts of it, by views or slices, that have elements in common. (Parts that
  // have none add up.)
  bool of(TensorId value) const { return !overlaps_.empty() && overlaps_[value]; }
  // What the op that has this input takes of its value; null where that is not known by place, or
  // is all of it. Equal parts are one.
  const GridPart* part_of(const Outline::Input& input) const {
    return part_of_.empty() ? nullptr : part_of_[index_of(input)];
  }
  // Equal for inputs that take the same places of their values, where these are no grids in them;
  // kNone where places are not known, or are all.
  std::uint32_t places_of(const Outline::Input& input) const {
    return places_of_.empty() ? kNone : places_of_[index_of(input)];
  }

  // What an op takes of an input's value for a part of its result.
  struct Image {
    bool known = false;
    const GridPart* part = nullptr;  // null: nothing, if that is known
  };
  Image image(OpId op, const Outline::Input& input, const GridPart* result);

 private:
  std::size_t index_of(const Outline::Input& input) const {
    return static_cast<std::size_t>(&input - inputs_);
  }
  struct Asked {
    std::size_t input = 0;
    const GridPart* result = nullptr;
    bool operator==(const Asked&) const = default;
  };
  struct AskedHash {
    std::size_t operator()(const Asked& asked) const {
      constexpr std::size_t kFactor = 0x9e3779b97f4a7c15;
      return std::hash<const GridPart*>{}(asked.result) ^ (asked.input * kFactor);
    }
  };

  // The shape in which parts of a value are told: its own, or that of a row.
  Shape shape_of(TensorId value) const;
  Image find_image(OpId op, const Outline::Input& input, const GridPart& result);

  const OpGraph& graph_;
  const Outline::Input* inputs_ = nullptr;  // of all ops
  std::set<GridPart> parts_;
  std::unordered_map<Asked, Image, AskedHash> images_;
  std::vector<std::uint32_t> places_of_;  // per input, where any is known
  // Where there are parts: per input, and per tensor.
  std::vector<const GridPart*> part_of_;
  std::vector<bool> overlaps_;
  std::vector<bool> as_rows_;
};

}  // namespace fusecalc
