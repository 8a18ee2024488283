#include "input/einsum.hpp"

#include <algorithm>

#include "core/checked.hpp"
#include "input/model_shapes.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;

// A tensor whose axes have letters, and where its elements lie.
struct Lettered {
  TensorId tensor = 0;
  std::string letters;
  std::vector<std::int64_t> strides;
};

using Terms = std::vector<std::string>;

// No letter occurs twice.
bool are_letters(std::string letters) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!std::ranges::all_of(letters, is_letter)) return false;
  std::ranges::sort(letters);
  return std::ranges::adjacent_find(letters) == letters.end();
}

// Without an arrow, the result has the letters that occur once, in order, after those of "...".
std::string implied_result(const std::string& equation) {
  std::string result;
  for (char letter = 'A'; letter <= 'z'; ++letter) {
    if (std::ranges::count(equation, letter) == 1) result += letter;
  }
  return (equation.find('.') == std::string::npos ? "" : "...") + result;
}

// Letters of their own for the axes that "..." leaves out, the last ones of `more`.
bool name_rest(std::string& term, std::size_t rank, std::string_view more) {
  const std::size_t dots = term.find("...");
  if (dots == std::string::npos) return term.size() == rank && are_letters(term);
  const std::size_t named = term.size() - 3;
  if (rank < named || rank - named > more.size()) return false;
  term.replace(dots, 3, more.substr(more.size() - (rank - named)));
  return are_letters(term);
}

// The letters that a term names, without "...".
std::size_t named_in(std::string_view term) {
  return term.size() - (term.find("...") == std::string_view::npos ? 0 : 3);
}

// The letters of each operand and, last, of the result; nothing where they do not fit.
std::optional<Terms> terms_of(std::string equation, const std::vector<std::size_t>& ranks) {
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  std::string result =
      arrow == std::string::npos ? implied_result(equation) : equation.substr(arrow + 2);
  const std::string operands = equation.substr(0, arrow);
  std::string unused;
  for (char letter = 'z'; letter >= 'A'; --letter) {
    const bool is_letter = letter >= 'a' || letter <= 'Z';
    if (is_letter && equation.find(letter) == std::string::npos) unused += letter;
  }
  Terms terms;
  std::size_t most_left_out = 0;
  for (std::size_t from = 0; from <= operands.size();) {
    const std::size_t to = std::min(operands.find(',', from), operands.size());
    const std::string term = operands.substr(from, to - from);
    if (terms.size() == ranks.size()) return std::nullopt;
    const std::size_t rank = ranks[terms.size()];
    if (!name_rest(terms.emplace_back(term), rank, unused)) return std::nullopt;
    most_left_out = std::max(most_left_out, rank - named_in(term));
    from = to + 1;
  }
  const bool all_left_out = named_in(result) != result.size();
  if (!name_rest(result, named_in(result) + (all_left_out ? most_left_out : 0), unused)) {
    return std::nullopt;
  }
  if (terms.size() != ranks.size()) return std::nullopt;
  terms.push_back(std::move(result));
  return terms;
}

class Einsum {
 public:
  Einsum(ModelGraph& graph, std::vector<Lettered> operands, std::string result)
      : graph_(graph), operands_(std::move(operands)), result_(std::move(result)) {}

  std::optional<Lettered> run() {
    std::optional<Lettered> result = operands_[0];
    for (std::size_t i = 1; result && i < operands_.size(); ++i) {
      // What neither the result nor a later operand names is summed here.
      std::string later = result_;
      for (std::size_t j = i + 1; j < operands_.size(); ++j) later += operands_[j].letters;
      result = product(*result, operands_[i], later);
    }
    if (result) result = summed(*result, result_);
    return result ? ordered(*result, result_) : std::nullopt;
  }

 private:
  static bool has(std::string_view letters, char letter) {
    return letters.find(letter) != std::string_view::npos;
  }

  std::uint64_t extent(const Lettered& of, char letter) const {
    return graph_.type(of.tensor).shape()[of.letters.find(letter)];
  }

  std::uint64_t extent_of(const Lettered& a, const Lettered& b, char letter) const {
    return has(a.letters, letter) ? extent(a, letter) : extent(b, letter);
  }

  std::optional<Lettered> ordered(const Lettered& from, const std::string& letters) {
    if (from.letters == letters) return from;
    if (from.letters.size() != letters.size()) return std::nullopt;
    Lettered to{.tensor = 0, .letters = letters, .strides = {}};
    std::vector<std::int64_t> perm;
    ModelType type = model_type({}, graph_.type(from.tensor).dtype());
    for (const char letter : letters) {
      const std::size_t axis = from.letters.find(letter);
      if (axis == std::string::npos) return std::nullopt;
      perm.push_back(static_cast<std::int64_t>(axis));
      type.type.shape.push_back(graph_.type(from.tensor).shape()[axis]);
      type.extents.push_back(graph_.type(from.tensor).extents[axis]);
      to.strides.push_back(from.strides[axis]);
    }
    const auto view = graph_.op("permute_view", {from.tensor}, {listed("perm", perm)}, type);
    if (!view) return std::nullopt;
    to.tensor = *view;
    return to;
  }

  // Sums over the axes that are not kept.
  std::optional<Lettered> summed(const Lettered& from, std::string_view kept) {
    Lettered to{.tensor = 0, .letters = {}, .strides = {}};
    std::vector<std::int64_t> axes;
    ModelType type = model_type({}, graph_.type(from.tensor).dtype());
    for (std::size_t i = 0; i < from.letters.size(); ++i) {
      if (!has(kept, from.letters[i])) {
        axes.push_back(static_cast<std::int64_t>(i));
        continue;
      }
      to.letters += from.letters[i];
      type.type.shape.push_back(graph_.type(from.tensor).shape()[i]);
      type.extents.push_back(graph_.type(from.tensor).extents[i]);
    }
    if (axes.empty()) return from;
    const auto sum = graph_.op("sum", {from.tensor}, {listed("axes", axes)}, type);
    if (!sum) return std::nullopt;
    to.tensor = *sum;
    to.strides = contiguous(type.shape());
    return to;
  }

  // Another shape of the same elements; a copy first where it cannot be a view.
  std::optional<TensorId> shaped(const Lettered& from, const Shape& shape) {
    const ModelType type = graph_.type(from.tensor);  // ops move what it refers to
    if (type.shape() == shape) return from.tensor;
    TensorId tensor = from.tensor;
    if (!viewable(type.shape(), from.strides, shape)) {
      const auto copy = graph_.op("copy", {tensor}, {}, ModelType(type));
      if (!copy) return std::nullopt;
      tensor = *copy;
    }
    return reshaped(graph_, tensor, model_type(shape, type.dtype()));
  }

  std::optional<Lettered> product(const Lettered& first, const Lettered& second,
                                  std::string_view kept) {
    const auto a = summed(first, std::string(kept) + second.letters);
    const auto b = a ? summed(second, std::string(kept) + a->letters) : std::nullopt;
    if (!b) return std::nullopt;
    std::string batch;
    std::string rows;
    std::string inner;
    std::string columns;
    for (const char letter : a->letters) {
      const bool shared = has(b->letters, letter);
      if (shared && extent(*a, letter) != extent(*b, letter)) return std::nullopt;
      (!shared ? rows : has(kept, letter) ? batch : inner) += letter;
    }
    for (const char letter : b->letters) {
      if (!has(a->letters, letter)) columns += letter;
    }
    const std::string made = batch + rows + columns;
    if (inner.empty()) return multiplied(*a, *b, made);
    return contracted(*a, *b, {batch, rows, inner, columns});
  }

  // Element by element, along axes of both.
  std::optional<Lettered> multiplied(const Lettered& a, const Lettered& b,
                                     const std::string& made) {
    std::vector<ModelGraph::Input> inputs;
    Shape shape;
    for (const char letter : made) shape.push_back(extent_of(a, b, letter));
    for (const Lettered* each : {&a, &b}) {
      std::string order;
      Shape spread;
      for (const char letter : made) {
        const bool own = has(each->letters, letter);
        if (own) order += letter;
        spread.push_back(own ? extent(*each, letter) : 1);
      }
      const auto view = ordered(*each, order);
      const auto tensor = view ? shaped(*view, spread) : std::nullopt;
      if (!tensor) return std::nullopt;
      inputs.emplace_back(*tensor);
    }
    const auto result =
        graph_.op("mul", inputs, {}, model_type(shape, graph_.type(a.tensor).dtype()));
    if (!result) return std::nullopt;
    return Lettered{*result, made, contiguous(shape)};
  }

  struct Roles {
    std::string batch;
    std::string rows;
    std::string inner;
    std::string columns;
  };

  // A product of matrices, after the axes of each kind have become one.
  std::optional<Lettered> contracted(const Lettered& a, const Lettered& b, const Roles& roles) {
    const auto left = matrices(a, roles.batch, roles.rows, roles.inner);
    const auto right = matrices(b, roles.batch, roles.columns, roles.inner);
    if (!left || !right) return std::nullopt;
    const Shape& rows = graph_.type(*left).shape();
    const Shape& columns = graph_.type(*right).shape();
    const DType dtype = graph_.type(*left).dtype();
    const auto product =
        graph_.op("matmul", {*left, *right}, {{.name = "transpose_b", .value = true}},
                  model_type({rows[0], rows[1], columns[1]}, dtype));
    if (!product) return std::nullopt;
    Lettered result{*product, roles.batch + roles.rows + roles.columns, {}};
    Shape shape;
    for (const char letter : result.letters) shape.push_back(extent_of(a, b, letter));
    const auto apart = reshaped(graph_, *product, model_type(shape, dtype));
    if (!apart) return std::nullopt;
    result.tensor = *apart;
    result.strides = contiguous(shape);
    return result;
  }

  std::optional<TensorId> matrices(const Lettered& from, const std::string& batch,
                                   const std::string& rows, const std::string& inner) {
    const auto view = ordered(from, batch + rows + inner);
    if (!view) return std::nullopt;
    const Shape& shape = graph_.type(view->tensor).shape();
    const std::size_t r = batch.size();
    const std::size_t k = r + rows.size();
    return shaped(*view, {elements_between(shape, 0, r), elements_between(shape, r, k),
                          elements_between(shape, k, shape.size())});
  }

  ModelGraph& graph_;
  std::vector<Lettered> operands_;
  std::string result_;
};

}  // namespace

std::optional<StridedTensor> write_einsum(ModelGraph& graph, std::string equation,
                                          std::vector<StridedTensor> operands) {
  constexpr std::size_t kMostOperands = 64;
  if (operands.empty() || operands.size() > kMostOperands) return std::nullopt;
  std::vector<std::size_t> ranks;
  for (const StridedTensor& each : operands)
    ranks.push_back(graph.type(each.tensor).shape().size());
  auto terms = terms_of(std::move(equation), ranks);
  if (!terms) return std::nullopt;
  std::vector<Lettered> lettered;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    lettered.push_back({operands[i].tensor, (*terms)[i], std::move(operands[i].strides)});
  }
  auto result = Einsum(graph, std::move(lettered), std::move(terms->back())).run();
  if (!result) return std::nullopt;
  return StridedTensor{result->tensor, std::move(result->strides)};
}

}  // namespace fusecalc
