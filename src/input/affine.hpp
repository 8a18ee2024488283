#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "input/model_graph.hpp"

namespace fusecalc {

// What constant elements are, in the order in which they lie.
KnownElements known_elements(const Shape& shape, std::span<const double> elements);

double number_of(const ModelGraph::Origin& origin, std::string_view name, double otherwise);

// Finds tensors that are affine: ranges, constants, their sums, parts and joins.
class AffineReader {
 public:
  explicit AffineReader(const ModelGraph& graph) : graph_(graph) {}

  // The function that a tensor is, if it is one.
  std::optional<Affine> numbers(ModelGraph::TensorId tensor);
  // Of the sum (sign 1) or difference (-1) of an op's inputs, with so many axes.
  std::optional<Affine> combined(const ModelGraph::Origin& origin, std::size_t axes, double sign);
  // What a tensor shows with other axes, and the numbers of `from` where `to` shows them.
  std::optional<ModelGraph::TensorId> viewed(ModelGraph::TensorId tensor) const;
  std::optional<Affine> moved(const std::optional<Affine>& affine, ModelGraph::TensorId from,
                              ModelGraph::TensorId to) const;
  // False after so many ops that the search has to end.
  bool goes_on();

 private:
  std::optional<Affine> numbers(const ModelGraph::Input& input, std::size_t axes);
  std::optional<Affine> sliced(const ModelGraph::Origin& slice);
  std::optional<Affine> joined(const ModelGraph::Origin& concat);
  std::optional<Affine> summed(const ModelGraph::Origin& scan);
  std::optional<Affine> compared(ModelGraph::TensorId tensor);

  const ModelGraph& graph_;
  int steps_ = 0;
};

// Along which axis of a result with so many axes an index counts up from 0 to all of an extent; the
// rank for an extent of 1, which is 0 everywhere.
std::optional<std::size_t> counted_axis(const ModelGraph& graph, ModelGraph::TensorId index,
                                        std::uint64_t extent, std::size_t rank);

// Whether indices of the first axes of a tensor choose all of its elements in their order: each
// counts up along an axis of its own. `axes` are the tensor's extents there.
bool choose_all(const ModelGraph& graph, std::span<const ModelGraph::TensorId> indices,
                std::span<const std::uint64_t> axes);

}  // namespace fusecalc
