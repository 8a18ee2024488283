#include "plan/random_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace fusecalc::testing {
namespace {

using Extents = std::vector<std::uint64_t>;

struct Value {
  std::string name;
  Extents shape;
  bool number = true;  // neither bool nor index
  bool home = false;   // an in-place op may still overwrite it
};

class RandomOpList {
 public:
  RandomOpList(std::uint64_t seed, std::size_t ops) : dice_(seed), wanted_(ops) {}

  std::string text() {
    constexpr std::array<std::uint64_t, 5> kRows = {4, 48, 256, 1000, 60000};
    constexpr std::array<std::uint64_t, 6> kColumns = {4, 64, 256, 1000, 4096, 60000};
    rows_ = kRows[dice_.below(kRows.size())];
    columns_ = dice_.chance(20) ? rows_ : kColumns[dice_.below(kColumns.size())];
    batched_ = dice_.chance(30);
    reach_ = dice_.chance(50) ? 3 : 1000;
    input(full());
    if (dice_.chance(60)) input(full());
    while (count_ < wanted_) add_random_op();
    std::string outputs;
    if (dice_.chance(30)) {
      std::vector<std::string> names = {quoted(values_.back().name)};
      for (const Value& value : values_) {
        if (value.name != values_.back().name && dice_.chance(25)) {
          names.push_back(quoted(value.name));
        }
      }
      outputs = fmt::format(", \"outputs\": [{}]", fmt::join(names, ", "));
    }
    return fmt::format("{{\"tensors\": {{{}}},\n \"ops\": [\n  {}]{}}}", fmt::join(tensors_, ", "),
                       fmt::join(ops_, ",\n  "), outputs);
  }

 private:
  static std::string quoted(std::string_view name) { return fmt::format("\"{}\"", name); }

  Extents full() const { return batched_ ? Extents{3, rows_, columns_} : Extents{rows_, columns_}; }

  std::string input(const Extents& shape, std::string_view dtype = "f32") {
    const std::string name = fmt::format("i{}", tensors_.size());
    tensors_.push_back(fmt::format("\"{}\": {{\"shape\": [{}], \"dtype\": \"{}\"}}", name,
                                   fmt::join(shape, ", "), dtype));
    const bool number = dtype != "bool" && dtype != "i32";
    values_.push_back({.name = name, .shape = shape, .number = number, .home = number});
    return name;
  }

  // An op with one result; returns its place among the values.
  std::size_t op(std::string_view kind, const std::vector<std::string>& inputs,
                 const Extents& shape, const std::string& more = "", bool number = true,
                 bool view = false) {
    const std::string name = fmt::format("t{}", values_.size());
    std::vector<std::string> operands;
    for (const std::string& operand : inputs) {
      const bool constant = operand.find_first_not_of("0123456789.") == std::string::npos;
      operands.push_back(constant ? operand : quoted(operand));
    }
    ops_.push_back(fmt::format(
        "{{\"name\": \"o{}\", \"op\": \"{}\", \"inputs\": [{}], \"output\": \"{}\"{}{}}}", count_,
        kind, fmt::join(operands, ", "), name, more.empty() ? "" : ", ", more));
    ++count_;
    values_.push_back({.name = name, .shape = shape, .number = number, .home = number && !view});
    return values_.size() - 1;
  }

  // A copy: adding values moves them.
  Value any() {
    for (;;) {
      const std::size_t back = dice_.below(std::min(values_.size(), reach_));
      const Value& value = values_[values_.size() - 1 - back];
      if (value.number) return value;
      const Value& anywhere = values_[dice_.below(values_.size())];
      if (anywhere.number) return anywhere;
    }
  }

  std::optional<Value> any_with_rank(std::size_t rank) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      Value value = any();
      if (value.shape.size() >= rank) return value;
    }
    return std::nullopt;
  }

  static std::optional<Extents> joined(const Extents& a, const Extents& b) {
    Extents wide = a.size() >= b.size() ? a : b;
    const Extents& narrow = a.size() >= b.size() ? b : a;
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      std::uint64_t& extent = wide[wide.size() - narrow.size() + i];
      if (extent == 1) {
        extent = narrow[i];
      } else if (narrow[i] != 1 && narrow[i] != extent) {
        return std::nullopt;
      }
    }
    return wide;
  }

  void add_random_op() {
    switch (dice_.below(24)) {
      case 0:
      case 1:
      case 2: return unary();
      case 3:
      case 4:
      case 5:
      case 6: return binary();
      case 7:
      case 8: return reduce();
      case 9: return normalise_by_hand();
      case 10:
      case 11: return normalise();
      case 12: return transpose();
      case 13: return reshape();
      case 14: return slice();
      case 15: return concat();
      case 16: return gather();
      case 17:
      case 18: return linear();
      case 19: return matmul();
      case 20: return attention();
      case 21: return mask();
      case 22: return in_place();
      default: return loss();
    }
  }

  void unary() {
    constexpr std::array<std::string_view, 5> kKinds = {"relu", "exp", "gelu", "neg", "copy"};
    const Value x = any();
    op(kKinds[dice_.below(kKinds.size())], {x.name}, x.shape);
  }

  void binary() {
    constexpr std::array<std::string_view, 4> kKinds = {"add", "sub", "mul", "div"};
    const std::string_view kind = kKinds[dice_.below(kKinds.size())];
    const Value x = any();
    if (dice_.chance(20)) {
      Extents shape(x.shape.end() - std::min<std::ptrdiff_t>(1, std::ssize(x.shape)),
                    x.shape.end());
      const std::string bias = input(shape);
      op(kind, {x.name, bias}, x.shape);
      return;
    }
    for (int attempt = 0; attempt < 8; ++attempt) {
      const Value y = any();
      if (y.name == x.name && attempt < 4) continue;
      const std::optional<Extents> shape = joined(x.shape, y.shape);
      if (!shape) continue;
      op(kind, {x.name, y.name}, *shape);
      return;
    }
    op(kind, {x.name, "2"}, x.shape);
  }

  void reduce() {
    constexpr std::array<std::string_view, 5> kKinds = {"sum", "mean", "max", "var", "logsumexp"};
    const std::optional<Value> x = any_with_rank(1);
    if (!x) return unary();
    const std::string_view kind = kKinds[dice_.below(kKinds.size())];
    const bool keep = dice_.chance(75);
    if (dice_.chance(10)) {
      op(kind, {x->name}, {});
      return;
    }
    const bool last = dice_.chance(60);
    const std::size_t axis = last ? x->shape.size() - 1 : dice_.below(x->shape.size());
    Extents shape = x->shape;
    if (keep) {
      shape[axis] = 1;
    } else {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    op(kind, {x->name}, shape, fmt::format("\"axis\": {}, \"keepdim\": {}", axis, keep));
  }

  // A reduction whose result is combined with its own row again.
  void normalise_by_hand() {
    const std::optional<Value> x = any_with_rank(2);
    if (!x) return unary();
    const std::size_t axis = dice_.chance(70) ? x->shape.size() - 1 : 0;
    Extents shape = x->shape;
    shape[axis] = 1;
    const std::size_t m = op(dice_.chance(50) ? "max" : "mean", {x->name}, shape,
                             fmt::format("\"axis\": {}, \"keepdim\": true", axis));
    op("sub", {x->name, values_[m].name}, x->shape);
  }

  void normalise() {
    const std::optional<Value> x = any_with_rank(2);
    if (!x) return unary();
    switch (dice_.below(5)) {
      case 0: op("softmax", {x->name}, x->shape); return;
      case 1: op("log_softmax", {x->name}, x->shape, "\"axis\": 0"); return;
      case 2: {
        const std::string weight = input({x->shape.back()});
        op("layer_norm", {x->name, weight}, x->shape);
        return;
      }
      case 3: op("rms_norm", {x->name}, x->shape); return;
      default: {
        const std::string weight = input({x->shape[1]});
        const std::string bias = input({x->shape[1]});
        op("batch_norm", {x->name, weight, bias}, x->shape, "\"mode\": \"training\"");
      }
    }
  }

  void transpose() {
    const std::optional<Value> x = any_with_rank(2);
    if (!x) return unary();
    Extents shape = x->shape;
    std::vector<std::size_t> perm(shape.size());
    for (std::size_t i = 0; i < perm.size(); ++i) perm[i] = i;
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    const bool view = dice_.chance(40);
    op(view ? "permute_view" : "transpose", {x->name}, shape,
       fmt::format("\"perm\": [{}]", fmt::join(perm, ", ")), true, view);
  }

  void reshape() {
    const Value x = any();
    Extents shape = x.shape;
    if (shape.size() >= 2 && dice_.chance(50)) {
      shape[1] *= shape[0];
      shape.erase(shape.begin());
    } else {
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dice_.below(shape.size() + 1)), 1);
    }
    op("reshape", {x.name}, shape, fmt::format("\"shape\": [{}]", fmt::join(shape, ", ")), true,
       true);
  }

  void slice() {
    const std::optional<Value> x = any_with_rank(1);
    if (!x) return unary();
    const std::size_t axis = dice_.below(x->shape.size());
    Extents shape = x->shape;
    if (shape[axis] < 2) return unary();
    shape[axis] /= 2;
    const bool view = dice_.chance(40);
    op(view ? "slice_view" : "slice", {x->name}, shape,
       fmt::format("\"axis\": {}, \"start\": 0, \"end\": {}", axis, shape[axis]), true, view);
  }

  void concat() {
    const std::optional<Value> x = any_with_rank(1);
    if (!x) return unary();
    Extents shape = x->shape;
    const std::size_t axis = dice_.below(shape.size());
    shape[axis] *= 2;
    Value other = *x;
    for (int attempt = 0; attempt < 6; ++attempt) {
      const Value candidate = any();
      if (candidate.shape == x->shape) other = candidate;
    }
    op("concat", {x->name, other.name}, shape, fmt::format("\"axis\": {}", axis));
  }

  void gather() {
    const std::optional<Value> x = any_with_rank(1);
    if (!x) return unary();
    const std::uint64_t picked = std::max<std::uint64_t>(1, x->shape[0] / (1 + dice_.below(4)));
    Extents shape = x->shape;
    shape[0] = picked;
    const std::string indices = input({picked}, "i32");
    op("gather", {x->name, indices}, shape);
  }

  void linear() {
    const std::optional<Value> x = any_with_rank(2);
    if (!x) return unary();
    const std::uint64_t features = dice_.chance(60) ? x->shape.back() : 96;
    Extents shape = x->shape;
    shape.back() = features;
    std::vector<std::string> inputs = {x->name, input({features, x->shape.back()})};
    if (dice_.chance(50)) inputs.push_back(input({features}));
    const std::size_t y = op("linear", inputs, shape);
    if (dice_.chance(60)) op(dice_.chance(50) ? "gelu" : "relu", {values_[y].name}, shape);
    if (dice_.chance(30) && x->shape == shape) {
      op("add", {values_.back().name, x->name}, shape);
    }
  }

  void matmul() {
    const std::optional<Value> x = any_with_rank(2);
    if (!x) return unary();
    Extents shape = x->shape;
    shape.back() = dice_.chance(30) ? shape[shape.size() - 2] : 80;
    const std::string other = input({x->shape.back(), shape.back()});
    const std::size_t y = op("matmul", {x->name, other}, shape);
    if (dice_.chance(40)) op("mul", {values_[y].name, "0.5"}, shape);
  }

  void attention() {
    if (count_ + 3 > wanted_ + 1) return linear();
    const Extents heads = {2, std::min<std::uint64_t>(rows_, 512), 64};
    const std::string q = input(heads);
    const std::string k = input(heads);
    const std::string v = input(heads);
    const Extents scores = {2, heads[1], heads[1]};
    std::string s = values_[op("matmul", {q, k}, scores, "\"transpose_b\": true")].name;
    if (dice_.chance(50)) s = values_[op("mul", {s, "0.125"}, scores)].name;
    if (dice_.chance(60)) {
      s = values_[op("softmax", {s}, scores)].name;
    } else {
      const Extents row = {2, heads[1], 1};
      constexpr std::string_view kRow = "\"axis\": -1, \"keepdim\": true";
      const std::string m = values_[op("max", {s}, row, std::string(kRow))].name;
      const std::string d = values_[op("sub", {s, m}, scores)].name;
      const std::string e = values_[op("exp", {d}, scores)].name;
      const std::string n = values_[op("sum", {e}, row, std::string(kRow))].name;
      s = values_[op("div", {e, n}, scores)].name;
    }
    op("matmul", {s, v}, heads);
  }

  void mask() {
    const Value x = any();
    if (dice_.chance(50)) {
      const std::size_t condition = op("gt", {x.name, "0"}, x.shape, "", false);
      op("where", {values_[condition].name, x.name, "0"}, x.shape);
      return;
    }
    const std::string y = fmt::format("t{}", values_.size());
    const std::string m = fmt::format("t{}", values_.size() + 1);
    ops_.push_back(
        fmt::format("{{\"name\": \"o{}\", \"op\": \"dropout\", \"inputs\": [\"{}\"], \"outputs\": "
                    "[\"{}\", \"{}\"], \"save_mask\": true}}",
                    count_, x.name, y, m));
    ++count_;
    values_.push_back({.name = y, .shape = x.shape, .number = true, .home = true});
    values_.push_back({.name = m, .shape = x.shape, .number = false, .home = false});
  }

  void in_place() {
    for (std::size_t i = values_.size(); i-- > 0;) {
      if (!values_[i].home || dice_.chance(50)) continue;
      values_[i].home = false;
      const Value x = values_[i];
      if (x.shape.size() == 2 && x.shape[0] >= 4 && dice_.chance(40)) {
        const std::string indices = input({2}, "i32");
        const std::string rows = input({2, x.shape[1]});
        op("scatter_update", {x.name, indices, rows}, x.shape);
        return;
      }
      const std::string y = fmt::format("t{}", values_.size());
      op("mul", {x.name, "3"}, x.shape, fmt::format("\"inplace\": {{\"{}\": \"{}\"}}", y, x.name));
      return;
    }
    unary();
  }

  void loss() {
    const std::optional<Value> x = any_with_rank(2);
    if (!x) return unary();
    Extents samples(x->shape.begin(), x->shape.end() - 1);
    const std::string labels = input(samples, "i32");
    op(dice_.chance(60) ? "cross_entropy" : "nll_loss", {x->name, labels}, {});
  }

  Dice dice_;
  std::size_t wanted_;
  std::size_t count_ = 0;
  std::uint64_t rows_ = 0;
  std::uint64_t columns_ = 0;
  bool batched_ = false;
  std::size_t reach_ = 0;  // how far back operands are taken from
  std::vector<Value> values_;
  std::vector<std::string> tensors_;
  std::vector<std::string> ops_;
};

}  // namespace

std::string random_op_list(std::uint64_t seed, std::size_t ops) {
  return RandomOpList(seed, ops).text();
}

}  // namespace fusecalc::testing
