#include "plan/siblings.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "graph/product_parts.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kPieceBytes = 16;  // that threads and the copy engine bring at once

// Numbers the kernel's ops, such that those of one number are connected by what they make for each
// other. They come in any order.
std::vector<std::size_t> connected_ops(const OpGraph& graph, const Kernel& kernel) {
  std::vector<std::pair<OpId, std::size_t>> places;
  std::vector<std::size_t> root;
  places.reserve(kernel.size());
  root.reserve(kernel.size());
  for (const OpId id : kernel) {
    places.emplace_back(id, places.size());
    root.push_back(root.size());
  }
  std::ranges::sort(places);
  const auto find = [&](std::size_t i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    for (const Outline::Input& input : graph.outline.inputs_of(kernel[i])) {
      const auto maker =
          std::ranges::lower_bound(places, std::pair(input.producer, std::size_t{0}));
      if (maker == places.end() || maker->first != input.producer) continue;
      root[find(i)] = find(maker->second);
    }
  }
  for (std::size_t i = 0; i < root.size(); ++i) root[i] = find(i);
  return root;
}

}  // namespace

std::optional<WeightLines> lines_in_tiles(const OpGraph& graph, const Op& product) {
  const bool known = is_matrix_product(product.row->family) || groups_of(graph, product) > 0;
  const bool of_rows = known && product.matrix.batch == 1 && !product.attributes->transpose_a &&
                       scales_sums(graph, product);
  if (!of_rows) return std::nullopt;
  const DType type = graph.tensors[product.operands[0].tensor].type.dtype;
  const Tensor& made = graph.tensors[product.outputs[0]];
  const bool on_tensor_cores =
      type == DType::kBf16 || type == DType::kF16 || type == DType::kF32 || type == DType::kTf32;
  if (!on_tensor_cores || graph.tensors[product.operands[1].tensor].type.dtype != type ||
      !is_float(made.type.dtype) || made.type.dtype == DType::kF64 || made.elements == 0 ||
      product.matrix.depth == 0) {
    return std::nullopt;
  }
  const std::optional<WeightLines> lines = weight_lines(graph, product);
  const bool odd = lines == WeightLines::kAcrossDepth &&
                   bytes_of(type, product.matrix.columns) % kPieceBytes != 0;
  return odd ? std::nullopt : lines;
}

bool are_siblings(const OpGraph& graph, OpId first, OpId second) {
  constexpr std::uint64_t kFewRows = 64;
  const Op& a = graph.ops[first];
  const Op& b = graph.ops[second];
  if (!is_matrix_product(a.row->family) || !is_matrix_product(b.row->family)) return false;
  // Most read other rows, which is told soonest.
  const Tensor& rows = graph.tensors[a.operands[0].tensor];
  const Tensor& others = graph.tensors[b.operands[0].tensor];
  const bool same_rows = rows.window == others.window && rows.type.dtype == others.type.dtype &&
                         a.matrix.depth == b.matrix.depth && a.matrix.rows == b.matrix.rows &&
                         a.matrix.rows > kFewRows;
  if (!same_rows) return false;
  const std::optional<WeightLines> lines = lines_in_tiles(graph, a);
  return lines && lines == lines_in_tiles(graph, b);
}

std::vector<Kernel> sibling_parts(const OpGraph& graph, const Kernel& kernel) {
  std::array<std::size_t, kMostSiblings> places{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (!graph.outline[kernel[i]].contracts()) continue;
    const bool fits = count < kMostSiblings &&
                      (count == 0 || are_siblings(graph, kernel[places.front()], kernel[i]));
    if (!fits) return {};
    places[count++] = i;
  }
  if (count < 2) return {};
  const std::vector<std::size_t> number = connected_ops(graph, kernel);
  std::vector<Kernel> parts;
  std::size_t ops = 0;
  for (const std::size_t contraction : std::span(places).first(count)) {
    Kernel& part = parts.emplace_back();
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      if (number[i] != number[contraction]) continue;
      if (i != contraction && graph.outline[kernel[i]].contracts()) return {};
      part.push_back(kernel[i]);
    }
    ops += part.size();
  }
  return ops == kernel.size() ? parts : std::vector<Kernel>{};
}

OpId contraction_of(const OpGraph& graph, const Kernel& part) {
  return *std::ranges::find_if(part, [&](OpId id) { return graph.outline[id].contracts(); });
}

}  // namespace fusecalc
