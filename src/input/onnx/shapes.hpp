#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/shape.hpp"
#include "input/model_shapes.hpp"
#include "input/onnx/constants.hpp"
#include "input/onnx/model.hpp"

namespace fusecalc {

// What the attributes of ONNX operators, or the constants that newer opsets pass in their place,
// say about shapes. Empty results: not known, or they do not fit.

std::int64_t whole_attribute(const OnnxNode& node, std::string_view name, std::int64_t fallback);
double real_attribute(const OnnxNode& node, std::string_view name, double fallback);
std::string_view text_attribute(const OnnxNode& node, std::string_view name,
                                std::string_view fallback);
// The integers of an attribute, else of a constant; empty if neither is given.
std::optional<std::vector<std::int64_t>> integers_of(const OnnxNode& node, std::string_view name,
                                                     const Constant* constant);

// The result's shape of Reshape, Squeeze, Unsqueeze and Flatten.
std::optional<Shape> reshaped_by(const OnnxNode& node, const Shape& shape,
                                 const Constant* argument);

std::optional<std::vector<std::size_t>> permutation_of(const OnnxNode& node, std::size_t rank);

// Slice: which elements of each axis.
struct SliceRange {
  Shape shape;
  std::vector<std::int64_t> starts;  // within the axis
  std::vector<std::int64_t> steps;   // never 0
};
std::optional<SliceRange> sliced_by(const OnnxNode& node, const Shape& shape,
                                    std::span<const Constant* const> inputs);

}  // namespace fusecalc
