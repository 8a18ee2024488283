// Products, convolutions, pooling and attention.

#include <algorithm>
#include <array>
#include <cmath>

#include "core/checked.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Operand = OnnxImporter::Operand;

std::uint64_t product_flops(std::uint64_t elements, std::uint64_t depth) {
  std::uint64_t flops = 2;
  if (!checked_multiply(flops, elements) || !checked_multiply(flops, depth)) return 0;
  return flops;
}

bool swaps_last_two(const OnnxKnown& value) {
  const std::size_t rank = value.perm.size();
  if (!value.permuted || rank < 2) return false;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (value.perm[i] != i) return false;
  }
  return value.perm[rank - 2] == rank - 1 && value.perm[rank - 1] == rank - 2;
}

// A matrix that was transposed before is read as it lies. A transposed weight makes a linear.
bool matmul(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* a = in.input(node, 0);
  const OnnxKnown* b = in.input(node, 1);
  if (b == nullptr) return false;
  if (swaps_last_two(*b)) {
    if (b->type.shape.size() == 2 && a->type.shape.size() >= 2) {
      return in.write(node, "linear", {a, b->permuted.get()});
    }
    return in.write(node, "matmul", {a, b->permuted.get()}, {{"transpose_b", true}});
  }
  return in.write(node, "matmul", {a, b});
}

// Products of integers: (a - zero point of a) * (b - zero point of b).
bool whole_matmul(OnnxImporter& in, const OnnxNode& node) {
  const Shape& a = in.input(node, 0)->type.shape;
  const std::size_t second = node.type == "QLinearMatMul" ? 3 : 1;
  const OnnxKnown* b = in.input(node, second);
  if (b == nullptr || a.size() < 2 || b->type.shape.size() < 2) return false;
  const Shape& other = b->type.shape;
  const auto batch = broadcast({a.begin(), a.end() - 2}, {other.begin(), other.end() - 2});
  if (!batch) return false;
  Shape shape = *batch;
  shape.push_back(a[a.size() - 2]);
  shape.push_back(other.back());
  const auto elements = checked_elements(shape);
  if (!elements) return false;
  const DType dtype = node.type == "QLinearMatMul" && in.input(node, 7) != nullptr
                          ? in.input(node, 7)->type.dtype
                          : DType::kI32;
  return in.write_custom(node, OpClass::kContract, product_flops(*elements, a.back()),
                         {{shape, dtype}});
}

bool gemm(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* a = in.input(node, 0);
  const OnnxKnown* b = in.input(node, 1);
  const OnnxKnown* c = in.input(node, 2);
  const bool transpose_a = whole_attribute(node, "transA", 0) != 0;
  bool transpose_b = whole_attribute(node, "transB", 0) != 0;
  const double alpha = real_attribute(node, "alpha", 1);
  const double beta = real_attribute(node, "beta", 1);
  if (b == nullptr || a->type.shape.size() != 2) return false;
  if (!transpose_b && swaps_last_two(*b)) {
    b = b->permuted.get();
    transpose_b = true;
  }
  if (transpose_b && !transpose_a && alpha == 1) {
    const Shape columns{b->type.shape[0]};
    if (c == nullptr) return in.write(node, "linear", {a, b});
    if (beta == 1 && c->type.shape == columns) return in.write(node, "linear", {a, b, c});
  }
  const OnnxImporter::Written transposed = {{"transpose_a", transpose_a},
                                            {"transpose_b", transpose_b}};
  if (c == nullptr && alpha == 1) return in.write(node, "matmul", {a, b}, transposed);
  auto product = in.write_step("matmul", {a, b}, transposed);
  if (product && alpha != 1) {
    if (c == nullptr) return in.write(node, "mul", {&*product, alpha});
    product = in.write_step("mul", {&*product, alpha});
  }
  if (!product) return false;
  if (beta == 1) return in.write(node, "add", {&*product, c});
  const auto term = in.write_step("mul", {c, beta});
  return term && in.write(node, "add", {&*product, &*term});
}

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

// How many results a window has along an axis; nothing if it does not fit.
std::optional<std::uint64_t> results_of(const Window& window, std::uint64_t extent, bool ceil) {
  const std::int64_t reach = window.dilation * (static_cast<std::int64_t>(window.size) - 1) + 1;
  const std::int64_t room =
      static_cast<std::int64_t>(extent) + window.before + window.after - reach;
  if (room < 0) return std::nullopt;
  const std::int64_t whole = room / window.stride;
  return static_cast<std::uint64_t>(whole + 1 + (ceil && room % window.stride != 0 ? 1 : 0));
}

Shape window_shape(const OnnxNode& node, const Shape& fallback) {
  const auto given = integers_of(node, "kernel_shape", nullptr);
  if (!given) return fallback;
  return {given->begin(), given->end()};
}

bool conv(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* weight = in.input(node, 1);
  if (weight == nullptr || x->type.shape.size() < 3 ||
      weight->type.shape.size() != x->type.shape.size()) {
    return false;
  }
  const Shape& taps = weight->type.shape;
  const std::vector<Window> windows =
      windows_of(node, x->type.shape, window_shape(node, {taps.begin() + 2, taps.end()}));
  if (windows.empty()) return false;
  std::vector<Operand> inputs = {x, weight};
  if (in.input(node, 2) != nullptr) inputs.emplace_back(in.input(node, 2));
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> dilation;
  bool symmetric = true;
  Shape shape = {x->type.shape[0], taps[0]};
  std::uint64_t depth = taps[1];
  for (std::size_t i = 0; i < windows.size(); ++i) {
    stride.push_back(windows[i].stride);
    padding.push_back(windows[i].before);
    dilation.push_back(windows[i].dilation);
    symmetric = symmetric && windows[i].before == windows[i].after;
    const auto results = results_of(windows[i], x->type.shape[i + 2], false);
    if (!results || !checked_multiply(depth, windows[i].size)) return false;
    shape.push_back(*results);
  }
  const OnnxImporter::Written attributes = {listed_attribute("stride", stride),
                                            listed_attribute("padding", padding),
                                            listed_attribute("dilation", dilation),
                                            {"groups", whole_attribute(node, "group", 1)}};
  const std::string op = "conv" + std::to_string(windows.size()) + "d";
  if (symmetric && in.write(node, op, inputs, attributes)) return true;
  const auto elements = checked_elements(shape);
  if (!elements) return false;
  return in.write_custom(node, OpClass::kContract, product_flops(*elements, depth),
                         {{shape, x->type.dtype}});
}

bool pool(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  if (x->type.shape.size() < 3) return false;
  const std::vector<Window> windows = windows_of(node, x->type.shape, window_shape(node, {}));
  if (windows.empty()) return false;
  const bool ceil = whole_attribute(node, "ceil_mode", 0) != 0;
  Shape shape = {x->type.shape[0], x->type.shape[1]};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto results = results_of(windows[i], x->type.shape[i + 2], ceil);
    if (!results) return false;
    shape.push_back(*results);
  }
  return in.write_custom(node, OpClass::kReduce, 0, {{shape, x->type.dtype}, {shape, DType::kI64}});
}

bool global_pool(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  std::vector<std::int64_t> axes;
  for (std::size_t i = 2; i < x->type.shape.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i));
  return in.write(node, node.type == "GlobalMaxPool" ? "max" : "mean", {x},
                  {listed_attribute("axes", axes), {"keepdim", true}});
}

// [B, T, heads * size] as [B, heads, T, size].
std::optional<OnnxKnown> split_heads(OnnxImporter& in, const OnnxKnown& x, std::int64_t heads) {
  if (x.type.shape.size() == 4) return x;
  if (x.type.shape.size() != 3 || heads < 1) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(heads);
  if (x.type.shape[2] % count != 0) return std::nullopt;
  const auto apart =
      in.reshape(x, {x.type.shape[0], x.type.shape[1], count, x.type.shape[2] / count});
  return apart ? in.permute(*apart, {0, 2, 1, 3}) : std::nullopt;
}

// Heads that were repeated for as many queries are read once.
const OnnxKnown& unrepeated(const OnnxKnown& value) {
  return value.repeated && !value.expanded_axis ? *value.repeated : value;
}

bool attention(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* given[3] = {in.input(node, 0), in.input(node, 1), in.input(node, 2)};
  if (given[1] == nullptr || given[2] == nullptr) return false;
  const bool caches = in.input(node, 4) != nullptr || in.input(node, 5) != nullptr;
  if (caches || OnnxImporter::output_count(node) > 1 || real_attribute(node, "softcap", 0) != 0) {
    return false;
  }
  const std::int64_t heads = whole_attribute(node, "q_num_heads", 0);
  const std::int64_t shared = whole_attribute(node, "kv_num_heads", heads);
  const auto q = split_heads(in, *given[0], heads);
  const auto k = split_heads(in, unrepeated(*given[1]), shared);
  const auto v = split_heads(in, unrepeated(*given[2]), shared);
  if (!q || !k || !v) return false;
  std::vector<Operand> inputs = {&*q, &*k, &*v};
  if (in.input(node, 3) != nullptr) inputs.emplace_back(in.input(node, 3));
  OnnxImporter::Written attributes = {{"causal", whole_attribute(node, "is_causal", 0) != 0}};
  if (const OnnxAttribute* scale = node.find("scale"); scale != nullptr && scale->real) {
    attributes.push_back({"scale", *scale->real});
  }
  if (given[0]->type.shape.size() == 4) return in.write(node, "attention", inputs, attributes);
  const auto result = in.write_step("attention", inputs, attributes);
  const auto rows = result ? in.permute(*result, {0, 2, 1, 3}) : std::nullopt;
  if (!rows) return false;
  const Shape& shape = rows->type.shape;
  const auto joined = in.reshape(*rows, {shape[0], shape[1], shape[2] * shape[3]});
  if (!joined) return false;
  in.alias(node, *joined);
  return true;
}

constexpr std::array kRules = {
    OnnxRuleRow{"MatMul", matmul},
    OnnxRuleRow{"MatMulInteger", whole_matmul},
    OnnxRuleRow{"QLinearMatMul", whole_matmul},
    OnnxRuleRow{"Gemm", gemm},
    OnnxRuleRow{"Conv", conv},
    OnnxRuleRow{"MaxPool", pool},
    OnnxRuleRow{"AveragePool", pool},
    OnnxRuleRow{"LpPool", pool},
    OnnxRuleRow{"GlobalAveragePool", global_pool},
    OnnxRuleRow{"GlobalMaxPool", global_pool},
    OnnxRuleRow{"Attention", attention},
};

}  // namespace

std::span<const OnnxRuleRow> onnx_product_rules() { return kRules; }

}  // namespace fusecalc
