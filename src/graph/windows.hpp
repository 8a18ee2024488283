#pragma once

#include <cstdint>
#include <vector>

#include "graph/attributes.hpp"
#include "graph/op_table.hpp"
#include "graph/shape.hpp"

namespace fusecalc {

// Which elements along one spatial axis make a result of pooling, upsampling or a convolution. All
// numbers of pooling and upsampling are below 2^30, so that the places of a window are exact in 32
// bits, and all of a convolution at most 2^31.
struct WindowAxis {
  enum class Kind : std::uint8_t {
    kSteps,    // `kernel` elements, `dilation` apart, from result * stride - padding on
    kShare,    // those of [result, result + 1) * in / out
    kNearest,  // the one at result * in / out, rounded down
    kLinear,   // the two around a place between them, by their distances
  };
  Kind kind = Kind::kSteps;
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  // Linear: a result's place is (result * per_result + start) / parts, and not below 0.
  std::int64_t per_result = 0;
  std::int64_t start = 0;
  std::int64_t parts = 1;

  struct Tap {
    std::uint64_t place = 0;
    double weight = 1;
  };
  // The elements of a result, without those in the padding.
  std::vector<Tap> taps(std::uint64_t result) const;
  // How many elements of the axis some window has, exactly.
  std::uint64_t touched() const;
  // The places of a window that lie within the padded axis.
  std::int64_t padded_taps(std::uint64_t result) const;
  // Whether that is `kernel` for all results.
  bool whole() const { return (out - 1) * stride + kernel <= in + 2 * padding; }
};

// The windows of an op over the last axes of its first input.
struct Windows {
  std::vector<WindowAxis> axes;
  std::uint64_t planes = 1;  // of all axes before them
};

// How many of an input's axes are spatial: as many as the op's lists have entries, else those after
// the first two.
std::size_t spatial_axes(const Attributes& attributes, std::size_t rank);

Windows windows_of(const OpRow& row, const Attributes& attributes, const Shape& in,
                   const Shape& out);

// The same of a convolution, whose kernel is the weight's extents: its spatial axes.
std::vector<WindowAxis> convolution_axes(const Attributes& attributes, const Shape& x,
                                         const Shape& weight, const Shape& out);

}  // namespace fusecalc
