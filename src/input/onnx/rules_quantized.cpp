// Quantization: by one scale, by those of an axis, or by those of blocks along it.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checked.hpp"
#include "input/onnx/rules.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Operand = OnnxImporter::Operand;

// What is quantized with a scale for each block along an axis has the blocks as an axis of their
// own; empty where the last block is cut off.
std::optional<Shape> blocked(const OnnxNode& node, const Shape& shape) {
  const std::int64_t block = whole_attribute(node, "block_size", 0);
  if (block == 0) return shape;
  const auto axis = axis_of(whole_attribute(node, "axis", 1), shape.size());
  if (!axis || block < 1) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(block);
  if (shape[*axis] % size != 0) return std::nullopt;
  Shape result = shape;
  result[*axis] /= size;
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, size);
  return result;
}

// The scales or zero points of an axis, or of blocks along it, in a shape that broadcasts to that
// of what they quantize.
std::optional<OnnxKnown> along_axis(OnnxImporter& in, const OnnxNode& node, std::size_t i,
                                    const Shape& shape) {
  const OnnxKnown* value = in.input(node, i);
  const Shape& given = value->type.shape;
  if (given.empty() || checked_elements(given) == 1) return *value;
  const auto axis = axis_of(whole_attribute(node, "axis", 1), shape.size());
  if (!axis) return std::nullopt;
  Shape target(shape.size() - *axis, 1);
  target[0] = shape[*axis];
  if (whole_attribute(node, "block_size", 0) == 0) {
    return given == Shape{shape[*axis]} ? in.reshape(*value, target) : std::nullopt;
  }
  const auto blocks = blocked(node, shape);
  if (!blocks) return std::nullopt;
  target = *blocks;
  const auto block = target.begin() + static_cast<std::ptrdiff_t>(*axis) + 1;
  Shape scales = target;
  scales.erase(scales.begin() + (block - target.begin()));
  *block = 1;
  return given == scales ? in.reshape(*value, target) : std::nullopt;
}

// The last op of what is quantized or not any more, in the shape of the node's input.
bool write_unblocked(OnnxImporter& in, const OnnxNode& node, std::string_view op,
                     const std::vector<Operand>& inputs,
                     const OnnxImporter::Written& attributes = {}) {
  if (whole_attribute(node, "block_size", 0) == 0) return in.write(node, op, inputs, attributes);
  const auto last = in.write_step(op, inputs, attributes);
  const auto result = last ? in.reshape(*last, in.input(node, 0)->type.shape) : std::nullopt;
  if (result) in.alias(node, *result);
  return result.has_value();
}

OnnxImporter::Written to_dtype(DType dtype) { return {{"to", std::string(name_of(dtype))}}; }

// (x - zero point) * scale.
bool dequantize(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* scale = in.input(node, 1);
  if (scale == nullptr) return false;
  const DType dtype = scale->type.dtype;
  const auto split = blocked(node, x->type.shape);
  const auto factor = along_axis(in, node, 1, x->type.shape);
  const auto blocks = split && factor ? in.reshape(*x, *split) : std::nullopt;
  if (!blocks) return in.write_custom(node, OpClass::kPointwise, 0, {{x->type.shape, dtype}});
  auto wide = in.write_step("cast", {&*blocks}, to_dtype(dtype));
  if (wide && in.input(node, 2) != nullptr) {
    const auto zero = along_axis(in, node, 2, x->type.shape);
    const auto narrow = zero ? in.write_step("cast", {&*zero}, to_dtype(dtype)) : std::nullopt;
    if (!narrow) return false;
    wide = in.write_step("sub", {&*wide, &*narrow});
  }
  return wide && write_unblocked(in, node, "mul", {&*wide, &*factor});
}

// round(x / scale) + zero point, within the range of the type.
bool quantize(OnnxImporter& in, const OnnxNode& node) {
  const OnnxKnown* x = in.input(node, 0);
  const OnnxKnown* zero = in.input(node, 2);
  const auto type =
      zero != nullptr ? std::optional(zero->type.dtype)
      : whole_attribute(node, "output_dtype", 0) != 0
          ? dtype_of_onnx(static_cast<std::uint64_t>(whole_attribute(node, "output_dtype", 0)))
          : std::optional(DType::kU8);
  if (!type || in.input(node, 1) == nullptr) return false;
  const std::vector<TensorType> result{{x->type.shape, *type}};
  const auto split = blocked(node, x->type.shape);
  const auto scale = along_axis(in, node, 1, x->type.shape);
  const auto blocks = split && scale ? in.reshape(*x, *split) : std::nullopt;
  const auto scaled = blocks ? in.write_step("div", {&*blocks, &*scale}) : std::nullopt;
  auto rounded = scaled ? in.write_step("round", {&*scaled}) : std::nullopt;
  if (!rounded) return in.write_custom(node, OpClass::kPointwise, 0, result);
  if (zero != nullptr) {
    const auto offset = along_axis(in, node, 2, x->type.shape);
    const auto wide =
        offset ? in.write_step("cast", {&*offset}, to_dtype(x->type.dtype)) : std::nullopt;
    if (!wide) return false;
    rounded = in.write_step("add", {&*rounded, &*wide});
  }
  return rounded && write_unblocked(in, node, "cast", {&*rounded}, to_dtype(*type));
}

constexpr std::array kQuantizedRules = {
    OnnxRuleRow{"DequantizeLinear", dequantize},
    OnnxRuleRow{"DequantizeLinear", dequantize, "com.microsoft"},
    OnnxRuleRow{"QuantizeLinear", quantize},
};

}  // namespace

std::span<const OnnxRuleRow> onnx_quantized_rules() { return kQuantizedRules; }

}  // namespace fusecalc
