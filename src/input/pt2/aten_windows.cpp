// ATen's pooling, upsampling and convolutions.

#include <algorithm>
#include <array>
#include <cmath>

#include "input/model_shapes.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Inputs = std::vector<ModelGraph::Input>;
using Attributes = std::vector<WrittenAttribute>;

// One number for each spatial axis; `otherwise` where the call gives none.
std::optional<std::vector<std::int64_t>> spatial(const AtenCall& call, std::string_view name,
                                                 std::size_t axes, std::int64_t otherwise) {
  std::vector<std::int64_t> values = call.wholes(name);
  if (values.empty()) values.push_back(otherwise);
  if (values.size() == 1) values.resize(axes, values[0]);
  return values.size() == axes ? std::optional(values) : std::nullopt;
}

// The attributes that all kinds of pooling have.
template <std::size_t axes>
std::optional<Attributes> windows(const AtenCall& call) {
  const auto kernel = spatial(call, "kernel_size", axes, 1);
  const auto padding = spatial(call, "padding", axes, 0);
  const auto dilation = spatial(call, "dilation", axes, 1);
  const bool strided = !call.wholes("stride").empty();
  const auto stride = strided ? spatial(call, "stride", axes, 1) : kernel;
  if (!kernel || !padding || !dilation || !stride) return std::nullopt;
  Attributes attributes = {listed("kernel", *kernel), listed("stride", *stride),
                           listed("padding", *padding)};
  if (std::ranges::any_of(*dilation, [](std::int64_t step) { return step != 1; })) {
    attributes.push_back(listed("dilation", *dilation));
  }
  if (call.truth("ceil_mode", false)) attributes.push_back({.name = "ceil_mode", .value = true});
  // A single axis is given as a list of one, which would count for all axes after the second.
  const bool fits = axes > 1 || call.type().shape().size() == 3;
  return fits ? std::optional(attributes) : std::nullopt;
}

// Windows of an image and the columns of a matrix that hold their elements: [N, C, H, W] and
// [N, C h w, windows], or both without N.
struct Unfolded {
  Shape image;
  std::uint64_t lead = 1;  // N C
  std::array<std::uint64_t, 2> kernel{};
  std::array<std::uint64_t, 2> windows{};
  std::vector<std::int64_t> stride{};
  std::vector<std::int64_t> padding{};
  std::vector<std::int64_t> dilation{};

  // Each element is in one window.
  bool tiles() const {
    bool all = true;
    for (std::size_t i = 0; i < 2; ++i) {
      all = all && padding[i] == 0 && static_cast<std::uint64_t>(stride[i]) == kernel[i] &&
            dilation[i] == 1 && image[image.size() - 2 + i] == kernel[i] * windows[i];
    }
    return all;
  }
};

std::optional<Unfolded> unfolded(const AtenCall& call, const Shape& image) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31U;
  const auto kernel = spatial(call, "kernel_size", 2, 1);
  const auto stride = spatial(call, "stride", 2, 1);
  const auto padding = spatial(call, "padding", 2, 0);
  const auto dilation = spatial(call, "dilation", 2, 1);
  if (!kernel || !stride || !padding || !dilation || image.size() < 3) return std::nullopt;
  Unfolded result{.image = image,
                  .lead = elements_between(image, 0, image.size() - 2),
                  .stride = *stride,
                  .padding = *padding,
                  .dilation = *dilation};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto sane = [](std::int64_t value, std::int64_t least) {
      return value >= least && value < kMost;
    };
    const auto extent = static_cast<std::int64_t>(image[image.size() - 2 + i]);
    if (!sane((*kernel)[i], 1) || !sane((*stride)[i], 1) || !sane((*padding)[i], 0) ||
        !sane((*dilation)[i], 1) || extent >= kMost) {
      return std::nullopt;
    }
    const std::int64_t room = extent + 2 * (*padding)[i] - (*dilation)[i] * ((*kernel)[i] - 1) - 1;
    if (room < 0) return std::nullopt;
    result.kernel[i] = static_cast<std::uint64_t>((*kernel)[i]);
    result.windows[i] = static_cast<std::uint64_t>(room / (*stride)[i] + 1);
  }
  return result;
}

// Elements of windows that lie side by side change places: one copy.
bool moved(const AtenCall& call, ModelGraph::TensorId from, const Shape& apart,
           const std::vector<std::int64_t>& perm) {
  const auto view = reshaped(call.graph(), from, model_type(apart, call.type().dtype()));
  const AtenCall::Step copy =
      view ? call.step("transpose", {*view}, {listed("perm", perm)}) : std::nullopt;
  return call.last_step("reshape", {copy}, {listed("shape", call.type().extents)});
}

// Windows that overlap, or leave elements out: for each of their elements a part of the image.
bool joined_windows(const AtenCall& call, ModelGraph::TensorId image, const Unfolded& windows) {
  constexpr std::uint64_t kMostParts = 64;
  if (windows.kernel[0] * windows.kernel[1] > kMostParts) return false;
  AtenCall::Step whole = image;
  const std::size_t rank = windows.image.size();
  if (windows.padding[0] + windows.padding[1] > 0) {
    std::vector<std::int64_t> counts(rank);
    for (std::size_t i = 0; i < 2; ++i) counts[rank - 2 + i] = windows.padding[i];
    whole = call.step("pad", {whole}, {listed("before", counts), listed("after", counts)});
  }
  const ModelType part =
      model_type({windows.lead, 1, windows.windows[0], windows.windows[1]}, call.type().dtype());
  std::vector<AtenCall::Step> parts;
  const auto end = [&](std::size_t axis, std::int64_t start) {
    return start + (static_cast<std::int64_t>(windows.windows[axis]) - 1) * windows.stride[axis] +
           1;
  };
  for (std::uint64_t i = 0; i < windows.kernel[0]; ++i) {
    for (std::uint64_t j = 0; j < windows.kernel[1]; ++j) {
      const std::int64_t row = static_cast<std::int64_t>(i) * windows.dilation[0];
      const std::int64_t column = static_cast<std::int64_t>(j) * windows.dilation[1];
      const AtenCall::Step slice = call.step(
          "slice_view", {whole},
          {listed("axes", {-2, -1}), listed("starts", {row, column}),
           listed("ends", {end(0, row), end(1, column)}), listed("steps", windows.stride)});
      parts.push_back(call.step("reshape", {slice}, {listed("shape", part.extents)}));
    }
  }
  const AtenCall::Step all =
      parts.size() == 1 ? parts[0] : call.step("concat", parts, {listed("axes", {1})});
  return call.last_step("reshape", {all}, {listed("shape", call.type().extents)});
}

bool unfold_windows(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self) return false;
  const auto windows = unfolded(call, call.at(*self).type.shape());
  if (!windows) return false;
  const auto& [h, w] = windows->kernel;
  const auto& [rows, columns] = windows->windows;
  if (!windows->tiles()) return joined_windows(call, call.tensor(*self), *windows);
  return moved(call, call.tensor(*self), {windows->lead, rows, h, columns, w}, {0, 2, 4, 1, 3});
}

// Back to an image, where each of its elements is in one window.
bool fold_windows(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  const auto windows = unfolded(call, call.type().shape());
  if (!self || !windows || !windows->tiles()) return false;
  const auto& [h, w] = windows->kernel;
  const auto& [rows, columns] = windows->windows;
  return moved(call, call.tensor(*self), {windows->lead, h, w, rows, columns}, {0, 3, 1, 4, 2});
}

template <std::size_t axes>
bool max_pool(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  const auto attributes = windows<axes>(call);
  const bool indices = call.results() == 2 && call.used(1);
  return self && attributes && call.op(row, {call.tensor(*self)}, *attributes, indices ? 2 : 1);
}

template <std::size_t axes>
bool avg_pool(const AtenCall& call, std::string_view row) {
  const bool backward = call.given("grad_output");
  const auto self = call.value("self");
  auto attributes = windows<axes>(call);
  if (!self || !attributes || call.number("divisor_override")) return false;
  if (!call.truth("count_include_pad", true)) {
    attributes->push_back({.name = "count_include_pad", .value = false});
  }
  Inputs inputs;
  if (backward) inputs.emplace_back(call.tensor(*call.value("grad_output")));
  inputs.emplace_back(call.tensor(*self));
  return call.op(row, inputs, *attributes);
}

std::vector<WrittenDim> last_extents(const ModelType& type, std::size_t axes) {
  if (type.extents.size() <= axes) return {};
  return {type.extents.end() - static_cast<std::ptrdiff_t>(axes), type.extents.end()};
}

// Of an average over whole planes a mean is left, which whole blocks of threads compute.
template <std::size_t axes>
bool adaptive_pool(const AtenCall& call, std::string_view row) {
  const auto self = call.value("self");
  const Shape& shape = call.type().shape();
  if (!self || shape.size() <= axes || (axes == 1 && shape.size() != 3)) return false;
  const bool single = std::all_of(shape.end() - static_cast<std::ptrdiff_t>(axes), shape.end(),
                                  [](std::uint64_t extent) { return extent == 1; });
  if (single && call.results() == 1) {
    std::vector<std::int64_t> last;
    for (std::int64_t i = static_cast<std::int64_t>(axes); i > 0; --i) last.push_back(-i);
    return call.op("mean", {call.tensor(*self)},
                   {listed("axes", last), {.name = "keepdim", .value = true}});
  }
  const bool indices = call.results() == 2 && call.used(1);
  return call.op(row, {call.tensor(*self)}, {listed("size", last_extents(call.type(), axes))},
                 indices ? 2 : 1);
}

// The places of elements follow from the extents. Factors that do not lead to whole extents are
// used as they are, which makes other places.
bool exact_factors(const AtenCall& call, const Shape& from, const Shape& to) {
  const ProgramArgument* factors = call.argument("scale_factors");
  if (factors == nullptr || factors->floats.empty()) return true;
  const std::size_t axes = factors->floats.size();
  if (axes > from.size()) return false;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t axis = from.size() - axes + i;
    const double extent = static_cast<double>(from[axis]) * factors->floats[i];
    if (extent != static_cast<double>(to[axis])) return false;
  }
  return true;
}

template <std::size_t axes>
bool upsample(const AtenCall& call, std::string_view row) {
  const auto input = call.given("input") ? call.value("input") : call.value("self");
  if (!input) return false;
  const Shape& from = call.at(*input).type.shape();
  if (from.size() != axes + 2 || !exact_factors(call, from, call.type().shape())) return false;
  Attributes attributes = {listed("size", last_extents(call.type(), axes))};
  if (call.truth("align_corners", false)) {
    attributes.push_back({.name = "align_corners", .value = true});
  }
  return call.op(row, {call.tensor(*input)}, attributes);
}

// The pixel nearest to the middle of each is the one that upsample_nearest takes where each is
// repeated equally often.
template <std::size_t axes>
bool upsample_nearest_exact(const AtenCall& call, std::string_view row) {
  const auto input = call.given("input") ? call.value("input") : call.value("self");
  if (!input) return false;
  const Shape& from = call.at(*input).type.shape();
  const Shape& to = call.type().shape();
  if (from.size() != to.size()) return false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 0 || to[i] % from[i] != 0) return false;
  }
  return upsample<axes>(call, row);
}

template <std::size_t axes>
bool upsample_backward(const AtenCall& call, std::string_view row) {
  const auto dy = call.value("grad_output");
  if (!dy || call.type().shape().size() != axes + 2) return false;
  Attributes attributes = {listed("size", last_extents(call.type(), axes))};
  if (call.truth("align_corners", false)) {
    attributes.push_back({.name = "align_corners", .value = true});
  }
  return call.op(row, {call.tensor(*dy)}, attributes);
}

// (dy, x, and maybe indices): only the shape of x counts.
bool pool_backward(const AtenCall& call, std::string_view row) {
  const auto dy = call.value("grad_output");
  const auto self = call.value("self");
  const auto indices = call.value("indices");
  if (!dy || !self) return false;
  Inputs inputs = {call.tensor(*dy), call.tensor(*self)};
  if (indices) inputs.emplace_back(call.tensor(*indices));
  return call.op(row, inputs);
}

// How a convolution moves its window.
std::optional<Attributes> steps_of(const AtenCall& call, std::size_t axes, const Shape& weight) {
  const auto stride = spatial(call, "stride", axes, 1);
  auto padding = spatial(call, "padding", axes, 0);
  const auto dilation = spatial(call, "dilation", axes, 1);
  if (!stride || !padding || !dilation) return std::nullopt;
  if (call.text("padding") == "same") {
    for (std::size_t i = 0; i < axes && i + 2 < weight.size(); ++i) {
      // An even number of weights pads more on one side.
      const std::int64_t room = (*dilation)[i] * (static_cast<std::int64_t>(weight[i + 2]) - 1);
      if (room % 2 != 0) return std::nullopt;
      (*padding)[i] = room / 2;
    }
  }
  return Attributes{listed("stride", *stride),
                    listed("padding", *padding),
                    listed("dilation", *dilation),
                    {.name = "groups", .value = call.whole("groups", 1)}};
}

constexpr std::array<std::string_view, 3> kForwardRows = {"conv1d", "conv2d", "conv3d"};
constexpr std::array<std::string_view, 3> kTransposedRows = {"conv_transpose1d", "conv_transpose2d",
                                                             "conv_transpose3d"};

ModelType batch_of_one(ModelType image) {
  image.type.shape.push_back(1);
  image.extents.emplace_back(std::int64_t{1});
  std::rotate(image.type.shape.begin(), image.type.shape.end() - 1, image.type.shape.end());
  std::rotate(image.extents.begin(), image.extents.end() - 1, image.extents.end());
  return image;
}

// Whether images have one pixel each, and so have windows.
bool of_pixels(const AtenCall& call, const Shape& image, const Shape& weight) {
  const auto is_one = [](std::uint64_t extent) { return extent == 1; };
  const auto padding = spatial(call, "padding", weight.size() - 2, 0);
  return call.whole("groups", 1) == 1 && image.size() == weight.size() && padding &&
         std::ranges::all_of(*padding, [](std::int64_t pixels) { return pixels == 0; }) &&
         std::all_of(image.begin() + 2, image.end(), is_one) &&
         std::all_of(weight.begin() + 2, weight.end(), is_one);
}

// A convolution of such is a linear of their channels.
bool pixel_product(const AtenCall& call, Inputs inputs) {
  const auto matrix = [](ModelType type) {
    type.type.shape.resize(2);
    type.extents.resize(2);
    return type;
  };
  ModelGraph& graph = call.graph();
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto tensor = std::get<ModelGraph::TensorId>(inputs[i]);
    const auto shown = reshaped(graph, tensor, matrix(graph.type(tensor)));
    if (!shown) return false;
    inputs[i] = *shown;
  }
  const auto product = graph.op("linear", inputs, {}, matrix(call.type()));
  const auto result = product ? reshaped(graph, *product, call.type()) : std::nullopt;
  if (result) call.set(0, *result);
  return result.has_value();
}

// "transposed" as the row: an op that is so by its name.
bool convolution(const AtenCall& call, std::string_view kind) {
  const auto input = call.value("input");
  const auto weight = call.value("weight");
  const auto bias = call.value("bias");
  if (!input || !weight) return false;
  const std::size_t rank = call.at(*weight).type.shape().size();
  if (rank < 3 || rank > 5) return false;
  auto attributes = steps_of(call, rank - 2, call.at(*weight).type.shape());
  if (!attributes) return false;
  const bool forward = kind.empty() && !call.truth("transposed", false);
  if (!forward) {
    const auto more = spatial(call, "output_padding", rank - 2, 0);
    if (!more) return false;
    attributes->push_back(listed("output_padding", *more));
  }
  const std::string_view row = (forward ? kForwardRows : kTransposedRows)[rank - 3];
  Inputs inputs = {call.tensor(*input), call.tensor(*weight)};
  if (bias) inputs.emplace_back(call.tensor(*bias));
  const ModelType& image = call.at(*input).type;
  if (forward && of_pixels(call, image.shape(), call.at(*weight).type.shape()) &&
      pixel_product(call, inputs)) {
    return true;
  }
  if (image.shape().size() == rank) return call.op(row, inputs, *attributes);
  // An image alone is a batch of one.
  if (image.shape().size() + 1 != rank) return false;
  const auto batch = reshaped(call.graph(), call.tensor(*input), batch_of_one(image));
  if (!batch) return false;
  inputs[0] = *batch;
  const ModelType& result = call.type();
  const auto made = call.graph().op(row, inputs, *attributes, batch_of_one(result));
  const auto alone = made ? reshaped(call.graph(), *made, result) : std::nullopt;
  if (alone) call.set(0, *alone);
  return alone.has_value();
}

bool convolution_backward(const AtenCall& call, std::string_view) {
  const auto dy = call.value("grad_output");
  const auto input = call.value("input");
  const auto weight = call.value("weight");
  if (!dy || !input || !weight) return false;
  const std::size_t rank = call.at(*input).type.shape().size();
  if (rank < 3 || rank > 5) return false;
  auto attributes = steps_of(call, rank - 2, call.at(*weight).type.shape());
  if (!attributes) return false;
  const bool transposed = call.truth("transposed", false);
  if (transposed) {
    const auto more = spatial(call, "output_padding", rank - 2, 0);
    if (!more) return false;
    attributes->push_back(listed("output_padding", *more));
  }
  attributes->push_back(given_gradients(call));
  const std::string row(transposed ? kTransposedRows[rank - 3] : kForwardRows[rank - 3]);
  return call.op(row + "_backward", {call.tensor(*dy), call.tensor(*input), call.tensor(*weight)},
                 *attributes, call.results());
}

constexpr std::array kWindowRules = {
    AtenRule{"max_pool1d", max_pool<1>, "max_pool"},
    AtenRule{"max_pool2d", max_pool<2>, "max_pool"},
    AtenRule{"max_pool3d", max_pool<3>, "max_pool"},
    AtenRule{"max_pool1d_with_indices", max_pool<1>, "max_pool"},
    AtenRule{"max_pool2d_with_indices", max_pool<2>, "max_pool"},
    AtenRule{"max_pool3d_with_indices", max_pool<3>, "max_pool"},
    AtenRule{"avg_pool1d", avg_pool<1>, "avg_pool"},
    AtenRule{"avg_pool2d", avg_pool<2>, "avg_pool"},
    AtenRule{"avg_pool3d", avg_pool<3>, "avg_pool"},
    AtenRule{"adaptive_avg_pool1d", adaptive_pool<1>, "adaptive_avg_pool"},
    AtenRule{"adaptive_avg_pool2d", adaptive_pool<2>, "adaptive_avg_pool"},
    AtenRule{"adaptive_avg_pool3d", adaptive_pool<3>, "adaptive_avg_pool"},
    AtenRule{"_adaptive_avg_pool2d", adaptive_pool<2>, "adaptive_avg_pool"},
    AtenRule{"_adaptive_avg_pool3d", adaptive_pool<3>, "adaptive_avg_pool"},
    AtenRule{"adaptive_max_pool1d", adaptive_pool<1>, "adaptive_max_pool"},
    AtenRule{"adaptive_max_pool2d", adaptive_pool<2>, "adaptive_max_pool"},
    AtenRule{"adaptive_max_pool3d", adaptive_pool<3>, "adaptive_max_pool"},
    AtenRule{"upsample_nearest1d", upsample<1>, "upsample_nearest"},
    AtenRule{"upsample_nearest2d", upsample<2>, "upsample_nearest"},
    AtenRule{"upsample_nearest3d", upsample<3>, "upsample_nearest"},
    AtenRule{"_upsample_nearest_exact1d", upsample_nearest_exact<1>, "upsample_nearest"},
    AtenRule{"_upsample_nearest_exact2d", upsample_nearest_exact<2>, "upsample_nearest"},
    AtenRule{"_upsample_nearest_exact3d", upsample_nearest_exact<3>, "upsample_nearest"},
    AtenRule{"upsample_linear1d", upsample<1>, "upsample_linear"},
    AtenRule{"upsample_bilinear2d", upsample<2>, "upsample_linear"},
    AtenRule{"upsample_trilinear3d", upsample<3>, "upsample_linear"},
    AtenRule{"im2col", unfold_windows},
    AtenRule{"col2im", fold_windows},
    AtenRule{"convolution", convolution},
    AtenRule{"_convolution", convolution},
    AtenRule{"conv1d", convolution},
    AtenRule{"conv2d", convolution},
    AtenRule{"conv3d", convolution},
    AtenRule{"conv_transpose1d", convolution, "transposed"},
    AtenRule{"conv_transpose2d", convolution, "transposed"},
    AtenRule{"conv_transpose3d", convolution, "transposed"},
    AtenRule{"convolution_backward", convolution_backward},
    AtenRule{"max_pool2d_with_indices_backward", pool_backward, "max_pool_backward"},
    AtenRule{"max_pool3d_with_indices_backward", pool_backward, "max_pool_backward"},
    AtenRule{"adaptive_max_pool2d_backward", pool_backward, "max_pool_backward"},
    AtenRule{"avg_pool2d_backward", avg_pool<2>, "avg_pool_backward"},
    AtenRule{"avg_pool3d_backward", avg_pool<3>, "avg_pool_backward"},
    AtenRule{"_adaptive_avg_pool2d_backward", pool_backward, "adaptive_avg_pool_backward"},
    AtenRule{"_adaptive_avg_pool3d_backward", pool_backward, "adaptive_avg_pool_backward"},
    AtenRule{"upsample_nearest2d_backward", upsample_backward<2>, "upsample_nearest_backward"},
    AtenRule{"upsample_bilinear2d_backward", upsample_backward<2>, "upsample_linear_backward"},
};

}  // namespace

std::span<const AtenRule> aten_window_rules() { return kWindowRules; }

}  // namespace fusecalc
