// What fits each op of the table: one rule for each way in which ops understand their inputs.

#include "codegen/random_rules.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "graph/inference.hpp"

namespace fusecalc::testing {
namespace {

// Another operand for x: a number, a tensor that is there, or a new one, broadcast along any axes.
std::string candidate(Drawer& d, const Drawn& x) {
  if (d.dice().chance(15)) return number(d);
  if (d.dice().chance(40)) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const Drawn y = d.pick();
      if (broadcast(x.shape, y.shape)) return y.name;
    }
  }
  if (d.dice().chance(50)) return d.input(x.shape).name;
  return d.input(d.narrowed(x.shape)).name;
}

// Integers of both signs, and bools.
Drawn integers(Drawer& d) {
  constexpr std::array kTypes = {DType::kBool, DType::kI8,  DType::kU8,
                                 DType::kI16,  DType::kI32, DType::kI64};
  return d.input(d.shape(), d.one_of(kTypes));
}

void pointwise(Drawer& d, const OpRow& row, Line& line) {
  const Drawn picked = d.pick();
  const bool bits = row.type_rule == TypeRule::kBits && is_float(picked.dtype);
  const Drawn x = bits ? integers(d) : picked;
  line.inputs = {x.name};
  const std::size_t more = row.max_inputs - row.min_inputs;
  const std::size_t count = row.min_inputs + (more > 0 ? d.dice().below(more + 1) : 0);
  while (line.inputs.size() < count) {
    line.inputs.push_back(bits ? d.input(d.narrowed(x.shape), x.dtype).name : candidate(d, x));
  }
  if (count == 2 && d.dice().chance(30)) std::swap(line.inputs[0], line.inputs[1]);
  if ((row.attributes & only(Attribute::kMin)) != 0 && count == 1) {
    if (d.dice().chance(70)) line.attributes.push_back("\"min\": " + number(d));
    if (d.dice().chance(70)) line.attributes.push_back("\"max\": 70000");
  }
  if ((row.attributes & only(Attribute::kApproximate)) != 0 && d.dice().chance(50)) {
    line.attributes.push_back(word("approximate", "tanh"));
  }
}

void where(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick();
  const Shape shape = d.dice().chance(70) ? x.shape : d.narrowed(x.shape);
  line.inputs = {d.input(shape, d.dice().chance(90) ? DType::kBool : d.any_dtype()).name, x.name,
                 candidate(d, x)};
  if (d.dice().chance(50)) std::swap(line.inputs[1], line.inputs[2]);
}

void cast(Drawer& d, const OpRow& /*row*/, Line& line) {
  line.inputs = {d.pick().name};
  line.attributes = {word("to", dtype_names()[d.dice().below(dtype_names().size())])};
}

void dropout(Drawer& d, const OpRow& /*row*/, Line& line) {
  line.inputs = {d.pick().name};
  line.attributes = {
      fmt::format("\"p\": 0.{}, \"seed\": {}", d.dice().below(10), d.dice().below(1000))};
  if (!d.dice().chance(50)) return;
  line.attributes.push_back(flag("save_mask", true));
  line.outputs = 2;
}

void reduce(Drawer& d, const OpRow& row, Line& line) {
  const Drawn x = d.pick();
  line.inputs = {x.name};
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (d.dice().chance(40)) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (d.dice().chance(40) && !x.shape.empty()) axes = {-1};
  if (!d.dice().chance(8)) line.attributes.push_back(list("axes", axes));
  line.attributes.push_back(flag("keepdim", d.dice().chance(60)));
  if ((row.attributes & only(Attribute::kCorrection)) != 0 && d.dice().chance(50)) {
    line.attributes.emplace_back("\"correction\": 1");
  }
  if (row.max_outputs == 2) line.outputs = 1 + d.dice().below(2);
}

void softmax(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name};
  if (d.dice().chance(40)) line.attributes = {list("axes", {some_axis(d, x.shape.size())})};
}

void row_norm(Drawer& d, const OpRow& row, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name};
  const std::size_t axes = d.dice().chance(75) ? 1 : 1 + d.dice().below(x.shape.size());
  const Shape weight(x.shape.end() - static_cast<std::ptrdiff_t>(axes), x.shape.end());
  const std::size_t count = 1 + d.dice().below(row.max_inputs);
  while (line.inputs.size() < count) line.inputs.push_back(d.input(weight).name);
  if (count == 1 && axes > 1) {
    std::vector<std::int64_t> last(axes);
    std::iota(last.begin(), last.end(), -static_cast<std::int64_t>(axes));
    line.attributes.push_back(list("axes", last));
  }
  if (d.dice().chance(30)) line.attributes.emplace_back("\"eps\": 1e-3");
  if (d.dice().chance(30)) line.outputs = row.max_outputs;
}

void batch_norm(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(2);
  line.inputs = {x.name};
  const bool training = d.dice().chance(50);
  const bool running = training && d.dice().chance(30);
  while (line.inputs.size() < (training && !running ? 3 : 5)) {
    line.inputs.push_back(d.input({x.shape[1]}).name);
  }
  line.attributes = {word("mode", training ? "training" : "inference")};
  if (running) {
    line.outputs = 5;
  } else if (training && d.dice().chance(50)) {
    line.outputs = 3;
  }
}

void group_norm(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(2);
  line.inputs = {x.name};
  const std::size_t count = 1 + d.dice().below(3);
  while (line.inputs.size() < count) line.inputs.push_back(d.input({x.shape[1]}).name);
  constexpr std::array<int, 4> kGroups = {1, 2, 4, 8};
  line.attributes = {fmt::format("\"groups\": {}", d.one_of(kGroups))};
  if (d.dice().chance(30)) line.outputs = 3;
}

void loss(Drawer& d, const OpRow& row, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name, d.indices({x.shape.begin(), x.shape.end() - 1}).name};
  constexpr std::array<std::string_view, 3> kWords = {"none", "mean", "sum"};
  line.attributes = {word("reduction", d.one_of(kWords))};
  if (row.max_outputs == 2 && d.dice().chance(40)) line.outputs = 2;
}

void transpose(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(2);
  line.inputs = {x.name};
  std::vector<std::int64_t> perm(x.shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  for (std::size_t i = perm.size(); i > 1; --i) std::swap(perm[i - 1], perm[d.dice().below(i)]);
  if (d.dice().chance(85)) line.attributes = {list("perm", perm)};
}

void concat(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  const std::size_t axis = d.dice().below(x.shape.size());
  const std::size_t count = 2 + d.dice().below(3);
  while (line.inputs.size() < count) {
    Shape shape = x.shape;
    if (d.dice().chance(50)) shape[axis] = d.extent();
    line.inputs.push_back(d.dice().chance(30) ? x.name : d.input(shape).name);
  }
  line.inputs[d.dice().below(count)] = x.name;
  line.attributes = {list("axes", {static_cast<std::int64_t>(axis)})};
}

void slice(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name};
  std::vector<std::int64_t> axes, starts, ends, steps;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (x.shape[i] == 0 || d.dice().chance(50)) continue;
    axes.push_back(static_cast<std::int64_t>(i));
    const std::size_t start = d.dice().below(x.shape[i]);
    starts.push_back(static_cast<std::int64_t>(start));
    ends.push_back(static_cast<std::int64_t>(start + 1 + d.dice().below(x.shape[i] - start)));
    steps.push_back(d.dice().chance(70) ? 1 : 1 + static_cast<std::int64_t>(d.dice().below(3)));
  }
  line.attributes = {list("axes", axes), list("starts", starts), list("ends", ends),
                     list("steps", steps)};
}

void split(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  line.inputs = {x.name};
  const std::size_t axis = d.dice().below(x.shape.size());
  line.attributes = {list("axes", {static_cast<std::int64_t>(axis)})};
  line.outputs = 1 + d.dice().below(3);
  if (x.shape[axis] % line.outputs == 0 && d.dice().chance(50)) return;
  std::vector<std::int64_t> sizes;
  std::uint64_t left = x.shape[axis];
  while (sizes.size() + 1 < line.outputs) {
    sizes.push_back(static_cast<std::int64_t>(d.dice().below(left + 1)));
    left -= static_cast<std::uint64_t>(sizes.back());
  }
  sizes.push_back(static_cast<std::int64_t>(left));
  line.attributes.push_back(list("sizes", sizes));
}

void gather(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  Shape picked = {d.extent()};
  if (d.dice().chance(25)) picked.push_back(1 + d.dice().below(4));
  line.inputs = {x.name, d.indices(picked).name};
  if (d.dice().chance(60)) line.attributes = {list("axes", {some_axis(d, x.shape.size())})};
}

void embedding(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn indices = d.indices(d.narrowed(d.shape()));
  line.inputs = {d.input({d.extent(), d.extent()}).name, indices.name};
  if (d.dice().chance(30)) std::swap(line.inputs[0], line.inputs[1]);
}

void scatter(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  const std::size_t axis = d.dice().chance(60) ? 0 : d.dice().below(x.shape.size());
  const Drawn indices = d.indices({d.extent()});
  Shape rows = x.shape;
  rows[axis] = indices.shape[0];
  line.inputs = {x.name, indices.name, d.input(rows, x.dtype).name};
  line.attributes = {list("axes", {static_cast<std::int64_t>(axis)})};
  if (d.dice().chance(40)) line.attributes.push_back(combining(d));
}

void broadcast_to(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick();
  line.inputs = {x.name};
  Shape shape = x.shape;
  // Tensors have fewer elements than a grid has blocks of threads.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 36U;
  std::uint64_t elements = checked_elements(shape).value_or(kMost);
  for (std::uint64_t& extent : shape) {
    if (extent != 1) continue;
    const std::uint64_t wide = d.extent();
    if (wide == 0 || elements > kMost / wide) continue;
    extent = wide;
    elements *= wide;
  }
  if (d.dice().chance(60)) shape.insert(shape.begin(), 1 + d.dice().below(8));
  line.attributes = {list("shape", signed_of(shape))};
}

void reshape(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick();
  line.inputs = {x.name};
  Shape shape = x.shape;
  if (shape.size() >= 2 && d.dice().chance(60)) {
    const std::size_t axis = d.dice().below(shape.size() - 1);
    shape[axis + 1] *= shape[axis];
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  } else if (!shape.empty() && shape.back() % 2 == 0 && d.dice().chance(60)) {
    shape.back() /= 2;
    shape.push_back(2);
  } else {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d.dice().below(shape.size() + 1)), 1);
  }
  line.attributes = {list("shape", signed_of(shape))};
}

void matmul(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn a = d.pick_ranked(1 + d.dice().below(2));
  const bool vector = a.shape.size() == 1;
  const bool across_a = !vector && d.dice().chance(25);
  const bool across_b = d.dice().chance(40);
  const std::uint64_t depth = across_a ? a.shape[a.shape.size() - 2] : a.shape.back();
  Shape b = across_b ? Shape{d.extent(), depth} : Shape{depth, d.extent()};
  if (d.dice().chance(10)) b = {depth};
  if (a.shape.size() > 2 && b.size() > 1 && d.dice().chance(60)) {
    const Shape batch = d.narrowed({a.shape.begin(), a.shape.end() - 2});
    b.insert(b.begin(), batch.begin(), batch.end());
  }
  const DType dtype = d.dice().chance(90) ? a.dtype : d.any_dtype();
  line.inputs = {a.name, d.input(b, dtype).name};
  line.attributes = {flag("transpose_a", across_a), flag("transpose_b", across_b)};
}

void linear(Drawer& d, const OpRow& /*row*/, Line& line) {
  const Drawn x = d.pick_ranked(1);
  const DType dtype = d.dice().chance(90) ? x.dtype : d.any_dtype();
  const std::uint64_t features = d.extent();
  line.inputs = {x.name, d.input({features, x.shape.back()}, dtype).name};
  if (d.dice().chance(50)) {
    line.inputs.push_back(d.input({features}, d.dice().chance(80) ? dtype : d.any_dtype()).name);
  }
}

void grouped_matmul(Drawer& d, const OpRow& /*row*/, Line& line) {
  const std::uint64_t groups = 1 + d.dice().below(8);
  const std::uint64_t depth = d.extent();
  const bool across = d.dice().chance(40);
  const std::uint64_t columns = d.extent();
  line.inputs = {
      d.input({d.extent(), depth}).name,
      d.input(across ? Shape{groups, columns, depth} : Shape{groups, depth, columns}).name,
      d.indices({groups}).name};
  line.attributes = {flag("transpose_b", across)};
}

void scaled_matmul(Drawer& d, const OpRow& /*row*/, Line& line) {
  const std::uint64_t rows = d.extent();
  const std::uint64_t depth = d.extent();
  const std::uint64_t columns = d.extent();
  line.inputs = {d.input({rows, depth}).name, d.input({depth, columns}).name};
  const bool each = d.dice().chance(60) && rows > 0 && columns > 0 && depth > 0;
  const std::uint64_t blocks = !each || d.dice().chance(50) ? 1 : depth % 2 == 0 ? 2 : depth;
  line.inputs.push_back(d.input(each ? Shape{rows, blocks} : Shape{}, DType::kF32).name);
  line.inputs.push_back(d.input(each ? Shape{blocks, columns} : Shape{}, DType::kF32).name);
  if (d.dice().chance(50)) line.inputs.push_back(d.input({columns}).name);
}

void attention(Drawer& d, const OpRow& /*row*/, Line& line) {
  constexpr std::array<std::uint64_t, 8> kHeads = {64, 128, 96, 32, 80, 256, 192, 40};
  constexpr std::array<std::uint64_t, 3> kShared = {1, 2, 4};
  const std::uint64_t size = d.one_of(kHeads);
  const std::uint64_t groups = 1 + d.dice().below(2);
  const std::uint64_t heads = groups * d.one_of(kShared);
  Shape batch = d.dice().chance(80) ? Shape{1 + d.dice().below(3)} : Shape{};
  const auto with = [&](std::uint64_t h, std::uint64_t rows, std::uint64_t columns) {
    Shape shape = batch;
    shape.insert(shape.end(), {h, rows, columns});
    return shape;
  };
  const std::uint64_t queries = d.extent();
  const std::uint64_t keys = d.dice().chance(60) ? queries : d.extent();
  const DType dtype = d.any_dtype();
  line.inputs = {
      d.input(with(heads, queries, size), dtype).name,
      d.input(with(groups, keys, size), dtype).name,
      d.input(with(groups, keys, d.dice().chance(85) ? size : d.one_of(kHeads)), dtype).name};
  if (d.dice().chance(30)) {
    line.inputs.push_back(d.input(d.narrowed(with(heads, queries, keys))).name);
  }
  const bool causal = d.dice().chance(40);
  line.attributes = {flag("causal", causal)};
  if (d.dice().chance(40)) line.attributes.emplace_back("\"scale\": 0.25");
  if (causal && d.dice().chance(40)) {
    line.attributes.push_back(fmt::format("\"window\": {}", 1 + d.dice().below(2 * keys + 1)));
  }
}

// Its results would have to be declared; nothing is known of what it does, so it has no code.
void custom(Drawer& /*drawer*/, const OpRow& /*row*/, Line& /*line*/) {}

constexpr std::array kOpRules = {
    RandomRule{OpFamily::kPointwise, pointwise},
    RandomRule{OpFamily::kWhere, where},
    RandomRule{OpFamily::kCast, cast},
    RandomRule{OpFamily::kDropout, dropout},
    RandomRule{OpFamily::kReduce, reduce},
    RandomRule{OpFamily::kSoftmax, softmax},
    RandomRule{OpFamily::kRowNorm, row_norm},
    RandomRule{OpFamily::kBatchNorm, batch_norm},
    RandomRule{OpFamily::kGroupNorm, group_norm},
    RandomRule{OpFamily::kLoss, loss},
    RandomRule{OpFamily::kTranspose, transpose},
    RandomRule{OpFamily::kConcat, concat},
    RandomRule{OpFamily::kSlice, slice},
    RandomRule{OpFamily::kSplit, split},
    RandomRule{OpFamily::kGather, gather},
    RandomRule{OpFamily::kEmbedding, embedding},
    RandomRule{OpFamily::kScatter, scatter},
    RandomRule{OpFamily::kBroadcastTo, broadcast_to},
    RandomRule{OpFamily::kReshape, reshape},
    RandomRule{OpFamily::kMatmul, matmul},
    RandomRule{OpFamily::kLinear, linear},
    RandomRule{OpFamily::kGroupedMatmul, grouped_matmul},
    RandomRule{OpFamily::kScaledMatmul, scaled_matmul},
    RandomRule{OpFamily::kAttention, attention},
    RandomRule{OpFamily::kCustom, custom},
};

}  // namespace

Line propose(Drawer& drawer, const OpRow& row) {
  Line line;
  const RandomRule* rule = nullptr;
  for (const std::span<const RandomRule> rules :
       {std::span<const RandomRule>(kOpRules), index_rules(), window_rules()}) {
    const auto found = std::ranges::find(rules, row.family, &RandomRule::family);
    if (found != rules.end()) rule = &*found;
  }
  REQUIRE_MESSAGE(rule != nullptr, "no rule for " << row.name);
  rule->propose(drawer, row, line);
  if (line.inputs.empty()) return line;
  // Now and then the result takes its first input's place, or only a part is touched.
  const OpClass what = row.op_class;
  if (what == OpClass::kPointwise && drawer.dice().chance(8)) line.overwrites = true;
  if (what != OpClass::kView && drawer.dice().chance(2)) {
    line.attributes.push_back(fmt::format("\"reads\": {{{}: 1}}", line.inputs[0]));
  }
  return line;
}

}  // namespace fusecalc::testing
