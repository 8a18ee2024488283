#include "input/written_heads.hpp"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "input/model_shapes.hpp"
#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;

// What `below` shows without its repetition, with heads before or after the rows of memory.
std::optional<TensorId> as_heads(ModelGraph& graph, const ModelGraph::Shown& below,
                                 const StridedMap& repeated, const ModelType& keys) {
  const auto in_shape = [&](const ModelType& type) {
    TensorId tensor = below.tensor;
    while (const auto view = graph.written_by(tensor, "reshape")) {
      tensor = std::get<TensorId>(view->inputs[0]);
    }
    if (graph.type(tensor).shape() == type.shape()) return std::optional(tensor);
    return graph.op("reshape", {tensor}, {listed("shape", type.extents)}, type);
  };
  if (repeated == below.map) return in_shape(keys);
  const std::size_t heads = keys.shape().size() - 3;
  ModelType rows = keys;
  std::swap(rows.type.shape[heads], rows.type.shape[heads + 1]);
  std::swap(rows.extents[heads], rows.extents[heads + 1]);
  StridedMap order;
  const std::uint64_t row = keys.shape().back();
  order.append(elements_between(keys.shape(), 0, heads),
               elements_between(keys.shape(), heads, keys.shape().size()));
  order.append(keys.shape()[heads], row);
  order.append(keys.shape()[heads + 1], row * keys.shape()[heads]);
  order.append(row, 1);
  if (joined(repeated, order) != below.map) return std::nullopt;
  std::vector<std::int64_t> perm(keys.shape().size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[heads], perm[heads + 1]);
  const auto in_rows = in_shape(rows);
  if (!in_rows) return std::nullopt;
  return graph.op("permute_view", {*in_rows}, {listed("perm", perm)}, keys);
}

}  // namespace

TensorId unrepeated(ModelGraph& graph, TensorId tensor, std::uint64_t query_heads) {
  const ModelType type = graph.type(tensor);  // a copy: new ops move the graph's tensors
  const Shape& shape = type.shape();
  if (shape.size() < 3 || shape[shape.size() - 3] != query_heads) return tensor;
  const std::size_t heads = shape.size() - 3;
  const std::uint64_t elements = elements_between(shape, 0, shape.size());
  const std::uint64_t matrix = elements_between(shape, heads + 1, shape.size());
  ModelGraph::Shown below{tensor, StridedMap::of(elements)};
  for (int views = 0; views < kMostViews; ++views) {
    const auto next = graph.shown(below.tensor);
    const auto map = next ? joined(below.map, next->map) : std::nullopt;
    if (!map) break;
    below = {next->tensor, *map};
    const Shape& single = graph.type(below.tensor).shape();
    const std::uint64_t left = elements_between(single, 0, single.size());
    if (left == 0 || left >= elements || elements % left != 0) continue;
    const std::uint64_t copies = elements / left;
    if (query_heads % copies != 0) continue;
    StridedMap repeated;
    repeated.append(elements / matrix / copies, matrix);
    repeated.append(copies, 0);
    repeated.append(matrix, 1);
    ModelType keys = type;
    keys.type.dtype = graph.type(below.tensor).dtype();
    keys.type.shape[heads] /= copies;
    keys.extents[heads] = static_cast<std::int64_t>(keys.type.shape[heads]);
    if (const auto found = as_heads(graph, below, repeated, keys)) return *found;
  }
  return tensor;
}

}  // namespace fusecalc
