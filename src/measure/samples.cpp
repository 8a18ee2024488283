#include "measure/samples.hpp"

#include <algorithm>
#include <utility>

#include "core/random_bits.hpp"

namespace fusecalc {
namespace {

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> samples) {
  std::ranges::sort(samples);
  samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
  return samples;
}

// The data of a scatter_update's indices; null if they are computed.
const GraphInput* indices_of(const OpGraph& graph, const Op& op,
                             std::span<const GraphInput> inputs) {
  const TensorId indices = graph.tensors[op.operands[1].tensor].value;
  const auto given = std::ranges::find(inputs, indices, &GraphInput::tensor);
  return given == inputs.end() ? nullptr : &*given;
}

// Elements of the rows that a scatter_update writes.
std::vector<std::uint64_t> patched_samples(const OpGraph& graph, const Op& op,
                                           std::span<const GraphInput> inputs, std::uint64_t seed,
                                           std::uint64_t count) {
  const GraphInput* const given = indices_of(graph, op, inputs);
  if (given == nullptr || graph.tensors[given->tensor].elements == 0) return {};
  const std::uint64_t rows = graph.tensors[given->tensor].elements;
  const Shape& shape = graph.tensors[op.outputs[0]].type.shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t wanted = op.attributes->axes ? op.attributes->axes->front() : 0;
  const auto axis = static_cast<std::size_t>(wanted < 0 ? wanted + rank : wanted);
  const std::uint64_t inner = elements_between(shape, axis + 1, shape.size());
  const std::uint64_t outer = elements_between(shape, 0, axis);
  std::vector<std::uint64_t> samples;
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
