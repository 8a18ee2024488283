// Convolutions and pooling.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "core/checked.hpp"
#include "input/model_shapes.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

// What a window does along one axis.
struct Window {
  std::uint64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
};

// The windows over the axes after the first two; empty if attributes do not fit together.
std::vector<Window> windows_of(const OnnxNode& node, const Shape& input, const Shape& kernel) {
  const std::size_t count = input.size() - 2;
  const auto list = [&](std::string_view name, std::size_t size, std::int64_t fallback) {
    return integers_of(node, name, nullptr).value_or(std::vector<std::int64_t>(size, fallback));
  };
  const auto strides = list("strides", count, 1);
  const auto dilations = list("dilations", count, 1);
  auto pads = list("pads", 2 * count, 0);
  if (strides.size() != count || dilations.size() != count || pads.size() != 2 * count ||
      kernel.size() != count) {
    return {};
  }
  const OnnxAttribute* padding = node.find("auto_pad");
  const std::string_view mode =
      padding != nullptr && padding->text ? *padding->text : std::string_view("NOTSET");
  std::vector<Window> windows;
  for (std::size_t i = 0; i < count; ++i) {
    Window window{kernel[i], strides[i], dilations[i], pads[i], pads[i + count]};
    constexpr std::int64_t kMost = std::int64_t{1} << 31U;
    const auto sane = [&](std::int64_t value, std::int64_t least) {
      return value >= least && value < kMost;
    };
    if (!sane(window.stride, 1) || !sane(window.dilation, 1) || !sane(window.before, 0) ||
        !sane(window.after, 0) || input[i + 2] >= kMost || kernel[i] >= kMost || kernel[i] == 0) {
      return {};
    }
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      const auto extent = static_cast<std::int64_t>(input[i + 2]);
      const std::int64_t results = (extent + window.stride - 1) / window.stride;
      const std::int64_t reach = window.dilation * (static_cast<std::int64_t>(window.size) - 1) + 1;
      const std::int64_t total =
          std::max((results - 1) * window.stride + reach - extent, std::int64_t{0});
      window.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.after = total - window.before;
    } else if (mode == "VALID") {
      window.before = window.after = 0;
    }
    windows.push_back(window);
  }
  return windows;
}

// How many results a window has along each axis after the first two; refuses one that does not fit.
Shape results_of(const OnnxImporter& in, const OnnxNode& node, const std::vector<Window>& windows,
                 bool ceil) {
  const Shape& input = in.input(node, 0)->type.shape;
  Shape results;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    const std::int64_t reach = window.dilation * (static_cast<std::int64_t>(window.size) - 1) + 1;
    const std::int64_t padded =
        static_cast<std::int64_t>(input[i + 2]) + window.before + window.after;
    if (reach > padded) {
      in.fail(node, fmt::format("its window reaches over {} elements of axis {}, but its input of "
                                "shape {} has {} there with its padding",
                                reach, i + 2, to_string(input), padded));
    }
    const std::int64_t room = padded - reach;
    const bool more = ceil && room % window.stride != 0;
    results.push_back(static_cast<std::uint64_t>(room / window.stride + (more ? 2 : 1)));
  }
  return results;
}

Shape window_shape(const OnnxNode& node, const Shape& fallback) {
  const auto given = integers_of(node, "kernel_shape", nullptr);
  if (!given) return fallback;
  return {given->begin(), given->end()};
}

struct Convolution {
  std::vector<Window> windows;
  Shape shape{};            // of the result
  std::uint64_t depth = 1;  // products for each element
};

// Nothing where attributes do not fit together; refuses shapes that do not.
std::optional<Convolution> convolution_of(const OnnxImporter& in, const OnnxNode& node,
                                          const OnnxKnown* weight) {
  const OnnxKnown* x = in.input(node, 0);
  if (weight == nullptr || x->type.shape.size() < 3 ||
      weight->type.shape.size() != x->type.shape.size()) {
    return std::nullopt;
  }
  const Shape& taps = weight->type.shape;
  Convolution result{.windows = windows_of(node, x->type.shape,
                                           window_shape(node, {taps.begin() + 2, taps.end()}))};
  if (result.windows.empty()) return std::nullopt;
  const auto groups = static_cast<std::uint64_t>(whole_attribute(node, "group", 1));
  std::uint64_t channels = taps[1];
  if (!checked_multiply(channels, groups)) return std::nullopt;
  if (channels != x->type.shape[1]) {
    in.fail(node, fmt::format("its input of shape {} has {} channels, but its weight of shape {} "
                              "takes {} (group {})",
                              to_string(x->type.shape), x->type.shape[1], to_string(taps), channels,
                              groups));
  }
  result.shape = results_of(in, node, result.windows, false);
  result.shape.insert(result.shape.begin(), {x->type.shape[0], taps[0]});
  result.depth = taps[1];
  for (const Window& window : result.windows) {
    if (!checked_multiply(result.depth, window.size)) return std::nullopt;
  }
  return result;
}

// Of integers, less their zero points: a custom op.
bool whole_conv(OnnxImporter& in, const OnnxNode& node) {
  const bool scales = node.type == "QLinearConv";
  const auto convolution = convolution_of(in, node, in.input(node, scales ? 3 : 1));
  const auto elements = convolution ? checked_elements(convolution->shape) : std::nullopt;
  if (!elements) return false;
  const OnnxKnown* zero = scales ? in.input(node, 7) : nullptr;
  const DType dtype = zero != nullptr ? zero->type.dtype : DType::kI32;
  return in.write_custom(node, OpClass::kContract, product_flops(*elements, convolution->depth),
                         {{convolution->shape, dtype}});
}

// The windows as attributes of a row, which pads both ends by as much.
void add_attributes(const std::vector<Window>& windows, OnnxImporter::Written& attributes) {
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
  for (const Window& window : windows) {
    stride.push_back(window.stride);
    padding.push_back(window.before);
    dilation.push_back(window.dilation);
  }
  attributes.push_back(listed("stride", stride));
  attributes.push_back(listed("padding", padding));
  const bool dilates = std::ranges::any_of(dilation, [](std::int64_t step) { return step != 1; });
  if (dilates) attributes.push_back(listed("dilation", dilation));
}

bool pads_evenly(const std::vector<Window>& windows) {
  return std::ranges::all_of(windows,
                             [](const Window& window) { return window.before == window.after; });
}

// The input with what windows add at one end more than at the other, which they no longer add.
std::optional<OnnxKnown> evenly_padded(OnnxImporter& in, const OnnxKnown& x,
                                       std::vector<Window>& windows, double value) {
  if (pads_evenly(windows)) return x;
  std::vector<std::int64_t> before(x.type.shape.size());
  std::vector<std::int64_t> after(x.type.shape.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    Window& window = windows[i];
    const std::int64_t both = std::min(window.before, window.after);
    before[i + 2] = window.before - both;
    after[i + 2] = window.after - both;
    window.before = window.after = both;
  }
  OnnxImporter::Written attributes = {listed("before", before), listed("after", after)};
  if (value != 0) attributes.push_back({"value", value});
  return in.write_step("pad", {&x}, attributes);
}

// What no element is less than.
double lowest_of(DType dtype) {
  if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
  if (dtype == DType::kU8 || dtype == DType::kU4 || dtype == DType::kBool) return 0;
  const int bits = is_packed(dtype) ? 4 : 8 * static_cast<int>(bytes_of(dtype, 1));
  return -std::ldexp(1.0, bits - 1);
}

// Of images of one pixel, a linear of their channels.
bool pixel_product(OnnxImporter& in, const OnnxNode& node, const OnnxKnown& x,
                   const OnnxKnown& weight, const Shape& shape) {
  const auto rows = in.reshape(x, {x.type.shape[0], x.type.shape[1]});
  const auto weights = in.reshape(weight, {weight.type.shape[0], weight.type.shape[1]});
  if (!rows || !weights) return false;
  std::vector<OnnxImporter::Operand> inputs = {&*rows, &*weights};
  if (in.input(node, 2) != nullptr) inputs.emplace_back(in.input(node, 2));
  const auto product = in.write_step("linear", inputs);
  const auto result = product ? in.reshape(*product, shape) : std::nullopt;
  if (result) in.alias(node, *result);
  return result.has_value();
}

bool conv(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown x = *in.input(node, 0);
  const OnnxKnown* weight = in.input(node, 1);
  const auto convolution = convolution_of(in, node, weight);
  if (!convolution) return false;
  auto [windows, shape, depth] = *convolution;
  const bool of_pixels = whole_attribute(node, "group", 1) == 1 &&
                         std::all_of(x.type.shape.begin() + 2, x.type.shape.end(),
                                     [](std::uint64_t extent) { return extent == 1; }) &&
                         std::ranges::all_of(windows, [](const Window& window) {
                           return window.size == 1 && window.before == 0 && window.after == 0;
                         });
  if (of_pixels && pixel_product(in, node, x, *weight, shape)) return true;
  const auto image = evenly_padded(in, x, windows, 0);
  OnnxImporter::Written attributes = {{"groups", whole_attribute(node, "group", 1)}};
  add_attributes(windows, attributes);
  if (image) {
    std::vector<OnnxImporter::Operand> inputs = {&*image, weight};
    if (in.input(node, 2) != nullptr) inputs.emplace_back(in.input(node, 2));
    const std::string op = "conv" + std::to_string(windows.size()) + "d";
    if (in.write(node, op, inputs, attributes)) return true;
  }
  const auto elements = checked_elements(shape);
  if (!elements) return false;
  return in.write_custom(node, OpClass::kContract, product_flops(*elements, depth),
                         {{shape, x.type.dtype}});
}

// com.microsoft: a convolution, what is added to it and an activation are one kernel.
bool fused_conv(OnnxImporter& in, const OnnxNode& node) {
  const auto convolution = convolution_of(in, node, in.input(node, 1));
  const auto elements = convolution ? checked_elements(convolution->shape) : std::nullopt;
  return elements &&
         in.write_custom(node, OpClass::kContract, product_flops(*elements, convolution->depth),
                         {{convolution->shape, in.input(node, 0)->type.dtype}});
}

bool counts_padding(const OnnxNode& node) {
  return node.type != "MaxPool" && whole_attribute(node, "count_include_pad", 0) != 0;
}

std::string_view pool_op(const OnnxNode& node) {
  return node.type == "MaxPool" ? "max_pool" : "avg_pool";
}

OnnxImporter::Written pool_attributes(const OnnxNode& node, const std::vector<Window>& windows,
                                      bool ceil) {
  std::vector<std::int64_t> kernel;
  for (const Window& window : windows) kernel.push_back(static_cast<std::int64_t>(window.size));
  OnnxImporter::Written attributes = {listed("kernel", kernel)};
  add_attributes(windows, attributes);
  if (ceil) attributes.push_back({"ceil_mode", true});
  if (node.type != "MaxPool") attributes.push_back({"count_include_pad", counts_padding(node)});
  return attributes;
}

struct PoolInput {
  OnnxKnown image;
  OnnxImporter::Written attributes;
};

// A row that pads both ends as the windows pad the first one, where its results are those that the
// windows have: at the last end, too, what lies outside of the input changes none.
std::optional<PoolInput> padded_by_row(OnnxImporter& in, const OnnxNode& node,
                                       std::vector<Window> windows, const Shape& shape) {
  const OnnxKnown& x = *in.input(node, 0);
  for (Window& window : windows) window.after = window.before;
  for (const bool ceil : {false, true}) {
    // Elements beyond the padding do not count in an average.
    if (ceil && counts_padding(node)) continue;
    auto attributes = pool_attributes(node, windows, ceil);
    const auto result = in.write_step(pool_op(node), {&x}, attributes);
    if (result && result->type.shape == shape) return PoolInput{x, std::move(attributes)};
  }
  return std::nullopt;
}

// What a row of windows reads that pad one end more than the other: the input, or one that is
// padded with what changes no result. An average that does not count such elements has none.
std::optional<PoolInput> pool_input(OnnxImporter& in, const OnnxNode& node,
                                    std::vector<Window> windows, const Shape& shape) {
  const OnnxKnown& x = *in.input(node, 0);
  const bool ceil = whole_attribute(node, "ceil_mode", 0) != 0;
  if (pads_evenly(windows)) return PoolInput{x, pool_attributes(node, windows, ceil)};
  if (ceil) return std::nullopt;
  if (auto same = padded_by_row(in, node, windows, shape)) return same;
  const bool largest = node.type == "MaxPool";
  if (!largest && !counts_padding(node)) return std::nullopt;
  const auto image = evenly_padded(in, x, windows, largest ? lowest_of(x.type.dtype) : 0);
  if (!image) return std::nullopt;
  return PoolInput{*image, pool_attributes(node, windows, ceil)};
}

bool pool(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  if (x->type.shape.size() < 3) return false;
  const std::vector<Window> windows = windows_of(node, x->type.shape, window_shape(node, {}));
  if (windows.empty()) return false;
  Shape shape = results_of(in, node, windows, whole_attribute(node, "ceil_mode", 0) != 0);
  shape.insert(shape.begin(), {x->type.shape[0], x->type.shape[1]});
  const auto input = node.type == "LpPool" ? std::nullopt : pool_input(in, node, windows, shape);
  const std::size_t outputs = node.type == "MaxPool" ? OnnxImporter::output_count(node) : 1;
  // Indices count over all planes in ONNX, over one here; both are i64 and as many.
  if (input && in.write(node, pool_op(node), {&input->image}, input->attributes, outputs)) {
    return true;
  }
  return in.write_custom(node, OpClass::kReduce, 0, {{shape, x->type.dtype}, {shape, DType::kI64}});
}

// One whose result has a stated size, or the input's size times the stride: as many elements are
// cut off as that takes, at one end more than at the other, which a row's padding cannot tell.
bool sized_transposed_conv(OnnxImporter& in, const OnnxNode& node,
                           const std::vector<Window>& windows) {
  const TensorType& x = in.input(node, 0)->type;
  const Shape& taps = in.input(node, 1)->type.shape;
  const auto given = integers_of(node, "output_shape", nullptr);
  if (given && given->size() < windows.size()) return false;
  Shape shape = {x.shape[0], taps[1]};
  if (!checked_multiply(shape[1], static_cast<std::uint64_t>(whole_attribute(node, "group", 1)))) {
    return false;
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::int64_t extent =
        given ? (*given)[given->size() - windows.size() + i] : windows[i].stride;
    if (extent < 1) return false;
    shape.push_back(static_cast<std::uint64_t>(extent));
    if (!given && !checked_multiply(shape.back(), x.shape[i + 2])) return false;
  }
  const auto elements = checked_elements(x.shape);
  if (!elements || !checked_elements(shape)) return false;
  const std::uint64_t products = elements_between(taps, 1, taps.size());
  return in.write_custom(node, OpClass::kContract, product_flops(*elements, products),
                         {{shape, x.dtype}});
}

bool transposed_conv(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* weight = in.input(node, 1);
  if (weight == nullptr || x->type.shape.size() < 3 || x->type.shape.size() > 5 ||
      weight->type.shape.size() != x->type.shape.size()) {
    return false;
  }
  const Shape& taps = weight->type.shape;
  const std::vector<Window> windows =
      windows_of(node, x->type.shape, window_shape(node, {taps.begin() + 2, taps.end()}));
  if (windows.empty()) return false;
  const bool stated = node.find("output_shape") != nullptr;
  bool even = true;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    even = even && windows[i].before == windows[i].after &&
           x->type.shape[i + 2] % static_cast<std::uint64_t>(windows[i].stride) == 0;
  }
  const bool same = text_attribute(node, "auto_pad", "NOTSET").starts_with("SAME");
  if (stated || (same && !even)) return sized_transposed_conv(in, node, windows);
  OnnxImporter::Written attributes = {{"groups", whole_attribute(node, "group", 1)}};
  if (!pads_evenly(windows)) return false;
  add_attributes(windows, attributes);
  const auto more = integers_of(node, "output_padding", nullptr);
  if (more) attributes.push_back(listed("output_padding", *more));
  std::vector<OnnxImporter::Operand> inputs = {x, weight};
  if (in.input(node, 2) != nullptr) inputs.emplace_back(in.input(node, 2));
  const std::string op = "conv_transpose" + std::to_string(windows.size()) + "d";
  return in.write(node, op, inputs, attributes);
}

bool global_pool(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 2; i < x->type.shape.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i));
  return in.write(node, node.type == "GlobalMaxPool" ? "max" : "mean", {x},
                  {listed("axes", axes), {"keepdim", true}});
}

constexpr std::array kWindowRules = {
    OnnxRuleRow{"Conv", conv},
    OnnxRuleRow{"FusedConv", fused_conv, "com.microsoft"},
    OnnxRuleRow{"ConvInteger", whole_conv},
    OnnxRuleRow{"QLinearConv", whole_conv},
    OnnxRuleRow{"ConvTranspose", transposed_conv},
    OnnxRuleRow{"MaxPool", pool},
    OnnxRuleRow{"AveragePool", pool},
    OnnxRuleRow{"LpPool", pool},
    OnnxRuleRow{"GlobalAveragePool", global_pool},
    OnnxRuleRow{"GlobalMaxPool", global_pool},
};

}  // namespace

std::span<const OnnxRuleRow> onnx_window_rules() { return kWindowRules; }

}  // namespace fusecalc
