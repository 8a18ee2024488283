#include <algorithm>
#include <utility>

#include "input/affine.hpp"
#include "input/model_shapes.hpp"
#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;
using Input = ModelGraph::Input;
using Origin = ModelGraph::Origin;
using Attributes = std::vector<WrittenAttribute>;

// The other input of a sum or a product of a number; nothing if neither is one.
std::optional<std::pair<TensorId, double>> with_number(const Origin& origin) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto tensor = tensor_in(origin.inputs[i]);
    const auto number = number_in(origin.inputs[1 - i]);
    if (tensor && number) return std::pair(*tensor, *number);
  }
  return std::nullopt;
}

// Follows x / sqrt(mean(x^2) + eps) from its end, and notes what it passes.
class NormReader {
 public:
  explicit NormReader(ModelGraph& graph) : graph_(graph) {}

  bool read(TensorId last) {
    const auto quotient = graph_.written_by(last, "div");
    if (quotient) {
      const auto x = tensor_in(quotient->inputs[0]);
      const auto deviation = tensor_in(quotient->inputs[1]);
      if (!x || !deviation || !is_root(*deviation)) return false;
      return found(*x, last) || found_weighted(*x, last);
    }
    const auto product = graph_.written_by(last, "mul");
    if (!product) return false;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto x = tensor_in(product->inputs[i]);
      const auto inverse = tensor_in(product->inputs[1 - i]);
      inner_.clear();
      variance_of_.reset();
      if (x && inverse && is_inverse_root(*inverse) && found(*x, last)) return true;
    }
    return false;
  }

  // x s + (bias - mean(x) s) with s = weight / sqrt(variance + eps), as TensorFlow writes it.
  bool read_folded(TensorId last) {
    const auto sum = by(last, "add");
    if (!sum) return false;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto scaled = tensor_in(sum->inputs[i]);
      const auto moved = tensor_in(sum->inputs[1 - i]);
      const auto difference = scaled && moved ? by(*moved, "sub") : std::nullopt;
      const auto mean = difference ? tensor_in(difference->inputs[1]) : std::nullopt;
      if (!mean) continue;
      inner_ = {*scaled, *moved, *mean};
      bias_ = tensor_in(difference->inputs[0]);
      if (bias_ && has_folded(*scaled, *mean)) return true;
    }
    return false;
  }

  std::string_view row() const { return row_; }
  TensorId x() const { return x_; }
  std::optional<TensorId> weight() const { return weight_; }  // of before the end
  std::optional<TensorId> bias() const { return bias_; }      // of what was folded
  const std::vector<TensorId>& inner() const { return inner_; }
  Attributes attributes() const {
    return {listed("axes", axes_), {.name = "eps", .value = epsilon_}};
  }

 private:
  std::optional<Origin> by(TensorId tensor, std::string_view row) const {
    return graph_.written_by(tensor, row);
  }

  // Whether these are x s and mean(x) s.
  bool has_folded(TensorId scaled, TensorId scaled_mean) {
    const auto product = by(scaled, "mul");
    const auto other = product ? by(scaled_mean, "mul") : std::nullopt;
    if (!other) return false;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto x = tensor_in(product->inputs[i]);
      const auto scale = tensor_in(product->inputs[1 - i]);
      if (!x || !scale) continue;
      const bool first = other->inputs[0] == Input(*scale);
      const auto mean = tensor_in(other->inputs[first ? 1 : 0]);
      const bool same = first || other->inputs[1] == Input(*scale);
      if (same && mean && is_scale(*scale) && is_mean_of(*x, *mean)) return true;
    }
    return false;
  }

  bool is_scale(TensorId scale) {
    const auto product = by(scale, "mul");
    if (!product) return false;
    const std::vector<TensorId> inner = inner_;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto inverse = tensor_in(product->inputs[i]);
      weight_ = tensor_in(product->inputs[1 - i]);
      inner_ = inner;
      inner_.push_back(scale);
      if (inverse && weight_ && is_inverse_root(*inverse) && !variance_of_) return true;
    }
    return false;
  }

  // Of the rows whose difference from it was squared.
  bool is_mean_of(TensorId x, TensorId mean) {
    const auto difference = by(squared_, "sub");
    if (!difference || difference->inputs != std::vector<Input>{x, mean}) return false;
    row_ = "layer_norm";
    return is_centred(squared_);
  }

  bool is_inverse_root(TensorId tensor) {
    inner_.push_back(tensor);
    if (const auto root = by(tensor, "rsqrt")) return is_sum(*tensor_in(root->inputs[0]));
    if (const auto inverse = by(tensor, "reciprocal")) {
      return is_root(*tensor_in(inverse->inputs[0]));
    }
    if (const auto inverse = by(tensor, "div")) {
      const auto root = tensor_in(inverse->inputs[1]);
      return root && number_in(inverse->inputs[0]) == 1.0 && is_root(*root);
    }
    const auto power = by(tensor, "pow");
    const auto sum = power ? tensor_in(power->inputs[0]) : std::nullopt;
    return sum && number_in(power->inputs[1]) == -0.5 && is_sum(*sum);
  }

  bool is_root(TensorId tensor) {
    inner_.push_back(tensor);
    if (const auto root = by(tensor, "sqrt")) return is_sum(*tensor_in(root->inputs[0]));
    const auto power = by(tensor, "pow");
    const auto sum = power ? tensor_in(power->inputs[0]) : std::nullopt;
    return sum && number_in(power->inputs[1]) == 0.5 && is_sum(*sum);
  }

  // mean(x^2) + eps, or the variance of x + eps.
  bool is_sum(TensorId tensor) {
    inner_.push_back(tensor);
    const auto sum = by(tensor, "add");
    const auto parts = sum ? with_number(*sum) : std::nullopt;
    if (!parts || !(parts->second > 0)) return false;
    epsilon_ = parts->second;
    inner_.push_back(parts->first);
    if (const auto variance = by(parts->first, "var")) return is_variance(*variance);
    const auto mean = by(parts->first, "mean");
    const auto squares = mean ? tensor_in(mean->inputs[0]) : std::nullopt;
    if (!squares || !last_axes_of(*mean, *squares)) return false;
    inner_.push_back(*squares);
    const auto squared = square_of(*squares);
    if (squared) squared_ = *squared;
    return squared.has_value();
  }

  // Of the squares divided by their number.
  bool is_variance(const Origin& variance) {
    variance_of_ = tensor_in(variance.inputs[0]);
    return number_of(variance, "correction", 0) == 0 && variance_of_ &&
           last_axes_of(variance, *variance_of_);
  }

  std::optional<TensorId> square_of(TensorId tensor) const {
    if (const auto square = by(tensor, "square")) return tensor_in(square->inputs[0]);
    const auto power = by(tensor, "pow");
    if (power)
      return number_in(power->inputs[1]) == 2.0 ? tensor_in(power->inputs[0]) : std::nullopt;
    const auto product = by(tensor, "mul");
    const bool same = product && product->inputs[0] == product->inputs[1];
    return same ? tensor_in(product->inputs[0]) : std::nullopt;
  }

  // Means of rows that lie along the last axes, which stay as axes of one element.
  bool last_axes_of(const Origin& mean, TensorId of) {
    const auto* axes = list_in(mean, "axes");
    const std::size_t rank = graph_.type(of).shape().size();
    if (axes == nullptr || axes->empty() || axes->size() > rank || !is_set(mean, "keepdim")) {
      return false;
    }
    axes_.clear();
    for (std::size_t i = rank - axes->size(); i < rank; ++i) {
      axes_.push_back(static_cast<std::int64_t>(i));
    }
    return std::ranges::all_of(*axes, [&](const WrittenDim& written) {
      const auto* number = std::get_if<std::int64_t>(&written);
      const auto axis = number != nullptr ? axis_of(*number, rank) : std::nullopt;
      return axis && *axis >= rank - axes->size();
    });
  }

  // What is written twice, as programs do, is the same.
  bool is_same(TensorId a, TensorId b) const {
    if (a == b) return true;
    const auto first = by(a, "sub");
    const auto second = by(b, "sub");
    return first && second && first->inputs == second->inputs;
  }

  // `x` is what was squared, or what that was cast of; and it was from - mean(from).
  bool found(TensorId x, TensorId last) {
    x_ = x;
    if (!is_float(graph_.type(x).dtype())) return false;
    if (graph_.type(x).shape() != graph_.type(last).shape()) return false;
    if (!variance_of_ && !is_same(x, squared_)) {
      const auto cast = by(squared_, "cast");
      if (!cast || tensor_in(cast->inputs[0]) != x) return false;
    }
    if (!is_centred(x)) return !variance_of_;
    row_ = "layer_norm";
    return true;
  }

  bool found_weighted(TensorId numerator, TensorId last) {
    const auto product = by(numerator, "mul");
    if (!product) return false;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const auto x = tensor_in(product->inputs[i]);
      weight_ = tensor_in(product->inputs[1 - i]);
      if (!x || !weight_ || !found(*x, last)) continue;
      inner_.push_back(numerator);
      return true;
    }
    return false;
  }

  bool is_centred(TensorId x) {
    const auto difference = by(x, "sub");
    const auto from = difference ? tensor_in(difference->inputs[0]) : std::nullopt;
    const auto mean = difference ? tensor_in(difference->inputs[1]) : std::nullopt;
    const auto centre = mean ? by(*mean, "mean") : std::nullopt;
    if (!centre || !from || tensor_in(centre->inputs[0]) != from) return false;
    if (variance_of_ && variance_of_ != from) return false;
    const std::vector<std::int64_t> axes = axes_;
    const bool same = last_axes_of(*centre, *from) && axes_ == axes;
    axes_ = axes;
    if (!same) return false;
    x_ = *from;
    inner_.insert(inner_.end(), {*mean, x});
    if (!variance_of_) inner_.push_back(squared_);
    return true;
  }

  ModelGraph& graph_;
  TensorId x_ = 0;
  TensorId squared_ = 0;
  std::optional<TensorId> variance_of_{};
  std::optional<TensorId> weight_{};
  std::optional<TensorId> bias_{};
  std::string_view row_ = "rms_norm";
  std::vector<std::int64_t> axes_;
  double epsilon_ = 0;
  std::vector<TensorId> inner_;
};

void take_norm(ModelGraph& graph, TensorId last, const FoundPattern& norm) {
  const ModelType type = graph.type(last);  // a copy: new ops move the graph's tensors
  const auto same = graph.op(norm.row, norm.origin.inputs, norm.origin.attributes, type);
  if (same) graph.instead(last, *same, norm.inner);
}

// A weight or a bias in the shape of the normalised axes; null where its shape is another.
std::optional<TensorId> parameter_of(ModelGraph& graph, const FoundPattern& norm, TensorId tensor) {
  const Shape& shape = graph.type(*tensor_in(norm.origin.inputs[0])).shape();
  const auto axes = static_cast<std::ptrdiff_t>(list_in(norm.origin, "axes")->size());
  const Shape rows(shape.end() - axes, shape.end());
  ModelType type = graph.type(tensor);
  if (type.shape() == rows) return tensor;
  while (type.shape().size() > rows.size() && type.shape().front() == 1) {
    type.type.shape.erase(type.type.shape.begin());
    type.extents.erase(type.extents.begin());
  }
  if (type.shape() != rows) return std::nullopt;
  return graph.op("reshape", {tensor}, {listed("shape", type.extents)}, type);
}

bool is_norm(const FoundPattern& pattern) {
  return pattern.row == "rms_norm" || pattern.row == "layer_norm";
}

// A norm times its weight, or plus its bias.
bool extend_norm(ModelGraph& graph, TensorId last) {
  const bool weighs = graph.written_by(last, "mul").has_value();
  const auto origin = graph.written_by(last, weighs ? "mul" : "add");
  if (!origin) return false;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto before = tensor_in(origin->inputs[i]);
    const auto parameter = tensor_in(origin->inputs[1 - i]);
    auto norm = before && parameter ? pattern_instead(graph, *before) : std::nullopt;
    if (!norm || !is_norm(*norm)) continue;
    if (norm->origin.inputs.size() != (weighs ? 1 : 2)) continue;
    if (!weighs && norm->row != "layer_norm") continue;
    // A result in wider floats than the norm's was rounded before the product.
    if (graph.type(last).dtype() != graph.type(*before).dtype()) continue;
    const auto shown = parameter_of(graph, *norm, *parameter);
    if (!shown) continue;
    norm->origin.inputs.emplace_back(*shown);
    take_norm(graph, last, *norm);
    return true;
  }
  return false;
}

}  // namespace

void find_written_norm(ModelGraph& graph, TensorId last) {
  if (extend_norm(graph, last)) return;
  NormReader reader(graph);
  if (!reader.read(last) && !reader.read_folded(last)) return;
  FoundPattern norm{reader.row(), {{reader.x()}, reader.attributes()}, reader.inner()};
  for (const std::optional<TensorId> parameter : {reader.weight(), reader.bias()}) {
    if (!parameter) continue;
    const auto shown = parameter_of(graph, norm, *parameter);
    if (!shown) return;
    norm.origin.inputs.emplace_back(*shown);
  }
  take_norm(graph, last, norm);
}

}  // namespace fusecalc
