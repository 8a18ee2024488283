// ATen ops, and those of quantized_decomposed, that make whole numbers of a range out of floats and
// back: q = clamp(round(x / scale) + zero), x = (q - zero) scale.

#include <array>

#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using Step = AtenCall::Step;

// A scale or zero point: a number, one tensor for all, or one element for each place of an axis.
Step parameter(const AtenCall& call, std::string_view name, const ModelType& input) {
  if (const auto number = call.number(name)) return *number;
  const auto value = call.value(name);
  if (!value) return std::nullopt;
  const ModelType own = call.at(*value).type;
  if (call.at(*value).number || own.shape().empty()) return call.operand(*value);
  ModelType spread = own;
  if (const auto axis = call.whole("axis")) {
    const auto place = axis_of(*axis, input.shape().size());
    if (!place || own.shape() != Shape{input.shape()[*place]}) return std::nullopt;
    for (std::size_t i = *place + 1; i < input.shape().size(); ++i) {
      spread.type.shape.push_back(1);
      spread.extents.emplace_back(std::int64_t{1});
    }
  }
  const auto shown = reshaped(call.graph(), call.tensor(*value), spread);
  return shown ? Step(*shown) : std::nullopt;
}

struct Range {
  Step scale;
  Step zero;
  bool shifts = true;  // the zero point is not 0
};

Range range_of(const AtenCall& call, const ModelType& input) {
  const bool many = call.given("scales");
  Range range{.scale = parameter(call, many ? "scales" : "scale", input),
              .zero = parameter(call, many ? "zero_points" : "zero_point", input)};
  const auto* number = range.zero ? std::get_if<double>(&*range.zero) : nullptr;
  range.shifts = number == nullptr || *number != 0;
  return range;
}

Step whole_numbers(const AtenCall& call, const Step& input, const Range& range) {
  Step whole = call.step("round", {call.step("div", {input, range.scale})});
  if (range.shifts) whole = call.step("add", {whole, range.zero});
  const auto least = call.number("quant_min");
  const auto most = call.number("quant_max");
  if (!least || !most) return std::nullopt;
  return call.step("clamp", {whole},
                   {{.name = "min", .value = *least}, {.name = "max", .value = *most}});
}

bool floats(const AtenCall& call, const Step& whole, const Range& range) {
  const Step apart = range.shifts ? call.step("sub", {whole, range.zero}) : whole;
  return call.last_step("mul", {apart, range.scale});
}

std::vector<WrittenAttribute> to(DType dtype) {
  return {{.name = "to", .value = std::string(name_of(dtype))}};
}

bool fake_quantize(const AtenCall& call, std::string_view) {
  const auto self = call.value("self");
  if (!self || call.results() != 1) return false;
  const Range range = range_of(call, call.at(*self).type);
  return floats(call, whole_numbers(call, call.tensor(*self), range), range);
}

bool quantize(const AtenCall& call, std::string_view) {
  const auto input = call.value("input");
  if (!input) return false;
  const Range range = range_of(call, call.at(*input).type);
  return call.last_step("cast", {whole_numbers(call, call.tensor(*input), range)},
                        to(call.type().dtype()));
}

bool dequantize(const AtenCall& call, std::string_view) {
  const auto input = call.value("input");
  if (!input) return false;
  const Range range = range_of(call, call.at(*input).type);
  return floats(call, call.step("cast", {call.tensor(*input)}, to(call.type().dtype())), range);
}

constexpr std::array kQuantizedRules = {
    AtenRule{"fake_quantize_per_tensor_affine", fake_quantize},
    AtenRule{"fake_quantize_per_channel_affine", fake_quantize},
    AtenRule{"quantize_per_tensor", quantize},
    AtenRule{"quantize_per_channel", quantize},
    AtenRule{"dequantize_per_tensor", dequantize},
    AtenRule{"dequantize_per_channel", dequantize},
};

}  // namespace

std::span<const AtenRule> aten_quantized_rules() { return kQuantizedRules; }

}  // namespace fusecalc
