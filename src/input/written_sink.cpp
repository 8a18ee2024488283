#include "input/written_sink.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Origin = ModelGraph::Origin;

// What the scores were before their maximum was subtracted, or before they were cast.
std::optional<TensorId> scores_before(const ModelGraph& graph, TensorId scores) {
  if (const auto cast = graph.written_by(scores, "cast")) return tensor_in(cast->inputs[0]);
  const auto less = graph.written_by(scores, "sub");
  const auto amount = less ? tensor_in(less->inputs[1]) : std::nullopt;
  const auto most = amount ? graph.written_by(*amount, "max") : std::nullopt;
  return most && most->inputs[0] == less->inputs[0] ? tensor_in(less->inputs[0]) : std::nullopt;
}

}  // namespace

std::optional<TensorId> before_last_column(const ModelGraph& graph, TensorId tensor) {
  for (const std::string_view row : {"slice_view", "slice"}) {
    const auto cut = graph.written_by(tensor, row);
    if (!cut) continue;
    const auto* starts = list_in(*cut, "starts");
    const TensorId whole = *tensor_in(cut->inputs[0]);
    Shape shape = graph.type(tensor).shape();
    if (shape.empty() || starts == nullptr || starts->size() != 1) return std::nullopt;
    ++shape.back();
    const bool first = starts->front() == WrittenDim(std::int64_t{0});
    return first && shape == graph.type(whole).shape() ? std::optional(whole) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<ScoresAndSink> scores_beside_sink(const ModelGraph& graph, TensorId joined) {
  constexpr int kMostBefore = 4;
  for (int step = 0; step < kMostBefore; ++step) {
    const auto before = scores_before(graph, joined);
    if (!before) break;
    joined = *before;
  }
  const auto row = graph.written_by(joined, "concat");
  if (!row || row->inputs.size() != 2) return std::nullopt;
  const auto scores = tensor_in(row->inputs[0]);
  const auto sink = tensor_in(row->inputs[1]);
  if (!scores || !sink) return std::nullopt;
  Shape shape = graph.type(joined).shape();
  --shape.back();
  if (graph.type(*scores).shape() != shape) return std::nullopt;
  return ScoresAndSink{*scores, *sink};
}

std::optional<TensorId> less_sink(ModelGraph& graph, TensorId result, TensorId logsumexp,
                                  TensorId sink) {
  ModelType column = graph.type(logsumexp);  // a copy: new ops move the graph's tensors
  column.type.shape.push_back(1);
  column.extents.emplace_back(std::int64_t{1});
  std::optional<TensorId> share = reshaped(graph, logsumexp, column);
  const auto step = [&](std::string_view row, std::vector<ModelGraph::Input> inputs,
                        std::vector<WrittenAttribute> attributes) {
    const auto made = graph.op(row, std::move(inputs), std::move(attributes), std::size_t{1});
    share = made ? std::optional(made->front()) : std::nullopt;
  };
  const DType dtype = graph.type(result).dtype();
  if (share) step("sub", {*share, sink}, {});
  if (share) step("sigmoid", {*share}, {});
  if (share && graph.type(*share).dtype() != dtype) {
    step("cast", {*share}, {{.name = "to", .value = std::string(name_of(dtype))}});
  }
  if (share) step("mul", {result, *share}, {});
  return share;
}

}  // namespace fusecalc
