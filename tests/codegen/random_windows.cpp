// What fits convolutions, pooling, upsampling and gradients.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/random_rules.hpp"

namespace fusecalc::testing {
namespace {

void transposed_convolution(Drawer& d, const OpRow& row, Line& line) {
  Shape x = {2, 8};
  Shape weight = {8, 8};
  for (std::size_t i = 0; i < row.spatial_axes; ++i) {
    x.push_back(9 + i);
    weight.push_back(3);
  }
  line.inputs = {d.input(x).name, d.input(weight).name};
}

void convolution(Drawer& d, const OpRow& row, Line& line) {
  constexpr std::array<std::uint64_t, 4> kGroups = {1, 1, 2, 8};
  constexpr std::array<std::uint64_t, 6> kChannels = {1, 3, 4, 8, 16, 32};
  constexpr std::array<std::uint64_t, 5> kExtents = {7, 9, 16, 18, 24};
  constexpr std::array<std::uint64_t, 4> kTaps = {1, 3, 3, 5};
  const std::uint64_t groups = d.one_of(kGroups);
  const std::uint64_t channels = d.one_of(kChannels);
  const std::uint64_t filters = groups * d.one_of(kChannels);
  Shape x = {1 + d.dice().below(3), groups * channels};
  Shape weight = {filters, channels};
  const std::uint64_t taps = d.one_of(kTaps);
  for (std::size_t i = 0; i < row.spatial_axes; ++i) {
    x.push_back(row.spatial_axes == 3 ? 7 + i : d.one_of(kExtents));
    weight.push_back(taps);
  }
  line.inputs = {d.input(x).name, d.input(weight).name};
  if (d.dice().chance(30)) line.inputs.push_back(d.input({filters}).name);
  line.attributes = {fmt::format("\"groups\": {}", groups)};
  if (d.dice().chance(60)) line.attributes.push_back(fmt::format("\"padding\": {}", taps / 2));
  if (d.dice().chance(30)) line.attributes.emplace_back("\"stride\": 2");
  if (taps == 3 && d.dice().chance(20)) line.attributes.emplace_back("\"dilation\": 2");
}

// Planes of the last one or two axes.
Drawn planes(Drawer& d, std::size_t spatial) {
  const Drawn x = d.pick_ranked(spatial + 1);
  const auto small = [](std::uint64_t extent) { return extent > 0 && extent < 300; };
  const bool fits =
      std::all_of(x.shape.end() - static_cast<std::ptrdiff_t>(spatial), x.shape.end(), small);
  if (fits) return x;
  constexpr std::array<std::uint64_t, 6> kExtents = {5, 8, 14, 16, 33, 56};
  Shape shape = {1 + d.dice().below(4), d.one_of(kExtents)};
  while (shape.size() < spatial + 2) shape.push_back(d.one_of(kExtents));
  return d.input(shape);
}

void pool(Drawer& d, const OpRow& row, Line& line) {
  const std::size_t spatial = 2 + d.dice().below(2);
  line.inputs = {planes(d, spatial).name};
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> stride;
  for (std::size_t i = 0; i < spatial; ++i) {
    kernel.push_back(1 + static_cast<std::int64_t>(d.dice().below(5)));
    padding.push_back(
        static_cast<std::int64_t>(d.dice().below(static_cast<std::uint64_t>(kernel[i]) / 2 + 1)));
    stride.push_back(1 + static_cast<std::int64_t>(d.dice().below(3)));
  }
  line.attributes = {list("kernel", kernel), list("padding", padding)};
  if (d.dice().chance(70)) line.attributes.push_back(list("stride", stride));
  line.attributes.push_back(flag("ceil_mode", d.dice().chance(40)));
  if ((row.attributes & only(Attribute::kDilation)) != 0 && d.dice().chance(30)) {
    line.attributes.emplace_back("\"dilation\": 2");
  }
  if ((row.attributes & only(Attribute::kCountIncludePad)) != 0) {
    line.attributes.push_back(flag("count_include_pad", d.dice().chance(50)));
  }
  if (row.max_outputs == 2 && d.dice().chance(40)) line.outputs = 2;
}

void resized(Drawer& d, const OpRow& row, Line& line) {
  const std::size_t spatial = 2 + d.dice().below(2);
  line.inputs = {planes(d, spatial).name};
  const bool scales = (row.attributes & only(Attribute::kScale)) != 0 && d.dice().chance(40);
  if (scales) {
    line.attributes = {d.dice().chance(60) ? "\"scale\": 2" : "\"scale\": 1.5"};
  } else {
    std::vector<std::int64_t> size;
    while (size.size() < spatial) size.push_back(1 + static_cast<std::int64_t>(d.dice().below(40)));
    line.attributes = {list("size", size)};
  }
  if ((row.attributes & only(Attribute::kAlignCorners)) != 0) {
    line.attributes.push_back(flag("align_corners", d.dice().chance(50)));
  }
  if (row.max_outputs == 2 && d.dice().chance(40)) line.outputs = 2;
}

void softmax_backward(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name, d.dice().chance(10) ? x.name : d.input(x.shape).name};
  if (d.dice().chance(40)) std::swap(line.inputs[0], line.inputs[1]);
  if (d.dice().chance(40)) line.attributes = {list("axes", {some_axis(d, x.shape.size())})};
}

void loss_backward(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  const Shape samples(x.shape.begin(), x.shape.end() - 1);
  constexpr std::array<std::string_view, 3> kWords = {"none", "mean", "sum"};
  const std::string_view reduction = d.one_of(kWords);
  line.inputs = {d.input(reduction == "none" ? samples : Shape{}).name, x.name,
                 d.indices(samples).name};
  line.attributes = {word("reduction", reduction)};
}

void convolution_backward(Drawer& d, const OpRow& row, Line& line) {
  const bool transposed = row.family == OpFamily::kTransposedConvolutionBackward;
  Shape dy = {2, 8};
  Shape x = {2, 8};
  Shape weight = {8, 8};
  for (std::size_t i = 0; i < row.spatial_axes; ++i) {
    x.push_back(9 + i);
    weight.push_back(3);
    dy.push_back(transposed ? 11 + i : 7 + i);
  }
  line.inputs = {d.input(dy).name, d.input(x).name, d.input(weight).name};
  line.outputs = 1 + d.dice().below(3);
}

void norm_backward(Drawer& d, const OpRow& row, Line& line) {
  const Drawn x = d.pick_ranked(2);
  Shape of_rows = x.shape;
  of_rows.back() = 1;
  if (row.per_channel) of_rows = {x.shape[1]};
  line.inputs = {d.input(x.shape).name, x.name};
  while (line.inputs.size() < row.min_inputs) line.inputs.push_back(d.input(of_rows).name);
  line.outputs = 1 + d.dice().below(row.max_outputs);
}

void attention_backward(Drawer& d, const OpRow& /*row*/, Line& line) {
  const std::string q = d.input({2, 4, 33, 64}).name;
  const std::string k = d.input({2, 2, 40, 64}).name;
  line.inputs = {d.input({2, 4, 33, 64}).name,
                 q,
                 k,
                 d.input({2, 2, 40, 64}).name,
                 d.input({2, 4, 33, 64}).name,
                 d.input({2, 4, 33}).name};
  line.attributes = {flag("causal", d.dice().chance(50))};
  line.outputs = 3;
}

void embedding_backward(Drawer& d, const OpRow& /*row*/, Line& line) {
  line.inputs = {d.input({5, 7, 64}).name, d.indices({5, 7}).name};
  line.attributes = {list("size", {100})};
}

void pool_backward(Drawer& d, const OpRow& row, Line& line) {
  line.inputs = {d.input({2, 8, 7, 7}).name};
  if (row.min_inputs == 1) line.attributes = {list("size", {14, 14})};
  if (row.min_inputs > 1) line.inputs.push_back(d.input({2, 8, 14, 14}).name);
  if ((row.attributes & only(Attribute::kKernel)) != 0) line.attributes = {list("kernel", {2, 2})};
  if (row.min_inputs == 3) line.inputs.push_back(d.indices({2, 8, 7, 7}).name);
}

constexpr std::array kWindowRules = {
    RandomRule{OpFamily::kConvolution, convolution},
    RandomRule{OpFamily::kTransposedConvolution, transposed_convolution},
    RandomRule{OpFamily::kPool, pool},
    RandomRule{OpFamily::kAdaptivePool, resized},
    RandomRule{OpFamily::kUpsample, resized},
    RandomRule{OpFamily::kSoftmaxBackward, softmax_backward},
    RandomRule{OpFamily::kLossBackward, loss_backward},
    RandomRule{OpFamily::kConvolutionBackward, convolution_backward},
    RandomRule{OpFamily::kTransposedConvolutionBackward, convolution_backward},
    RandomRule{OpFamily::kRowNormBackward, norm_backward},
    RandomRule{OpFamily::kNormBackward, norm_backward},
    RandomRule{OpFamily::kAttentionBackward, attention_backward},
    RandomRule{OpFamily::kEmbeddingBackward, embedding_backward},
    RandomRule{OpFamily::kPoolBackward, pool_backward},
};

}  // namespace

std::span<const RandomRule> window_rules() { return kWindowRules; }

}  // namespace fusecalc::testing
