#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include "input/model_shapes.hpp"
#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Input = ModelGraph::Input;
using Origin = ModelGraph::Origin;
using Shown = ModelGraph::Shown;
using Inner = std::vector<TensorId>;

std::uint64_t count_of(const Shape& shape) { return elements_between(shape, 0, shape.size()); }

// Elements that lie in runs: where the first begins, how long they are, and from one to the next.
struct Runs {
  std::uint64_t first = 0;
  std::uint64_t length = 1;
  std::uint64_t step = 1;

  // Of all elements of a tensor that has `whole`.
  StridedMap map(std::uint64_t whole) const {
    StridedMap result;
    result.offset = first;
    result.append(whole / step, step);
    result.append(length, 1);
    return result;
  }
};

// A product of two tensors, which is subtracted where it is negative.
struct Term {
  TensorId written = 0;
  std::array<TensorId, 2> factors{};
  bool negative = false;
};

// Two tensors, joined one after the other along an axis.
struct Parts {
  TensorId written = 0;
  std::array<TensorId, 2> tensors{};
  std::array<bool, 2> negative{};
  std::uint64_t run = 0;  // of neighbours of one of both
};

// A rotary op that is read instead of a tensor, or that the tensor shows.
struct FoundRotary {
  Origin origin;
  ModelType type;
  Inner inner;
};

class RotaryReader {
 public:
  explicit RotaryReader(ModelGraph& graph) : graph_(graph) {}

  bool find_sum(TensorId last);
  bool find_pairs(TensorId last);
  bool find_part(TensorId last);
  bool find_narrow(TensorId last);

 private:
  const Shape& shape(TensorId tensor) const { return graph_.type(tensor).shape(); }
  std::uint64_t elements(TensorId tensor) const { return count_of(shape(tensor)); }

  // The tensor itself, and what it shows, below one view after the other. A cast to a wider float
  // shows the numbers that it was made of, too: each half may be cast on its own.
  std::vector<Shown> below(TensorId tensor) const {
    std::vector<Shown> result = {{tensor, StridedMap::of(elements(tensor))}};
    while (result.size() < kMostViews) {
      const Shown& last = result.back();
      if (const auto next = graph_.shown(last.tensor)) {
        const auto map = joined(last.map, next->map);
        if (!map) break;
        result.push_back({next->tensor, *map});
      } else if (const TensorId narrowed = narrow(last.tensor); narrowed != last.tensor) {
        result.push_back({narrowed, last.map});
      } else {
        break;
      }
    }
    return result;
  }

  bool same(TensorId a, TensorId b) const {
    if (a == b) return true;
    return shape(a) == shape(b) && below(a).back() == below(b).back();
  }

  // Whether `part` shows the runs of x.
  bool shows(TensorId part, const Runs& runs, TensorId x) const {
    const StridedMap wanted = runs.map(elements(x));
    const std::vector<Shown> of_x = below(x);
    for (const Shown& each : below(part)) {
      const auto found = std::ranges::find(of_x, each.tensor, &Shown::tensor);
      if (found == of_x.end()) continue;
      const auto map = joined(wanted, found->map);
      if (map && *map == each.map) return true;
    }
    return false;
  }

  // What both parts are of, in this shape.
  std::optional<TensorId> whole_of(const std::array<TensorId, 2>& parts,
                                   const std::array<Runs, 2>& runs, const ModelType& type) {
    std::optional<TensorId> found;
    for (const Shown& each : below(parts[0])) {
      const TensorId x = each.tensor;
      if (elements(x) != count_of(type.shape()) || !is_float(graph_.type(x).dtype())) continue;
      if (!shows(parts[0], runs[0], x) || !shows(parts[1], runs[1], x)) continue;
      if (shape(x) == type.shape()) return x;
      if (!found) found = x;
    }
    return found ? in_shape(*found, type) : std::nullopt;
  }

  // What both parts are the neighbours of, all first ones before all second ones, as a view.
  std::optional<TensorId> apart(const std::array<TensorId, 2>& parts, const ModelType& type) {
    const auto whole = whole_of(parts, pairs(1), type);
    if (!whole) return std::nullopt;
    const auto half = static_cast<std::int64_t>(type.shape().back() / 2);
    const auto in_pairs = [&](std::int64_t outer, std::int64_t inner) {
      ModelType result = type;
      result.type.dtype = graph_.type(*whole).dtype();
      result.type.shape.back() = static_cast<std::uint64_t>(outer);
      result.type.shape.push_back(static_cast<std::uint64_t>(inner));
      result.extents.back() = outer;
      result.extents.emplace_back(inner);
      return result;
    };
    const auto rows = in_shape(*whole, in_pairs(half, 2));
    std::vector<std::int64_t> perm(type.shape().size() + 1);
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 2], perm.back());
    const auto turned =
        rows ? graph_.op("permute_view", {*rows}, {listed("perm", perm)}, in_pairs(2, half))
             : std::nullopt;
    return turned ? in_shape(*turned, type) : std::nullopt;
  }

  // The tensor in the shape of a type.
  std::optional<TensorId> in_shape(TensorId tensor, ModelType type) {
    if (shape(tensor) == type.shape()) return tensor;
    type.type.dtype = graph_.type(tensor).dtype();
    return graph_.op("reshape", {tensor}, {listed("shape", type.extents)}, type);
  }

  // What a tensor was before it was negated.
  TensorId positive(TensorId tensor, bool& negative) const {
    for (int i = 0; i < kMostViews; ++i) {
      auto origin = graph_.written_by(tensor, "neg");
      if (!origin) {
        origin = graph_.written_by(tensor, "mul");
        if (!origin || number_in(origin->inputs[1]) != -1.0) break;
      }
      const auto from = tensor_in(origin->inputs[0]);
      if (!from) break;
      tensor = *from;
      negative = !negative;
    }
    return tensor;
  }

  std::optional<Term> product(const Input& input, bool negative) const {
    const auto written = tensor_in(input);
    if (!written) return std::nullopt;
    Term term{.written = *written, .negative = negative};
    const auto product = graph_.written_by(positive(*written, term.negative), "mul");
    const auto a = product ? tensor_in(product->inputs[0]) : std::nullopt;
    const auto b = product ? tensor_in(product->inputs[1]) : std::nullopt;
    if (!a || !b) return std::nullopt;
    term.factors = {positive(*a, term.negative), positive(*b, term.negative)};
    return term;
  }

  // What was cast to a wider float: it has the same numbers.
  TensorId narrow(TensorId tensor) const {
    for (int i = 0; i < kMostViews; ++i) {
      const auto cast = graph_.written_by(tensor, "cast");
      const auto from = cast ? tensor_in(cast->inputs[0]) : std::nullopt;
      if (!from || !widens(graph_.type(*from).dtype(), graph_.type(tensor).dtype())) break;
      tensor = *from;
    }
    return tensor;
  }

  static bool widens(DType from, DType to) {
    return is_float(from) && is_float(to) && bytes_of(from, 8) < bytes_of(to, 8);
  }

  // The products that a tensor is the sum of.
  std::optional<std::array<Term, 2>> terms_of(TensorId sum) const {
    if (const auto both = graph_.written_by(sum, "addcmul")) {
      const auto a = product(both->inputs[0], false);
      const auto b = tensor_in(both->inputs[1]);
      const auto c = tensor_in(both->inputs[2]);
      if (!a || !b || !c || number_in(both->inputs[3]) != 1.0) return std::nullopt;
      Term term{.written = sum};
      term.factors = {positive(*b, term.negative), positive(*c, term.negative)};
      return std::array{*a, term};
    }
    auto origin = graph_.written_by(sum, "add");
    const bool subtracts = !origin;
    if (!origin) origin = graph_.written_by(sum, "sub");
    if (!origin) return std::nullopt;
    const auto a = product(origin->inputs[0], false);
    const auto b = a ? product(origin->inputs[1], subtracts) : std::nullopt;
    return b ? std::optional(std::array{*a, *b}) : std::nullopt;
  }

  TensorId below_reshapes(TensorId tensor) const {
    for (int i = 0; i < kMostViews; ++i) {
      const auto view = graph_.written_by(tensor, "reshape");
      if (!view) break;
      tensor = *tensor_in(view->inputs[0]);
    }
    return tensor;
  }

  std::optional<Parts> parts_of(TensorId tensor) const {
    const TensorId whole = below_reshapes(narrow(tensor));
    const auto origin = graph_.written_by(whole, "concat");
    if (!origin || origin->inputs.size() != 2) return std::nullopt;
    const auto* axes = list_in(*origin, "axes");
    const auto* written =
        axes == nullptr || axes->size() != 1 ? nullptr : std::get_if<std::int64_t>(axes->data());
    const auto axis = written == nullptr ? std::nullopt : axis_of(*written, shape(whole).size());
    const auto a = tensor_in(origin->inputs[0]);
    const auto b = tensor_in(origin->inputs[1]);
    if (!axis || !a || !b) return std::nullopt;
    Parts parts{.written = whole};
    parts.tensors = {positive(*a, parts.negative[0]), positive(*b, parts.negative[1])};
    const Shape& part = shape(*a);
    if (part != shape(*b)) return std::nullopt;
    parts.run = elements_between(part, *axis, part.size());
    return parts.run == 0 ? std::nullopt : std::optional(parts);
  }

  // The two ways in which a last axis of this length has pairs, as the runs of their first and of
  // their second elements.
  static std::array<Runs, 2> pairs(std::uint64_t run) {
    return {Runs{0, run, 2 * run}, Runs{run, run, 2 * run}};
  }

  std::optional<TensorId> table(TensorId angles, bool without_last) {
    ModelType type = graph_.type(angles);
    if (!without_last) return angles;
    if (type.shape().size() < 2 || type.shape().back() != 1) return std::nullopt;
    type.type.shape.pop_back();
    type.extents.pop_back();
    return in_shape(angles, type);
  }

  // Adds the op and what it is read instead of.
  bool found(TensorId last, std::vector<Input> inputs, std::vector<WrittenAttribute> attributes,
             const ModelType& type, Inner inner) {
    const auto rotated = graph_.op("rotary", std::move(inputs), std::move(attributes), type);
    const ModelType result = graph_.type(last);  // a copy: new ops move the graph's tensors
    const auto same = rotated ? in_shape(*rotated, result) : std::nullopt;
    if (same) graph_.instead(last, *same, std::move(inner));
    return same.has_value();
  }

  static std::vector<WrittenAttribute> way(bool interleaved) {
    if (!interleaved) return {};
    return {{.name = "interleaved", .value = true}};
  }

  bool find_pairs(TensorId last, const Parts& parts, bool interleaved);
  std::optional<FoundRotary> rotary_instead(TensorId tensor) const;

  ModelGraph& graph_;
};

// x cos + turned sin
bool RotaryReader::find_sum(TensorId last) {
  const auto terms = terms_of(last);
  const ModelType type = graph_.type(last);  // a copy: new ops move the graph's tensors
  if (!terms || type.shape().empty()) return false;
  const std::uint64_t length = type.shape().back();
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    const Term& turned = (*terms)[i];
    const Term& straight = (*terms)[1 - i];
    if (straight.negative) continue;
    for (const std::size_t j : {std::size_t{0}, std::size_t{1}}) {
      auto parts = parts_of(turned.factors[j]);
      if (!parts || shape(turned.factors[j]) != type.shape()) continue;
      // Parts that are stacked along a new axis have it before they are joined.
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
        parts->tensors[k] = positive(below_reshapes(parts->tensors[k]), parts->negative[k]);
      }
      const bool interleaved = parts->run == 1 && length != 2;
      if (!interleaved && 2 * parts->run != length) continue;
      // The second elements of pairs are negated, and come first.
      if (parts->negative[0] == turned.negative || parts->negative[1] != turned.negative) continue;
      const std::array<Runs, 2> runs = pairs(parts->run);
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
        const auto shows_pairs = [&](TensorId x) {
          return shows(parts->tensors[1], runs[0], x) && shows(parts->tensors[0], runs[1], x);
        };
        TensorId x = straight.factors[k];
        if (shape(x) != type.shape()) continue;
        if (!shows_pairs(x)) x = narrow(x);
        if (!shows_pairs(x)) continue;
        return found(last, {x, straight.factors[1 - k], turned.factors[1 - j]}, way(interleaved),
                     type, {straight.written, turned.written, parts->written});
      }
    }
  }
  return false;
}

// (a cos - b sin, b cos + a sin)
bool RotaryReader::find_pairs(TensorId last) {
  const auto parts = parts_of(last);
  if (!parts || parts->written != last || parts->negative[0] || parts->negative[1]) return false;
  return find_pairs(last, *parts, true) || find_pairs(last, *parts, false);
}

bool RotaryReader::find_pairs(TensorId last, const Parts& parts, bool interleaved) {
  ModelType type = graph_.type(last);  // of the rotary op
  const Shape joined_shape = type.shape();
  if (interleaved) {
    if (parts.run != 1 || joined_shape.size() < 2 || joined_shape.back() != 2) return false;
    type.type.shape.pop_back();
    type.extents.pop_back();
    type.type.shape.back() *= 2;
    type.extents.back() = static_cast<std::int64_t>(type.type.shape.back());
  }
  if (type.shape().empty() || (!interleaved && 2 * parts.run != type.shape().back())) return false;
  std::array<TensorId, 2> sums = parts.tensors;
  if (interleaved) sums = {below_reshapes(sums[0]), below_reshapes(sums[1])};
  Shape half = type.shape();
  half.back() /= 2;
  Shape with_last = half;
  with_last.push_back(1);
  const bool without_last = interleaved && shape(sums[0]) == with_last;
  if (shape(sums[0]) != shape(sums[1]) || (!without_last && shape(sums[0]) != half)) return false;
  const auto a = terms_of(sums[0]);
  const auto b = a ? terms_of(sums[1]) : std::nullopt;
  if (!b || (*a)[0].negative == (*a)[1].negative || (*b)[0].negative || (*b)[1].negative) {
    return false;
  }
  const Term& plus = (*a)[0].negative ? (*a)[1] : (*a)[0];
  const Term& minus = (*a)[0].negative ? (*a)[0] : (*a)[1];
  const auto is_product = [&](const Term& term, TensorId x, TensorId y) {
    const auto& [f, g] = term.factors;
    return (same(f, x) && same(g, y)) || (same(f, y) && same(g, x));
  };
  // Which factors are of x, and which are angles.
  for (int way_of = 0; way_of < 4; ++way_of) {
    const auto i = static_cast<std::size_t>(way_of % 2);
    const auto j = static_cast<std::size_t>(way_of / 2);
    const std::array<TensorId, 2> x = {plus.factors[i], minus.factors[j]};
    const TensorId cosine = plus.factors[1 - i];
    const TensorId sine = minus.factors[1 - j];
    const bool crossed = (is_product((*b)[0], x[1], cosine) && is_product((*b)[1], x[0], sine)) ||
                         (is_product((*b)[1], x[1], cosine) && is_product((*b)[0], x[0], sine));
    if (!crossed || shape(x[0]) != shape(sums[0]) || shape(x[1]) != shape(sums[0])) continue;
    const std::array<TensorId, 2> narrowed = {narrow(x[0]), narrow(x[1])};
    auto whole = whole_of(x, pairs(parts.run), type);
    if (!whole) whole = whole_of(narrowed, pairs(parts.run), type);
    if (!whole && !interleaved) whole = apart(x, type);
    if (!whole && !interleaved) whole = apart(narrowed, type);
    const auto cosines = whole ? table(cosine, without_last) : std::nullopt;
    const auto sines = cosines ? table(sine, without_last) : std::nullopt;
    if (!sines) continue;
    if (found(last, {*whole, *cosines, *sines}, way(interleaved), type,
              {sums[0], sums[1], plus.written, minus.written, (*b)[0].written, (*b)[1].written})) {
      return true;
    }
  }
  return false;
}

std::optional<FoundRotary> RotaryReader::rotary_instead(TensorId tensor) const {
  for (int i = 0; i < kMostViews; ++i) {
    FoundRotary result;
    TensorId same = tensor;
    if (const ModelGraph::Alternative* instead = graph_.alternative(tensor)) {
      same = instead->same;
      result.inner = instead->inner;
    }
    same = below_reshapes(same);
    if (auto origin = graph_.written_by(same, "rotary")) {
      result.origin = std::move(*origin);
      result.type = graph_.type(same);
      result.inner.push_back(same);
      return result;
    }
    const auto view = graph_.written_by(tensor, "reshape");
    if (!view) return std::nullopt;
    tensor = *tensor_in(view->inputs[0]);
  }
  return std::nullopt;
}

// The first elements of the last axis are turned, the others stay.
bool RotaryReader::find_part(TensorId last) {
  const auto origin = graph_.written_by(last, "concat");
  const ModelType type = graph_.type(last);  // a copy: new ops move the graph's tensors
  if (!origin || origin->inputs.size() != 2 || type.shape().empty()) return false;
  const auto turned = tensor_in(origin->inputs[0]);
  const auto rest = tensor_in(origin->inputs[1]);
  if (!turned || !rest || shape(*turned).size() != type.shape().size()) return false;
  const std::uint64_t length = type.shape().back();
  const std::uint64_t rotated = shape(*turned).back();
  if (rotated == 0 || rotated >= length) return false;
  if (elements(*turned) / rotated != elements(last) / length) return false;
  auto part = rotary_instead(*turned);
  if (!part || part->type.shape() != shape(*turned) || part->type.dtype() != type.dtype()) {
    return false;
  }
  for (const WrittenAttribute& attribute : part->origin.attributes) {
    if (attribute.name == "rotated") return false;
  }
  const std::array<TensorId, 2> parts = {*tensor_in(part->origin.inputs[0]), *rest};
  const auto whole =
      whole_of(parts, {Runs{0, rotated, length}, Runs{rotated, length - rotated, length}}, type);
  if (!whole) return false;
  part->origin.inputs[0] = *whole;
  part->origin.attributes.push_back(
      {.name = "rotated", .value = static_cast<std::int64_t>(rotated)});
  return found(last, part->origin.inputs, part->origin.attributes, type, part->inner);
}

bool RotaryReader::find_narrow(TensorId last) {
  auto wide = rotary_instead(*tensor_in(graph_.written_by(last, "cast")->inputs[0]));
  const DType dtype = graph_.type(last).dtype();
  if (!wide || !is_float(dtype)) return false;
  std::optional<TensorId> x = tensor_in(wide->origin.inputs[0]);
  if (graph_.type(*x).dtype() != dtype) {
    const auto widened = graph_.written_by(below_reshapes(*x), "cast");
    x = widened ? tensor_in(widened->inputs[0]) : std::nullopt;
    if (!x || graph_.type(*x).dtype() != dtype) return false;
    x = in_shape(*x, wide->type);
  }
  if (!x) return false;
  wide->origin.inputs[0] = *x;
  wide->type.type.dtype = dtype;
  return found(last, wide->origin.inputs, wide->origin.attributes, wide->type, wide->inner);
}

}  // namespace

void find_written_rotary(ModelGraph& graph, TensorId last) {
  RotaryReader reader(graph);
  if (!graph.written_by(last, "concat")) {
    reader.find_sum(last);
  } else if (!reader.find_pairs(last)) {
    reader.find_part(last);
  }
}

void find_narrow_rotary(ModelGraph& graph, TensorId last) { RotaryReader(graph).find_narrow(last); }

}  // namespace fusecalc
