#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "codegen/matrix_product.hpp"
#include "graph/op_graph.hpp"
#include "graph/windows.hpp"

namespace fusecalc {

// An attribute of a window's axis, which is not negative.
constexpr std::uint64_t number(std::int64_t count) { return static_cast<std::uint64_t>(count); }

// A convolution as kernels/convolve.cuh takes it. Its result lies as [image][group][filter][pixel].
struct Convolution {
  // How far apart neighbours of the input are in its value's memory, in elements; 0 along an axis
  // of extent 1.
  struct Strides {
    std::uint64_t offset = 0;  // of the first element
    std::uint64_t image = 0;
    std::uint64_t channel = 0;
    std::array<std::uint64_t, 3> at{};
  };

  std::uint64_t images = 1;
  std::uint64_t groups = 1;
  std::uint64_t channels = 1;  // of a group's input
  std::uint64_t filters = 1;   // of a group's result
  // The spatial ones, outermost first; those that it lacks come before them.
  std::array<WindowAxis, 3> axes{};
  std::optional<Strides> strides{};  // nothing where views leave none

  std::uint64_t pixels() const;  // of an image of the result
  std::uint64_t taps() const;
  // Those of all images, each image's filled up to groups of eight.
  std::uint64_t columns() const { return images * ((pixels() + 7) / 8 * 8); }
  bool has_two_axes() const;  // at most
  // Whether windows are single elements, side by side.
  bool has_single_windows() const;
  // From one pixel of the input to the next, where those of all images follow each other.
  std::optional<std::uint64_t> pixels_apart() const;
  // The largest power of two, up to `most`, that all lines of the input begin at multiples of.
  std::uint64_t alignment(std::uint64_t most) const;
  // The struct `Geometry` of device code.
  std::string text() const;
};

Convolution convolution_of(const OpGraph& graph, const Op& op);
// How a tensor of images, or of filters, lies in memory; nothing where its views leave no strides.
std::optional<Convolution::Strides> strides_in_memory(const OpGraph& graph, TensorId id);
// A ConvolutionStrides of device code.
std::string text_of(const Convolution::Strides& strides);
std::uint64_t pixels_of_input(const Convolution& convolution);
// Whether channels are neighbours, and all else begins at multiples of 8 elements, so that 16 bytes
// of 16-bit ones are copied at a time.
bool lies_in_eights(const Convolution::Strides& strides);
// The same of an input, which the copy engine can gather from as it lies.
bool has_channels_last(const Convolution& convolution);
// Of an input that has strides.
ConvolutionSize size_of(const Convolution& convolution, DType type);

// The product that a convolution is whose windows are single elements, side by side: nothing
// otherwise, or where views break the operands' lines up.
std::optional<MatrixProduct> product_of_pixels(const OpGraph& graph, const Op& op);
// The same where channels lie last: the pixels of all images are lines of the first operand.
std::optional<MatrixProduct> product_of_pixel_rows(const OpGraph& graph, const Op& op);

}  // namespace fusecalc
