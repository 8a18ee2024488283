#include "plan/grouped_weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace fusecalc {
namespace {

// Whether the op's result is an affine function of this operand, whatever the others are: found by
// computing it, so that no list of such ops is needed.
bool is_affine(const Op& op, std::size_t operand) {
  if (op.row->family == OpFamily::kCast) return true;
  const OpRow& row = *op.row;
  if (row.family != OpFamily::kPointwise || row.jumps || row.reference == nullptr) return false;
  std::vector<double> inputs;
  for (const Operand& each : op.operands) {
    inputs.push_back(each.tensor == kNone ? each.number : 0.75);
  }
  const auto result = [&](double x) {
    inputs[operand] = x;
    return row.reference(inputs, *op.attributes);
  };
  const double start = result(0);
  const double slope = result(1) - start;
  return std::ranges::all_of(std::array{-1e6, -15.0, 0.5, 3.0, 1e6}, [&](double x) {
    constexpr double kRounding = 1e-9;
    return std::abs(result(x) - (start + slope * x)) <=
           kRounding * (std::abs(start) + std::abs(slope * x));
  });
}

// How many neighbouring elements of the result take the same element of a broadcast operand.
std::uint64_t elements_sharing(const Shape& operand, const Shape& result) {
  std::uint64_t count = 1;
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const std::uint64_t extent = result[result.size() - back];
    const bool repeats = back > operand.size() || operand[operand.size() - back] == 1;
    if (!repeats && extent > 1) break;
    count *= extent;
  }
  return count;
}

}  // namespace

std::optional<GroupedWeights> grouped_weights(const OpGraph& graph, const Kernel& kernel,
                                              OpId contraction) {
  constexpr std::uint64_t kMostGroup = 128;
  constexpr std::uint64_t kLeastGroup = 32;
  constexpr std::uint64_t kMostRows = 16;
  const Op& product = graph.ops[contraction];
  const bool fits =
      product.row->family == OpFamily::kLinear && product.matrix.depth % kMostGroup == 0 &&
      graph.tensors[product.outputs[0]].elements <= kMostRows * product.matrix.columns;
  if (!fits) return std::nullopt;
  TensorId tensor = product.operands[1].tensor;
  const std::uint64_t weights = graph.tensors[tensor].elements;
  std::uint64_t shared = 0;  // a multiple of the groups of all operands; 0 before the first
  while (true) {
    const Tensor& value = graph.value_of(tensor);
    if (graph.tensors[tensor].window != graph.tensors[tensor].value || value.elements != weights) {
      return std::nullopt;
    }
    const DType type = value.type.dtype;
    if (value.producer == kNone || !std::ranges::binary_search(kernel, value.producer)) {
      if (type != DType::kI4 && type != DType::kU4) return std::nullopt;
      GroupedWeights found{.packed = graph.tensors[tensor].value, .group = kMostGroup};
      while (found.group >= kLeastGroup && shared % found.group != 0) found.group /= 2;
      return found.group >= kLeastGroup ? std::optional(found) : std::nullopt;
    }
    const Op& op = graph.ops[value.producer];
    if (!is_float(type)) return std::nullopt;  // it may wrap around
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const Operand& operand = op.operands[i];
      if (operand.tensor == kNone) continue;
      const Tensor& read = graph.tensors[operand.tensor];
      if (read.elements == weights) {
        if (next) return std::nullopt;
        next = i;
      } else {
        shared = std::gcd(shared, elements_sharing(read.type.shape, value.type.shape));
      }
    }
    if (!next || !is_affine(op, *next)) return std::nullopt;
    tensor = op.operands[*next].tensor;
    // Rounded, a function is not affine; integers of four bits are exact in any float.
    const bool rounds =
        op.row->family == OpFamily::kCast && is_float(graph.tensors[tensor].type.dtype);
    if (rounds) return std::nullopt;
  }
}

}  // namespace fusecalc
