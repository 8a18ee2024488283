#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "input/model_shapes.hpp"
#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;

// The most ops that are followed back from a sum.
constexpr int kMostRowSteps = 100;
// Rows that are shorter save little.
constexpr std::uint64_t kShortestRow = 8;

// Whether an op was written with the last of so many axes as its only one.
bool along_last(const ModelGraph::Origin& origin, std::size_t rank) {
  const auto* axes = list_in(origin, "axes");
  if (axes == nullptr || axes->size() != 1) return false;
  const auto* axis = std::get_if<std::int64_t>(axes->data());
  return axis != nullptr && axis_of(*axis, rank) == rank - 1;
}

class RowSearch {
 public:
  RowSearch(const ModelGraph& graph, std::size_t rank) : graph_(graph), rank_(rank) {}

  // Whether elementwise ops made a tensor of what was computed of whole rows, those along the last
  // axis.
  bool made_of_rows(TensorId tensor) {
    if (++steps_ > kMostRowSteps || graph_.is_input(tensor)) return false;
    const auto [row, origin] = graph_.maker(tensor);
    switch (row->family) {
      case OpFamily::kSoftmax:
      case OpFamily::kRowNorm: return rank_of(tensor) == rank_ && along_last(origin, rank_);
      case OpFamily::kReduce:
        return rank_of(tensor) == rank_ && graph_.type(tensor).shape().back() == 1 &&
               along_last(origin, rank_);
      case OpFamily::kReshape: return shows_reduced_rows(tensor, origin);
      case OpFamily::kPointwise:
      case OpFamily::kWhere:
      case OpFamily::kCast:
        return std::ranges::any_of(origin.inputs, [this](const ModelGraph::Input& input) {
          const auto each = tensor_in(input);
          return each && made_of_rows(*each);
        });
      default: return false;
    }
  }

 private:
  std::size_t rank_of(TensorId tensor) const { return graph_.type(tensor).shape().size(); }

  // A number of each row that was reduced, as a column.
  bool shows_reduced_rows(TensorId tensor, const ModelGraph::Origin& view) const {
    const auto from = tensor_in(view.inputs[0]);
    if (!from || graph_.is_input(*from) || rank_of(tensor) != rank_) return false;
    if (graph_.type(tensor).shape().back() != 1 || rank_of(*from) + 1 != rank_) return false;
    const auto [row, origin] = graph_.maker(*from);
    return row->family == OpFamily::kReduce && along_last(origin, rank_);
  }

  const ModelGraph& graph_;
  std::size_t rank_;
  int steps_ = 0;
};

}  // namespace

void find_sum_of_rows(ModelGraph& graph, TensorId last) {
  const auto [row, origin] = graph.maker(last);
  const bool adds = row->name == "sum" || row->name == "mean";
  const auto from = tensor_in(origin.inputs[0]);
  const ModelType result = graph.type(last);  // a copy: new ops move the graph's tensors
  if (!adds || !from || !result.shape().empty()) return;
  // The sums of rows are stored: in narrower types they would be rounded.
  const bool wide = result.dtype() == DType::kF32 || result.dtype() == DType::kF64;
  const ModelType& whole = graph.type(*from);
  if (!wide || whole.dtype() != result.dtype()) return;
  const std::size_t rank = whole.shape().size();
  if (rank < 2 || whole.shape().back() < kShortestRow) return;
  if (!RowSearch(graph, rank).made_of_rows(*from)) return;
  ModelType rows = whole;
  rows.type.shape.pop_back();
  rows.extents.pop_back();
  const auto each = graph.op(row->name, {*from}, {listed("axes", {-1})}, rows);
  const auto all = each ? graph.op(row->name, {*each}, {}, result) : std::nullopt;
  if (all) graph.instead(last, *all, {});
}

}  // namespace fusecalc
