#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "graph/shape.hpp"
#include "graph/written_graph.hpp"

namespace fusecalc {

// What the rules of model files say about shapes.

// An axis from 0; nothing if it is out of range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

// The strides of elements that lie one after the other.
std::vector<std::int64_t> contiguous(const Shape& shape);

// Whether elements with these strides can be read in another shape without a copy: each run of
// adjacent axes that is regrouped must lie in memory like one axis. Axes of one element lie
// anywhere.
bool viewable(const Shape& from, const std::vector<std::int64_t>& strides, const Shape& to);

// An attribute that lists sizes.
WrittenAttribute listed(std::string name, std::vector<WrittenDim> values);
WrittenAttribute listed(std::string name, const std::vector<std::int64_t>& values);
WrittenAttribute listed(std::string name, std::initializer_list<std::int64_t> values);

}  // namespace fusecalc
