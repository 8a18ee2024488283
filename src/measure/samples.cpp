#include "measure/samples.hpp"

#include <algorithm>
#include <utility>

#include "core/random_bits.hpp"
#include "graph/axis.hpp"

namespace fusecalc {
namespace {

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> samples) {
  std::ranges::sort(samples);
  samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
  return samples;
}

// The data of a scatter's indices; null if they are computed.
const GraphInput* indices_of(const OpGraph& graph, const Op& op,
                             std::span<const GraphInput> inputs) {
  const TensorId indices = graph.tensors[op.operands[1].tensor].value;
  const auto given = std::ranges::find(inputs, indices, &GraphInput::tensor);
  return given == inputs.end() ? nullptr : &*given;
}

// The element that the index at a place of a scatter_elements' indices names.
std::uint64_t named_element(const OpGraph& graph, const Op& op, std::size_t axis,
                            const GraphInput& given, std::uint64_t place) {
  const std::vector<std::uint64_t> strides = strides_of(graph.tensors[op.outputs[0]].type.shape);
  const Shape& named = graph.tensors[op.operands[1].tensor].type.shape;
  std::uint64_t element =
      static_cast<std::uint64_t>(std::max(given.data.value(place), 0.0)) * strides[axis];
  for (std::size_t i = named.size(); i-- > 0; place /= named[i]) {
    if (i != axis) element += place % named[i] * strides[i];
  }
  return element;
}

// Elements that a scatter writes.
std::vector<std::uint64_t> patched_samples(const OpGraph& graph, const Op& op,
                                           std::span<const GraphInput> inputs, std::uint64_t seed,
                                           std::uint64_t count) {
  const GraphInput* const given = indices_of(graph, op, inputs);
  if (given == nullptr || graph.tensors[given->tensor].elements == 0) return {};
  const std::uint64_t rows = graph.tensors[given->tensor].elements;
  const Shape& shape = graph.tensors[op.outputs[0]].type.shape;
  const std::size_t axis = axis_of(op, shape.size());
  std::vector<std::uint64_t> samples;
  if (op.row->family == OpFamily::kScatterElements) {
    for (std::uint64_t i = 0; i < count; ++i) {
      samples.push_back(named_element(graph, op, axis, *given, random_bits(seed, i) % rows));
    }
    return samples;
  }
  const std::uint64_t inner = elements_between(shape, axis + 1, shape.size());
  const std::uint64_t outer = elements_between(shape, 0, axis);
  for (std::uint64_t i = 0; i < count; ++i) {
    const double id = given->data.value(random_bits(seed, 3 * i) % rows);
    const std::uint64_t row = random_bits(seed, 3 * i + 1) % outer * shape[axis] +
                              static_cast<std::uint64_t>(std::max(id, 0.0));
    samples.push_back(row * inner + random_bits(seed, 3 * i + 2) % inner);
  }
  return samples;
}

}  // namespace

std::vector<std::uint64_t> samples_of(const Tensor& tensor, std::uint64_t seed,
                                      std::uint64_t count) {
  std::vector<std::uint64_t> samples;
  if (tensor.elements == 0 || count == 0) return samples;
  const std::uint64_t row = tensor.type.shape.empty() ? 1 : tensor.type.shape.back();
  const std::uint64_t rows = tensor.elements / row;
  const auto add = [&](std::uint64_t element) {
    if (samples.size() < count) samples.push_back(element);
  };
  add(tensor.elements - 1);
  add(0);
  for (std::uint64_t i = 0; samples.size() < count; ++i) {
    add(random_bits(seed, i) % tensor.elements);
    if (i % 4 != 0) continue;
    const std::uint64_t start = random_bits(~seed, i) % rows * row;
    add(start + row - 1);
    if (i % 8 == 0) add(start);
  }
  return sorted(std::move(samples));
}

bool samples_cover_op(const OpGraph& graph, TensorId result, std::span<const GraphInput> inputs) {
  const Op& op = graph.ops[graph.tensors[result].producer];
  return op.row->access != Access::kScatter || indices_of(graph, op, inputs) != nullptr;
}

std::vector<std::uint64_t> samples_of(const OpGraph& graph, TensorId result,
                                      std::span<const GraphInput> inputs, std::uint64_t seed,
                                      std::uint64_t count) {
  const Tensor& tensor = graph.tensors[result];
  const Op& op = graph.ops[tensor.producer];
  std::vector<std::uint64_t> samples;
  if (op.row->access == Access::kScatter && tensor.elements > 0) {
    samples = patched_samples(graph, op, inputs, seed, count / 2);
  }
  const std::vector<std::uint64_t> others = samples_of(tensor, seed, count - samples.size());
  samples.insert(samples.end(), others.begin(), others.end());
  return sorted(std::move(samples));
}

}  // namespace fusecalc
