// Computes what depends on constants only: mostly the arithmetic on shapes that exporters write
// out.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "input/arithmetic.hpp"
#include "input/onnx/constants.hpp"
#include "input/onnx/shapes.hpp"

namespace fusecalc {
namespace {

using Inputs = std::span<const Constant* const>;

// A result whose element i is input element `source(position)`, for each position of `shape`.
std::optional<Constant> pick(DType dtype, Shape shape,
                             const std::function<double(const std::vector<std::uint64_t>&)>& at) {
  if (!may_fold(shape)) return std::nullopt;
  Constant result{{shape, dtype}, {}};
  const std::uint64_t count = *checked_elements(shape);
  std::vector<std::uint64_t> position(shape.size(), 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    result.elements.push_back(at(position));
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++position[axis] < shape[axis]) break;
      position[axis] = 0;
    }
  }
  return result;
}

// The element of a broadcast operand at a position of the result.
double broadcast_at(const Constant& operand, const std::vector<std::uint64_t>& position) {
  const Shape& shape = operand.type.shape;
  std::uint64_t index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::uint64_t place = position[position.size() - shape.size() + axis];
    index = index * shape[axis] + (shape[axis] == 1 ? 0 : place);
  }
  return operand.elements[index];
}

struct Elementwise {
  std::string_view type;
  std::string_view row;
};
constexpr std::array kElementwise = {
    Elementwise{"Add", "add"},
    Elementwise{"Sub", "sub"},
    Elementwise{"Mul", "mul"},
    Elementwise{"Div", "div"},
    Elementwise{"Mod", "remainder"},
    Elementwise{"Pow", "pow"},
    Elementwise{"Max", "maximum"},
    Elementwise{"Min", "minimum"},
    Elementwise{"Equal", "eq"},
    Elementwise{"Less", "lt"},
    Elementwise{"LessOrEqual", "le"},
    Elementwise{"Greater", "gt"},
    Elementwise{"GreaterOrEqual", "ge"},
    Elementwise{"And", "logical_and"},
    Elementwise{"Or", "logical_or"},
    Elementwise{"Neg", "neg"},
    Elementwise{"Abs", "abs"},
    Elementwise{"Sqrt", "sqrt"},
    Elementwise{"Floor", "floor"},
    Elementwise{"Ceil", "ceil"},
    Elementwise{"Reciprocal", "reciprocal"},
    Elementwise{"Not", "logical_not"},
};

// The row that computes an operator element by element, or null.
const OpRow* row_of(const OnnxNode& node) {
  if (node.type == "Mod" && whole_attribute(node, "fmod", 0) != 0) return op_named("fmod");
  const auto* found = std::ranges::find(kElementwise, node.type, &Elementwise::type);
  return found == kElementwise.end() ? nullptr : op_named(found->row);
}

std::optional<Constant> fold_elementwise(const OpRow& row, Inputs inputs) {
  const Constant& a = *inputs[0];
  const auto shape = broadcast(a.type.shape, inputs.back()->type.shape);
  if (!shape) return std::nullopt;
  const DType dtype = row.type_rule == TypeRule::kBool ? DType::kBool : a.type.dtype;
  std::vector<double> operands(inputs.size());
  return pick(dtype, *shape, [&](const auto& position) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      operands[i] = broadcast_at(*inputs[i], position);
    }
    return computed(row, operands, dtype);
  });
}

std::optional<Constant> fold_constant(const OnnxNode& node) {
  const auto list = [](DType dtype, std::vector<double> elements, bool scalar) {
    const Shape shape = scalar ? Shape{} : Shape{elements.size()};
    return Constant{{shape, dtype}, std::move(elements)};
  };
  for (const OnnxAttribute& attribute : node.attributes) {
    const std::vector<std::int64_t>& wholes = attribute.wholes;
    if (attribute.name == "value" && attribute.tensor) return constant_of(*attribute.tensor);
    if (attribute.name == "value_int") {
      return list(DType::kI64, {static_cast<double>(attribute.whole.value_or(0))}, true);
    }
    if (attribute.name == "value_float") {
      return list(DType::kF32, {attribute.real.value_or(0)}, true);
    }
    if (attribute.name == "value_ints") {
      return list(DType::kI64, {wholes.begin(), wholes.end()}, false);
    }
    if (attribute.name == "value_floats") return list(DType::kF32, attribute.reals, false);
  }
  return std::nullopt;
}

std::optional<Constant> fold_cast(DType dtype, const Constant& x) {
  Constant result{{x.type.shape, dtype}, x.elements};
  for (double& element : result.elements) element = as_type(dtype, element);
  return result;
}

// The same elements in another shape: the target of Reshape, Squeeze, Unsqueeze and Flatten.
std::optional<Constant> fold_reshape(const OnnxNode& node, Inputs inputs) {
  const Constant& x = *inputs[0];
  const std::optional<Shape> shape =
      reshaped_by(node, x.type.shape, inputs.size() > 1 ? inputs[1] : nullptr);
  if (!shape || checked_elements(*shape) != x.elements.size()) return std::nullopt;
  return Constant{{*shape, x.type.dtype}, x.elements};
}

std::optional<Constant> fold_concat(const OnnxNode& node, Inputs inputs) {
  Shape shape = inputs[0]->type.shape;
  const auto axis = axis_of(whole_attribute(node, "axis", 0), shape.size());
  if (!axis) return std::nullopt;
  shape[*axis] = 0;
  for (const Constant* input : inputs) {
    if (input == nullptr || input->type.shape.size() != shape.size()) return std::nullopt;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i == *axis)
        shape[i] += input->type.shape[i];
      else if (shape[i] != input->type.shape[i])
        return std::nullopt;
    }
  }
  return pick(inputs[0]->type.dtype, shape, [&](std::vector<std::uint64_t> position) {
    std::size_t from = 0;
    while (position[*axis] >= inputs[from]->type.shape[*axis]) {
      position[*axis] -= inputs[from++]->type.shape[*axis];
    }
    return broadcast_at(*inputs[from], position);
  });
}

std::optional<Constant> fold_gather(const OnnxNode& node, Inputs inputs) {
  const Constant& x = *inputs[0];
  const Constant& indices = *inputs[1];
  const auto axis = axis_of(whole_attribute(node, "axis", 0), x.type.shape.size());
  if (!axis) return std::nullopt;
  const auto extent = static_cast<double>(x.type.shape[*axis]);
  for (const double index : indices.elements) {
    if (index < -extent || index >= extent) return std::nullopt;
  }
  const auto split = static_cast<std::ptrdiff_t>(*axis);
  const std::size_t index_rank = indices.type.shape.size();
  Shape shape(x.type.shape.begin(), x.type.shape.begin() + split);
  shape.insert(shape.end(), indices.type.shape.begin(), indices.type.shape.end());
  shape.insert(shape.end(), x.type.shape.begin() + split + 1, x.type.shape.end());
  return pick(x.type.dtype, shape, [&](const std::vector<std::uint64_t>& position) {
    const auto first = position.begin() + split;
    const double index =
        broadcast_at(indices, {first, first + static_cast<std::ptrdiff_t>(index_rank)});
    std::vector<std::uint64_t> source(position.begin(), first);
    source.push_back(static_cast<std::uint64_t>(index < 0 ? index + extent : index));
    source.insert(source.end(), first + static_cast<std::ptrdiff_t>(index_rank), position.end());
    return broadcast_at(x, source);
  });
}

// Elements, or parts, that the last axis of the indices names.
std::optional<Constant> fold_tuples(const OnnxNode& node, const Constant& x,
                                    const Constant& indices) {
  const Shape& named = indices.type.shape;
  if (named.empty() || whole_attribute(node, "batch_dims", 0) != 0) return std::nullopt;
  const std::uint64_t length = named.back();
  if (length == 0 || length > x.type.shape.size()) return std::nullopt;
  for (std::size_t i = 0; i < indices.elements.size(); ++i) {
    const auto extent = static_cast<double>(x.type.shape[i % length]);
    if (indices.elements[i] < -extent || indices.elements[i] >= extent) return std::nullopt;
  }
  Shape shape(named.begin(), named.end() - 1);
  shape.insert(shape.end(), x.type.shape.begin() + static_cast<std::ptrdiff_t>(length),
               x.type.shape.end());
  const auto tuples = static_cast<std::ptrdiff_t>(named.size() - 1);
  return pick(x.type.dtype, shape, [&](const std::vector<std::uint64_t>& position) {
    std::vector<std::uint64_t> place(position.begin(), position.begin() + tuples);
    std::vector<std::uint64_t> source;
    for (std::uint64_t i = 0; i < length; ++i) {
      place.resize(named.size() - 1);
      place.push_back(i);
      const double index = broadcast_at(indices, place);
      const auto extent = static_cast<double>(x.type.shape[i]);
      source.push_back(static_cast<std::uint64_t>(index < 0 ? index + extent : index));
    }
    source.insert(source.end(), position.begin() + tuples, position.end());
    return broadcast_at(x, source);
  });
}

// The sums so far along an axis.
std::optional<Constant> fold_sums(const OnnxNode& node, const Constant& x, const Constant& along) {
  if (along.elements.size() != 1 || whole_attribute(node, "exclusive", 0) != 0 ||
      whole_attribute(node, "reverse", 0) != 0) {
    return std::nullopt;
  }
  const auto axis = axis_of(along.integers()[0], x.type.shape.size());
  if (!axis) return std::nullopt;
  const std::uint64_t inner = elements_between(x.type.shape, *axis + 1, x.type.shape.size());
  Constant result = x;
  for (std::uint64_t i = 0; i < result.elements.size(); ++i) {
    const bool first = i / inner % x.type.shape[*axis] == 0;
    if (!first) result.elements[i] += result.elements[i - inner];
  }
  return result;
}

std::optional<Constant> fold_slice(const OnnxNode& node, Inputs inputs) {
  const Constant& x = *inputs[0];
  const std::optional<SliceRange> range = sliced_by(node, x.type.shape, inputs);
  if (!range) return std::nullopt;
  return pick(x.type.dtype, range->shape, [&](std::vector<std::uint64_t> position) {
    for (std::size_t axis = 0; axis < position.size(); ++axis) {
      position[axis] = static_cast<std::uint64_t>(
          range->starts[axis] + static_cast<std::int64_t>(position[axis]) * range->steps[axis]);
    }
    return broadcast_at(x, position);
  });
}

std::optional<Constant> fold_transpose(const OnnxNode& node, const Constant& x) {
  const std::optional<std::vector<std::size_t>> perm = permutation_of(node, x.type.shape.size());
  if (!perm) return std::nullopt;
  Shape shape;
  for (const std::size_t axis : *perm) shape.push_back(x.type.shape[axis]);
  return pick(x.type.dtype, shape, [&](const std::vector<std::uint64_t>& position) {
    std::vector<std::uint64_t> source(position.size());
    for (std::size_t i = 0; i < position.size(); ++i) source[(*perm)[i]] = position[i];
    return broadcast_at(x, source);
  });
}

std::optional<Constant> fold_expand(const Constant& x, const Constant& target) {
  Shape wanted;
  for (const std::int64_t extent : target.integers()) {
    if (extent < 0) return std::nullopt;
    wanted.push_back(static_cast<std::uint64_t>(extent));
  }
  const std::optional<Shape> shape = broadcast(x.type.shape, wanted);
  if (!shape) return std::nullopt;
  return pick(x.type.dtype, *shape,
              [&](const auto& position) { return broadcast_at(x, position); });
}

std::optional<Constant> fold_range(Inputs inputs) {
  for (const Constant* input : inputs) {
    if (input == nullptr || input->elements.size() != 1) return std::nullopt;
  }
  const double start = inputs[0]->elements[0];
  const double step = inputs[2]->elements[0];
  const double count = std::ceil((inputs[1]->elements[0] - start) / step);
  if (!(count <= static_cast<double>(kMostFolded))) return std::nullopt;
  const Shape shape{static_cast<std::uint64_t>(std::max(count, 0.0))};
  return pick(inputs[0]->type.dtype, shape, [&](const std::vector<std::uint64_t>& position) {
    return start + static_cast<double>(position[0]) * step;
  });
}

std::optional<Constant> fold_filled(const OnnxNode& node, const Constant& target) {
  const OnnxAttribute* given = node.find("value");
  std::optional<Constant> value;
  if (given != nullptr && given->tensor) {
    value = constant_of(*given->tensor);
    if (!value || value->elements.size() != 1) return std::nullopt;
    value->type.shape.clear();
  } else {
    value.emplace().elements.push_back(0);
  }
  return fold_expand(*value, target);
}

std::optional<Constant> fold_reduction(const OnnxNode& node, const Constant& x) {
  // Only of all elements: what the products of extents need.
  if (x.type.shape.size() > 1 || x.elements.empty()) return std::nullopt;
  const bool keep = whole_attribute(node, "keepdims", 1) != 0;
  double result = x.elements[0];
  for (std::size_t i = 1; i < x.elements.size(); ++i) {
    const double next = x.elements[i];
    if (node.type == "ReduceProd") result *= next;
    if (node.type == "ReduceSum") result += next;
    if (node.type == "ReduceMax") result = std::max(result, next);
    if (node.type == "ReduceMin") result = std::min(result, next);
  }
  const Shape shape = keep ? Shape(x.type.shape.size(), 1) : Shape{};
  return Constant{{shape, x.type.dtype}, {result}};
}

}  // namespace

std::optional<Constant> fold_node(const OnnxNode& node, std::span<const Constant* const> inputs) {
  if (!node.domain.empty()) return std::nullopt;
  if (node.type == "Constant") return fold_constant(node);
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr && i < node.inputs.size() && !node.inputs[i].empty()) {
      return std::nullopt;
    }
  }
  const Constant& x = *inputs[0];
  const Constant* second = inputs.size() > 1 ? inputs[1] : nullptr;
  if (node.type == "Identity") return x;
  const OpRow* row = row_of(node);
  const bool given = std::ranges::find(inputs, nullptr) == inputs.end();
  if (row != nullptr && given && inputs.size() == row->max_inputs) {
    return fold_elementwise(*row, inputs);
  }
  if (node.type == "Cast") {
    const auto dtype = dtype_of_onnx(static_cast<std::uint64_t>(whole_attribute(node, "to", 0)));
    return dtype ? fold_cast(*dtype, x) : std::nullopt;
  }
  if (node.type == "Reshape" || node.type == "Squeeze" || node.type == "Unsqueeze" ||
      node.type == "Flatten") {
    return fold_reshape(node, inputs);
  }
  if (node.type == "Concat") return fold_concat(node, inputs);
  if (node.type == "Slice") return fold_slice(node, inputs);
  if (node.type == "Transpose") return fold_transpose(node, x);
  if (node.type == "ConstantOfShape") return fold_filled(node, x);
  if (node.type == "ReduceProd" || node.type == "ReduceSum" || node.type == "ReduceMax" ||
      node.type == "ReduceMin") {
    return fold_reduction(node, x);
  }
  if (second == nullptr) return std::nullopt;
  if (node.type == "CastLike") return fold_cast(second->type.dtype, x);
  if (node.type == "Gather") return fold_gather(node, inputs);
  if (node.type == "GatherND") return fold_tuples(node, x, *second);
  if (node.type == "CumSum") return fold_sums(node, x, *second);
  if (node.type == "Expand") return fold_expand(x, *second);
  if (node.type == "Range" && inputs.size() == 3) return fold_range(inputs);
  if (node.type == "Where" && inputs.size() == 3 && inputs[2] != nullptr) {
    const auto shape = broadcast(x.type.shape, second->type.shape);
    const auto whole = shape ? broadcast(*shape, inputs[2]->type.shape) : std::nullopt;
    if (!whole) return std::nullopt;
    return pick(second->type.dtype, *whole, [&](const auto& position) {
      return broadcast_at(broadcast_at(x, position) != 0 ? *second : *inputs[2], position);
    });
  }
  return std::nullopt;
}

}  // namespace fusecalc
