#include "input/affine.hpp"

#include <algorithm>
#include <cmath>

#include "input/model_shapes.hpp"
#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Input = ModelGraph::Input;
using Origin = ModelGraph::Origin;

// The most ops that a tensor is followed through.
constexpr int kMostFollowed = 1000;

}  // namespace

bool Affine::is_constant() const {
  return std::ranges::all_of(along, [](double step) { return step == 0; });
}

namespace {

std::optional<Affine> numbers_of(const Shape& shape, std::span<const double> elements) {
  Affine affine{std::vector<double>(shape.size(), 0), elements[0]};
  std::size_t stride = elements.size();
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    stride /= shape[axis];
    if (shape[axis] > 1) affine.along[axis] = elements[stride] - elements[0];
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    double expected = affine.constant;
    std::size_t rest = i;
    for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      expected += affine.along[axis] * static_cast<double>(rest % shape[axis]);
    }
    if (elements[i] != expected) return std::nullopt;
  }
  return affine;
}

// Rows of a mask, each of which shows one element more than that before it.
std::optional<Affine> triangle_of(const Shape& shape, std::span<const double> elements) {
  if (shape.size() < 2) return std::nullopt;
  const bool adds = std::ranges::any_of(elements, [](double each) { return each < 0; });
  const auto shows = [&](double element) { return adds ? element == 0 : element != 0; };
  const auto is_mask = [&](double element) {
    return element == 0 || (adds ? element < kMaskedScore : element == 1);
  };
  if (!std::ranges::all_of(elements, is_mask)) return std::nullopt;
  const std::uint64_t columns = shape.back();
  const std::uint64_t rows = shape[shape.size() - 2];
  const auto first = elements.first(columns);
  const auto shown = static_cast<std::uint64_t>(std::ranges::count_if(first, shows));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (shows(elements[i]) != (i % columns < shown + i / columns % rows)) return std::nullopt;
  }
  Affine affine{std::vector<double>(shape.size(), 0), 1 - static_cast<double>(shown)};
  affine.along[shape.size() - 1] = 1;
  affine.along[shape.size() - 2] = -1;
  return affine;
}

}  // namespace

KnownElements known_elements(const Shape& shape, std::span<const double> elements) {
  if (elements.empty()) return {};
  return {numbers_of(shape, elements), triangle_of(shape, elements)};
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

// Part of a range of each axis.
std::optional<Affine> AffineReader::sliced(const Origin& slice) {
  const auto from = std::get<TensorId>(slice.inputs[0]);
  std::optional<Affine> result = numbers(from);
  const auto* axes = list_in(slice, "axes");
  const auto* starts = list_in(slice, "starts");
  const auto* steps = list_in(slice, "steps");
  if (!result || axes == nullptr || starts == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const auto* axis = std::get_if<std::int64_t>(&(*axes)[i]);
    const auto* start = std::get_if<std::int64_t>(&(*starts)[i]);
    const std::int64_t one = 1;
    const auto* step = steps == nullptr ? &one : std::get_if<std::int64_t>(&(*steps)[i]);
    const auto place = axis != nullptr ? axis_of(*axis, result->along.size()) : std::nullopt;
    if (!place || start == nullptr || step == nullptr || *start < 0) return std::nullopt;
    result->constant += static_cast<double>(*start) * result->along[*place];
    result->along[*place] *= static_cast<double>(*step);
  }
  return result;
}

// Parts that go on where the ones before end.
std::optional<Affine> AffineReader::joined(const Origin& concat) {
  const auto* axes = list_in(concat, "axes");
  const auto* written = axes == nullptr ? nullptr : std::get_if<std::int64_t>(axes->data());
  if (written == nullptr) return std::nullopt;
  std::optional<Affine> whole;
  std::optional<double> step;  // along the axis, once two of its elements are known
  double place = 0;
  for (const Input& input : concat.inputs) {
    const auto part = std::get<TensorId>(input);
    const Shape shape = graph_.type(part).shape();
    const auto axis = axis_of(*written, shape.size());
    const std::optional<Affine> next = axis ? numbers(part) : std::nullopt;
    if (!next || shape[*axis] == 0) return std::nullopt;
    if (whole && !step) step = (next->constant - whole->constant) / place;
    if (!step && shape[*axis] > 1) step = next->along[*axis];
    if (!whole) whole = next;
    if (shape[*axis] > 1 && next->along[*axis] != *step) return std::nullopt;
    if (step && next->constant != whole->constant + place * *step) return std::nullopt;
    for (std::size_t i = 0; i < next->along.size(); ++i) {
      if (i != *axis && next->along[i] != whole->along[i]) return std::nullopt;
    }
    place += static_cast<double>(shape[*axis]);
    if (step) whole->along[*axis] = *step;
  }
  return whole;
}

// The sums so far of a constant.
std::optional<Affine> AffineReader::summed(const Origin& scan) {
  std::optional<Affine> result = numbers(std::get<TensorId>(scan.inputs[0]));
  const auto* axes = list_in(scan, "axes");
  const auto* axis = axes == nullptr ? nullptr : std::get_if<std::int64_t>(axes->data());
  if (!result || !result->is_constant() || axis == nullptr) return std::nullopt;
  const auto place = axis_of(*axis, result->along.size());
  if (!place) return std::nullopt;
  result->along[*place] = result->constant;
  return result;
}

// A comparison that has the same outcome everywhere, as 1 or 0.
std::optional<Affine> AffineReader::compared(TensorId tensor) {
  for (const bool equal : {true, false}) {
    const auto origin = graph_.written_by(tensor, equal ? "eq" : "ne");
    if (!origin) continue;
    auto difference = combined(*origin, graph_.type(tensor).shape().size(), -1);
    if (!difference || !difference->is_constant()) return std::nullopt;
    difference->constant = (difference->constant == 0) == equal ? 1 : 0;
    return difference;
  }
  return std::nullopt;
}

std::optional<Affine> AffineReader::numbers(TensorId tensor) {
  if (!goes_on()) return std::nullopt;
  if (const auto& known = graph_.known(tensor).numbers) return known;
  const Shape& shape = graph_.type(tensor).shape();
  if (graph_.type(tensor).dtype() == DType::kBool) {
    if (auto same = compared(tensor)) return same;
  }
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
  for (const std::string_view row : {"slice_view", "slice"}) {
    if (const auto slice = graph_.written_by(tensor, row)) return sliced(*slice);
  }
  if (const auto concat = graph_.written_by(tensor, "concat")) return joined(*concat);
  if (const auto scan = graph_.written_by(tensor, "cumsum")) return summed(*scan);
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

std::optional<std::size_t> counted_axis(const ModelGraph& graph, TensorId index,
                                        std::uint64_t extent, std::size_t rank) {
  const Shape& shape = graph.type(index).shape();
  const std::optional<Affine> affine = AffineReader(graph).numbers(index);
  if (!affine || affine->constant != 0) return std::nullopt;
  std::optional<std::size_t> counted;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    if (counted || affine->along[axis] != 1 || shape[axis] != extent) return std::nullopt;
    counted = axis + rank - shape.size();
  }
  return extent == 1 ? rank : counted;
}

bool choose_all(const ModelGraph& graph, std::span<const TensorId> indices,
                std::span<const std::uint64_t> axes) {
  std::size_t rank = 0;
  for (const TensorId index : indices) rank = std::max(rank, graph.type(index).shape().size());
  std::size_t next = 0;  // the first axis of the result that the index may count along
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto axis = counted_axis(graph, indices[i], axes[i], rank);
    if (!axis || *axis < next) return false;
    if (*axis < rank) next = *axis + 1;
  }
  return true;
}

}  // namespace fusecalc
