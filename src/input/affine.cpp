#include "input/affine.hpp"

#include <algorithm>
#include <cmath>

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Input = ModelGraph::Input;
using Origin = ModelGraph::Origin;

// The most ops that a tensor is followed through.
constexpr int kMostFollowed = 100;

}  // namespace

bool Affine::is_constant() const {
  return std::ranges::all_of(along, [](double step) { return step == 0; });
}

double number_of(const Origin& origin, std::string_view name, double otherwise) {
  const auto found = std::ranges::find(origin.attributes, name, &WrittenAttribute::name);
  if (found == origin.attributes.end()) return otherwise;
  if (const auto* real = std::get_if<double>(&found->value)) return *real;
  const auto* whole = std::get_if<std::int64_t>(&found->value);
  return whole == nullptr ? std::nan("") : static_cast<double>(*whole);
}

bool AffineReader::goes_on() { return ++steps_ <= kMostFollowed; }

std::optional<TensorId> AffineReader::viewed(TensorId tensor) const {
  for (const std::string_view row : {"reshape", "copy", "expand_view", "broadcast_to"}) {
    if (const auto view = graph_.written_by(tensor, row)) {
      return std::get<TensorId>(view->inputs[0]);
    }
  }
  return std::nullopt;
}

// The numbers of `from` where `to` shows them: axes of one element come and go, and are repeated.
std::optional<Affine> AffineReader::moved(const std::optional<Affine>& affine, TensorId from,
                                          TensorId to) const {
  if (!affine) return std::nullopt;
  const Shape& shape = graph_.type(to).shape();
  const Shape& before = graph_.type(from).shape();
  Affine result{std::vector<double>(shape.size(), 0), affine->constant};
  if (affine->is_constant()) return result;
  const bool repeats = !graph_.written_by(to, "reshape");
  std::size_t next = 0;
  if (repeats) {
    if (before.size() > shape.size()) return std::nullopt;
    next = shape.size() - before.size();
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!repeats && before[i] == 1) continue;
    while (!repeats && next < shape.size() && shape[next] == 1) ++next;
    if (next == shape.size()) return std::nullopt;
    if (before[i] != shape[next] && before[i] != 1) return std::nullopt;
    if (before[i] != 1) result.along[next] = affine->along[i];
    ++next;
  }
  return result;
}

std::optional<Affine> AffineReader::numbers(const Input& input, std::size_t axes) {
  if (const auto* number = std::get_if<double>(&input)) {
    return Affine{std::vector<double>(axes, 0), *number};
  }
  std::optional<Affine> affine = numbers(std::get<TensorId>(input));
  if (!affine || affine->along.size() > axes) return std::nullopt;
  affine->along.insert(affine->along.begin(), axes - affine->along.size(), 0);
  return affine;
}

std::optional<Affine> AffineReader::numbers(TensorId tensor) {
  if (!goes_on()) return std::nullopt;
  const Shape& shape = graph_.type(tensor).shape();
  if (const auto from = viewed(tensor)) return moved(numbers(*from), *from, tensor);
  if (const auto full = graph_.written_by(tensor, "full")) {
    return Affine{std::vector<double>(shape.size(), 0), number_of(*full, "value", 0)};
  }
  // Narrower types do not hold every place.
  const DType dtype = graph_.type(tensor).dtype();
  if (dtype != DType::kI64 && dtype != DType::kI32 && dtype != DType::kF32) return std::nullopt;
  if (const auto range = graph_.written_by(tensor, "iota")) {
    if (shape.size() != 1) return std::nullopt;
    return Affine{{number_of(*range, "delta", 1)}, number_of(*range, "first", 0)};
  }
  if (const auto cast = graph_.written_by(tensor, "cast")) {
    return numbers(std::get<TensorId>(cast->inputs[0]));
  }
  for (const double sign : {1.0, -1.0}) {
    const auto sum = graph_.written_by(tensor, sign > 0 ? "add" : "sub");
    if (sum) return combined(*sum, shape.size(), sign);
  }
  return std::nullopt;
}

std::optional<Affine> AffineReader::combined(const Origin& origin, std::size_t axes, double sign) {
  std::optional<Affine> result = numbers(origin.inputs[0], axes);
  const std::optional<Affine> other = numbers(origin.inputs[1], axes);
  if (!result || !other) return std::nullopt;
  for (std::size_t i = 0; i < axes; ++i) result->along[i] += sign * other->along[i];
  result->constant += sign * other->constant;
  return result;
}

bool choose_all(const ModelGraph& graph, std::span<const TensorId> indices,
                std::span<const std::uint64_t> axes) {
  std::size_t rank = 0;
  for (const TensorId index : indices) rank = std::max(rank, graph.type(index).shape().size());
  std::size_t next = 0;  // the first axis of the result that the index may count along
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const Shape& shape = graph.type(indices[i]).shape();
    const std::optional<Affine> affine = AffineReader(graph).numbers(indices[i]);
    if (!affine || affine->constant != 0) return false;
    std::size_t longer = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == 1) continue;
      const std::size_t in_result = axis + rank - shape.size();
      if (++longer > 1 || in_result < next) return false;
      if (affine->along[axis] != 1 || shape[axis] != axes[i]) return false;
      next = in_result + 1;
    }
    if (longer == 0 && axes[i] != 1) return false;
  }
  return true;
}

}  // namespace fusecalc
