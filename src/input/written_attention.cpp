#include "input/written_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "input/model_shapes.hpp"
#include "input/written_heads.hpp"
#include "input/written_mask.hpp"
#include "input/written_pattern.hpp"
#include "input/written_sink.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Input = ModelGraph::Input;
using Origin = ModelGraph::Origin;

// The most ops that a pattern is followed through, in all.
constexpr int kMostSteps = 200;

// Shapes of matrices, whatever the axes before them.
bool same_matrices(const Shape& a, const Shape& b) {
  return a.size() >= 2 && b.size() >= 2 && a.back() == b.back() &&
         a[a.size() - 2] == b[b.size() - 2];
}

class Pattern {
 public:
  explicit Pattern(ModelGraph& graph) : graph_(graph) {}

  // The op's result, or nothing if `weighted` is not that of an attention.
  std::optional<TensorId> attention(TensorId weighted) {
    const auto second = graph_.written_by(weighted, "matmul");
    if (!second || !find_weights(*second)) return std::nullopt;
    shape_ = graph_.type(softmax_).shape();
    const auto softmax = graph_.written_by(softmax_, "softmax");
    if (shape_.size() < 3) return std::nullopt;
    TensorId scores = *tensor_in(softmax->inputs[0]);
    if (drops_last_) {
      const auto found = scores_beside_sink(graph_, scores);
      if (!found) return std::nullopt;
      scores = found->scores;
      sink_ = found->sink;
      --shape_.back();
    }
    if (!follow(scores)) return std::nullopt;
    const double scale = scale_;
    ModelType type = graph_.type(weighted);  // a copy: new ops move the graph's tensors
    if (flipped_) type = flipped(type);
    for (const bool narrow : {true, false}) {
      scale_ = scale;
      narrow_ = narrow;
      const auto result = of_operands(*second, type);
      if (result) return flipped_ ? transposed_copy(*result) : result;
    }
    return std::nullopt;
  }

  TensorId softmax() const { return softmax_; }

 private:
  // The softmax in weights @ v, or in v^T @ weights^T, which is transposed.
  bool find_weights(const Origin& second) {
    const auto first = tensor_in(second.inputs[0]);
    if (first && !is_set(second, "transpose_a") && find_softmax(*first)) return true;
    flipped_ = true;
    drops_last_ = false;
    bool swapped = !is_set(second, "transpose_b");
    std::optional<TensorId> weights = tensor_in(second.inputs[1]);
    if (weights && swapped) weights = swapped_before(*weights, swapped);
    return weights && !swapped && find_softmax(*weights) && !drops_last_;
  }

  // Of the matrices transposed.
  static ModelType flipped(ModelType type) {
    std::iter_swap(type.type.shape.end() - 2, type.type.shape.end() - 1);
    std::iter_swap(type.extents.end() - 2, type.extents.end() - 1);
    return type;
  }

  std::optional<TensorId> transposed_copy(TensorId tensor) {
    const ModelType type = flipped(graph_.type(tensor));
    std::vector<std::int64_t> perm(type.shape().size());
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 2], perm.back());
    return graph_.op("transpose", {tensor}, {listed("perm", perm)}, type);
  }

  // With q, k and v as they were before they were cast, or, if those have several types, after it.
  std::optional<TensorId> of_operands(const Origin& second, const ModelType& type) {
    const auto first = graph_.written_by(scores_, "matmul");
    auto q = operand(*tensor_in(first->inputs[0]), is_set(*first, "transpose_a"), true);
    const auto k = operand(*tensor_in(first->inputs[1]), !is_set(*first, "transpose_b"), true);
    const auto v =
        flipped_ ? operand(*tensor_in(second.inputs[0]), !is_set(second, "transpose_a"), false)
                 : operand(*tensor_in(second.inputs[1]), is_set(second, "transpose_b"), false);
    if (q) q = multiplied(*q);
    if (!q || !k || !v) return std::nullopt;
    const DType dtype = graph_.type(*q).dtype();
    const bool same = graph_.type(*k).dtype() == dtype && graph_.type(*v).dtype() == dtype;
    return same ? written(*q, *k, *v, type) : std::nullopt;
  }

  std::optional<Origin> by(TensorId tensor, std::string_view row) const {
    return graph_.written_by(tensor, row);
  }

  // What a copy or a cast was made of, or a view that keeps the matrices.
  std::optional<TensorId> equal_before(TensorId tensor) const {
    for (const std::string_view row : {"cast", "copy", "reshape"}) {
      const auto origin = by(tensor, row);
      if (!origin) continue;
      const auto from = tensor_in(origin->inputs[0]);
      if (!from || !is_float(graph_.type(*from).dtype())) return std::nullopt;
      const bool same = same_matrices(graph_.type(*from).shape(), graph_.type(tensor).shape());
      return same ? from : std::nullopt;
    }
    return std::nullopt;
  }

  // Which rows have a key at all: not any of (not (scores = -inf)).
  bool tells_empty_rows(TensorId condition, TensorId scores) const {
    const auto none = by(condition, "logical_not");
    if (!none) return false;
    auto any = by(*tensor_in(none->inputs[0]), "any");
    if (!any) any = by(*tensor_in(none->inputs[0]), "custom");
    const auto some = any && any->inputs.size() == 1 ? by(*tensor_in(any->inputs[0]), "logical_not")
                                                     : std::nullopt;
    const auto blocked = some ? by(*tensor_in(some->inputs[0]), "eq") : std::nullopt;
    return blocked && tensor_in(blocked->inputs[0]) == scores &&
           number_in(blocked->inputs[1]).value_or(0) < kMaskedScore;
  }

  // Whether a condition is that of scores which do not count: their weights are 0 already, but in
  // rows without any that count.
  bool hides(TensorId condition, TensorId scores) const {
    const auto masked = by(scores, "where");
    const auto mask = masked ? tensor_in(masked->inputs[0]) : std::nullopt;
    if (!mask || number_in(masked->inputs[1]).value_or(0) >= kMaskedScore) return false;
    const auto a = by(*mask, "reshape");
    const auto b = by(condition, "reshape");
    return *mask == condition || (a && b && a->inputs == b->inputs &&
                                  graph_.type(*mask).shape() == graph_.type(condition).shape());
  }

  bool find_softmax(TensorId weights) {
    for (; steps_ < kMostSteps; ++steps_) {
      if (const auto softmax = by(weights, "softmax")) {
        const auto* axes = list_in(*softmax, "axes");
        const std::size_t rank = graph_.type(weights).shape().size();
        softmax_ = weights;
        if (axes == nullptr || axes->size() != 1) return axes == nullptr;
        const auto* axis = std::get_if<std::int64_t>(axes->data());
        return axis != nullptr && axis_of(*axis, rank) == rank - 1;
      }
      const auto safe = by(weights, "where");
      auto before = safe ? tensor_in(safe->inputs[2]) : equal_before(weights);
      if (!before && !drops_last_) {
        before = before_last_column(graph_, weights);
        drops_last_ = before.has_value();
      }
      if (!before) return false;
      if (safe) {
        const auto softmax = by(*before, "softmax");
        const auto condition = tensor_in(safe->inputs[0]);
        const bool zeros = number_in(safe->inputs[1]) == 0.0;
        if (!softmax || !condition || !zeros) return false;
        const TensorId scores = *tensor_in(softmax->inputs[0]);
        const auto undefined = by(*condition, "isnan");
        const bool empty = (undefined && tensor_in(undefined->inputs[0]) == before) ||
                           tells_empty_rows(*condition, scores);
        if (!empty && !hides(*condition, scores)) return false;
      }
      weights = *before;
    }
    return false;
  }

  // Follows scores back to their product.
  bool follow(TensorId scores) {
    if (++steps_ > kMostSteps) return false;
    if (by(scores, "matmul")) {
      scores_ = scores;
      return true;
    }
    if (const auto before = equal_before(scores)) return follow(*before);
    if (const auto factor = by(scores, "mul")) return follow_factor(*factor, false);
    if (const auto factor = by(scores, "div")) return follow_factor(*factor, true);
    if (const auto sum = by(scores, "add")) return follow_sum(*sum, scores);
    if (const auto choice = by(scores, "where")) return follow_choice(*choice, scores);
    return false;
  }

  bool follow_factor(const Origin& factor, bool divides) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto from = tensor_in(factor.inputs[i]);
      const auto number = number_in(factor.inputs[1 - i]);
      if (from && !number && !divides &&
          follow_row_factor(*tensor_in(factor.inputs[1 - i]), *from)) {
        return true;
      }
      if (!from || !number || (divides && i == 1) || *number == 0) continue;
      scale_ *= divides ? 1 / *number : *number;
      return follow(*from);
    }
    return false;
  }

  // A factor of whole rows of scores, as a temperature of each head: one of the queries.
  bool follow_row_factor(TensorId factor, TensorId before) {
    const ModelType& type = graph_.type(factor);
    const Shape& scores = graph_.type(before).shape();
    const bool of_rows = type.shape().empty() || type.shape().back() == 1;
    // What is multiplied here and was masked before would be masked with other numbers.
    if (!of_rows || row_factor_ || !is_float(type.dtype()) || scores.empty()) return false;
    if (!by(before, "matmul")) return false;
    row_factor_ = {factor, scores};
    return follow(before);
  }

  std::optional<TensorId> multiplied(TensorId queries) {
    if (!row_factor_) return queries;
    const auto factor = with_split_axes(graph_, row_factor_->first, row_factor_->second, shape_);
    if (!factor) return std::nullopt;
    const ModelType type = graph_.type(queries);  // a copy: new ops move the graph's tensors
    return graph_.op("mul", {queries, *factor}, {}, type);
  }

  // What is scaled after a mask was added to it is the sum of both, scaled.
  bool follow_masked(TensorId scores, TensorId before, ScoreMask mask) {
    const Shape& masked = graph_.type(scores).shape();
    if (scale_ <= 0) return false;
    const Shape shape = shape_;
    if (splits(masked, shape_)) {
      shape_ = masked;
    } else if (!splits(shape_, masked)) {
      return false;
    }
    const std::size_t masks = masks_.size();
    const double scale = scale_;
    mask.factor = scale_;
    mask.scores = masked;
    masks_.push_back(std::move(mask));
    if (follow(before)) return true;
    masks_.resize(masks);
    scale_ = scale;
    shape_ = shape;
    return false;
  }

  bool follow_sum(const Origin& sum, TensorId scores) {
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto before = tensor_in(sum.inputs[i]);
      if (!before) continue;
      const auto mask = tensor_in(sum.inputs[1 - i]);
      // A number that is added to all scores of a row changes no weight.
      if (!mask) return follow(*before);
      if (follow_masked(scores, *before, mask_of(graph_, *mask))) return true;
    }
    return false;
  }

  bool follow_choice(const Origin& choice, TensorId scores) {
    const auto condition = tensor_in(choice.inputs[0]);
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      const auto before = tensor_in(choice.inputs[i]);
      const auto blocked = number_in(choice.inputs[3 - i]);
      if (!condition || !before || blocked.value_or(0) >= kMaskedScore) continue;
      return follow_masked(
          scores, *before,
          {.tensor = *condition, .condition = true, .blocks = i == 2, .blocked = *blocked});
    }
    return false;
  }

  // Matrices with the axes of the scores before them; `swapped` is whether they are transposed.
  // Numbers that `scaled` factors are multiplied by become part of the scale.
  std::optional<TensorId> operand(TensorId tensor, bool swapped, bool scaled) {
    tensor = source_of(tensor, swapped, scaled);
    const std::optional<TensorId> aligned = with_axes(tensor);
    if (!aligned) return std::nullopt;
    const auto rows = swapped ? transposed(*aligned) : aligned;
    if (!rows) return std::nullopt;
    const TensorId single = unrepeated(graph_, *rows, shape_[shape_.size() - 3]);
    if (single == *rows) return rows;
    swapped = false;
    const TensorId source = source_of(single, swapped, scaled);
    return swapped ? transposed(source) : source;
  }

  TensorId source_of(TensorId tensor, bool& swapped, bool scaled) {
    for (; steps_ < kMostSteps; ++steps_) {
      std::optional<TensorId> before = equal_before(tensor);
      const bool other = before && (graph_.type(*before).shape().size() != shape_.size() ||
                                    (!narrow_ && by(tensor, "cast")));
      if (other) before.reset();
      if (!before) before = swapped_before(tensor, swapped);
      if (!before && scaled) before = factor_before(tensor);
      if (!before) break;
      tensor = *before;
    }
    return tensor;
  }

  std::optional<TensorId> swapped_before(TensorId tensor, bool& swapped) const {
    const auto view = by(tensor, "permute_view");
    const auto* perm = view ? list_in(*view, "perm") : nullptr;
    if (perm == nullptr || perm->size() < 2) return std::nullopt;
    for (std::size_t i = 0; i < perm->size(); ++i) {
      const std::size_t axis = i + 2 < perm->size() ? i : 2 * perm->size() - 3 - i;
      const auto* from = std::get_if<std::int64_t>(&(*perm)[i]);
      if (from == nullptr || *from != static_cast<std::int64_t>(axis)) return std::nullopt;
    }
    swapped = !swapped;
    return tensor_in(view->inputs[0]);
  }

  std::optional<TensorId> factor_before(TensorId tensor) {
    const auto product = by(tensor, "mul");
    const auto quotient = product ? std::nullopt : by(tensor, "div");
    if (!product && !quotient) return std::nullopt;
    const Origin& origin = product ? *product : *quotient;
    const auto from = tensor_in(origin.inputs[0]);
    const auto number = number_in(origin.inputs[1]);
    if (!from || !number || *number == 0) return std::nullopt;
    scale_ *= product ? *number : 1 / *number;
    return from;
  }

  std::optional<TensorId> with_axes(TensorId tensor) {
    const ModelType& from = graph_.type(tensor);
    const std::size_t rank = from.shape().size();
    if (rank < 2) return std::nullopt;
    Shape shape(shape_.begin(), shape_.end() - 2);
    shape.insert(shape.end(), from.shape().end() - 2, from.shape().end());
    if (shape == from.shape()) return tensor;
    ModelType type = model_type(std::move(shape), from.dtype());
    if (const auto view = by(tensor, "reshape")) tensor = *tensor_in(view->inputs[0]);
    const WrittenAttribute target = listed("shape", type.extents);
    return graph_.op("reshape", {tensor}, {target}, type);
  }

  std::optional<TensorId> transposed(TensorId tensor) {
    std::vector<std::int64_t> perm(shape_.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[perm.size() - 2], perm.back());
    ModelType type = graph_.type(tensor);
    std::iter_swap(type.type.shape.end() - 2, type.type.shape.end() - 1);
    std::iter_swap(type.extents.end() - 2, type.extents.end() - 1);
    if (const auto view = by(tensor, "permute_view")) {
      const auto* inner = list_in(*view, "perm");
      for (std::int64_t& axis : perm) {
        axis = std::get<std::int64_t>((*inner)[static_cast<std::size_t>(axis)]);
      }
      tensor = *tensor_in(view->inputs[0]);
    }
    return graph_.op("permute_view", {tensor}, {listed("perm", perm)}, type);
  }

  std::optional<TensorId> written(TensorId q, TensorId k, TensorId v, const ModelType& type) {
    const Shape queries = graph_.type(q).shape();
    std::vector<Input> inputs = {q, k, v};
    const auto masks = join_masks(graph_, masks_, shape_);
    if (!masks) return std::nullopt;
    if (masks->tensor) inputs.emplace_back(*masks->tensor);
    std::vector<WrittenAttribute> attributes;
    if (masks->causal) attributes = masks->causal->attributes();
    const double usual = 1 / std::sqrt(static_cast<double>(queries.back()));
    if (std::abs(scale_ / usual - 1) > 1e-3) {
      attributes.push_back({.name = "scale", .value = scale_});
    }
    Shape shape = queries;
    shape.back() = graph_.type(v).shape().back();
    const ModelType wide = model_type(std::move(shape), graph_.type(q).dtype());
    std::vector<ModelType> types = {wide};
    if (sink_) types.push_back(model_type({queries.begin(), queries.end() - 1}, DType::kF32));
    const auto made = graph_.op("attention", inputs, attributes, types);
    std::optional<TensorId> result = made ? std::optional(made->front()) : std::nullopt;
    if (made && sink_) result = less_sink(graph_, made->front(), (*made)[1], *sink_);
    if (result && wide.shape() != type.shape()) {
      ModelType merged = type;
      merged.type.dtype = wide.dtype();
      result = graph_.op("reshape", {*result}, {listed("shape", type.extents)}, merged);
    }
    if (!result || wide.dtype() == type.dtype()) return result;
    return graph_.op("cast", {*result},
                     {{.name = "to", .value = std::string(name_of(type.dtype()))}}, type);
  }

  ModelGraph& graph_;
  Shape shape_;
  TensorId softmax_ = 0;
  TensorId scores_ = 0;
  bool drops_last_ = false;         // the weights of each row less the last one, that of a sink
  std::optional<TensorId> sink_{};  // its scores
  double scale_ = 1;
  std::vector<ScoreMask> masks_;
  // What rows of scores are multiplied by, and the shape of these.
  std::optional<std::pair<TensorId, Shape>> row_factor_{};
  bool flipped_ = false;  // the product is v^T @ weights^T
  bool narrow_ = true;    // operands are read as they were before casts
  int steps_ = 0;
};

}  // namespace

void find_written_attention(ModelGraph& graph, TensorId weighted) {
  Pattern pattern(graph);
  const std::optional<TensorId> result = pattern.attention(weighted);
  if (result) graph.instead(weighted, *result, {pattern.softmax()});
}

}  // namespace fusecalc
