// einsum: products and sums along axes that letters name.

#include <algorithm>
#include <array>
#include <numeric>

#include "core/checked.hpp"
#include "input/pt2/aten.hpp"

namespace fusecalc {
namespace {

using TensorId = ModelGraph::TensorId;

// A tensor whose axes have letters, and where its elements lie.
struct Lettered {
  TensorId tensor = 0;
  std::string letters;
  std::vector<std::int64_t> strides;
};

class Einsum {
 public:
  explicit Einsum(const AtenCall& call) : call_(call), graph_(call.graph()) {}

  bool run() {
    if (!read_equation()) return false;
    std::optional<Lettered> result = operands_[0];
    for (std::size_t i = 1; result && i < operands_.size(); ++i) {
      // What neither the result nor a later operand names is summed here.
      std::string later = result_;
      for (std::size_t j = i + 1; j < operands_.size(); ++j) later += operands_[j].letters;
      result = product(*result, operands_[i], later);
    }
    if (result) result = summed(*result, result_);
    if (result) result = ordered(*result, result_);
    if (!result || graph_.type(result->tensor).shape() != call_.type().shape()) return false;
    const std::vector<ValueId> values = call_.values("tensors");
    const bool view = values.size() == 1 && result->letters.size() == letters_of_.size();
    if (view) {
      call_.share(0, values[0], result->tensor);
    } else {
      call_.set(0, result->tensor);
    }
    return true;
  }

 private:
  // "bij,bjk->bik"; spaces are ignored, other characters are not known.
  bool read_equation() {
    std::string equation = call_.text("equation");
    std::erase(equation, ' ');
    const std::size_t arrow = equation.find("->");
    if (arrow == std::string::npos) return false;
    result_ = equation.substr(arrow + 2);
    const std::vector<ValueId> values = call_.values("tensors");
    std::size_t from = 0;
    for (const ValueId id : values) {
      const std::size_t to = std::min(equation.find(',', from), arrow);
      if (from > arrow) return false;
      const ProgramValue& value = call_.at(id);
      Lettered operand{.tensor = 0, .letters = equation.substr(from, to - from), .strides = {}};
      from = to + 1;
      if (operand.letters.size() != value.type.shape().size()) return false;
      if (!are_letters(operand.letters)) return false;
      operand.strides = value.strides;
      operand.tensor = call_.tensor(id);
      operands_.push_back(std::move(operand));
    }
    if (values.size() == 1) letters_of_ = operands_[0].letters;
    return !operands_.empty() && from == arrow + 1 && are_letters(result_);
  }

  // No letter occurs twice.
  static bool are_letters(std::string letters) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (!std::ranges::all_of(letters, is_letter)) return false;
    std::ranges::sort(letters);
    return std::ranges::adjacent_find(letters) == letters.end();
  }

  static bool has(std::string_view letters, char letter) {
    return letters.find(letter) != std::string_view::npos;
  }

  std::uint64_t extent(const Lettered& of, char letter) const {
    return graph_.type(of.tensor).shape()[of.letters.find(letter)];
  }

  std::uint64_t extent_of(const Lettered& a, const Lettered& b, char letter) const {
    return has(a.letters, letter) ? extent(a, letter) : extent(b, letter);
  }

  static std::vector<std::int64_t> contiguous(const Shape& shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) {
      strides[i - 1] = strides[i] * static_cast<std::int64_t>(shape[i]);
    }
    return strides;
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
    return reshaped(call_, tensor, model_type(shape, type.dtype()));
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
    const auto apart = reshaped(call_, *product, model_type(shape, dtype));
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

  const AtenCall& call_;
  ModelGraph& graph_;
  std::vector<Lettered> operands_;
  std::string result_;
  std::string letters_of_;  // of a single operand
};

bool einsum(const AtenCall& call, std::string_view) { return Einsum(call).run(); }

constexpr std::array kEinsumRules = {AtenRule{"einsum", einsum}};

}  // namespace

std::span<const AtenRule> aten_einsum_rules() { return kEinsumRules; }

}  // namespace fusecalc
