#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/inference.hpp"

namespace fusecalc {

// What rules of several families share.

// The result type of a contraction: i32 for integers, bf16 for 8-bit and 4-bit floats.
DType product_type(DType a, DType b);

// Statistics of input i are as exact as they are accumulated: in f32, or in f64.
DType statistics_type(const Inference& op, std::size_t i);

// Input i, where given, must have exactly this shape.
void require_shape(const Inference& op, std::size_t i, const Shape& expected,
                   std::string_view what);

// How a convolution's window moves along spatial axis i of its first input, checked.
struct ConvolutionAxis {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t output_padding = 0;
};
ConvolutionAxis convolution_axis(const Inference& op, std::size_t i, std::size_t count);

// How many places a window of `taps` has along an axis of `extent` elements; fails where none.
std::uint64_t window_places(const Inference& op, const ConvolutionAxis& axis, std::uint64_t extent,
                            std::uint64_t taps, std::size_t x, std::size_t weight);

// Multiplies; fails where the product is too large.
std::uint64_t counted_flops(const Inference& op, std::initializer_list<std::uint64_t> factors);

// Pairs of a query and a key that it sees where attention is causal: the last query sees all keys,
// each before it one fewer, down to none, and none more than the window. All pairs must fit.
std::uint64_t visible_pairs(std::uint64_t queries, std::uint64_t keys,
                            std::optional<std::int64_t> window);

// Which gradients a backward op has as outputs, out of `most`: those that it lists, or the first.
std::vector<std::size_t> gradients_of(const Inference& op, std::size_t most);

}  // namespace fusecalc
