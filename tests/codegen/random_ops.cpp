#include "codegen/random_ops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/random_drawer.hpp"
#include "core/error.hpp"
#include "graph/graph_text.hpp"

namespace fusecalc::testing {
namespace {

// A name that would end a string, a comment, a line or a format, as JSON.
std::string hostile(std::string_view kind, std::size_t number) {
  return fmt::format(R"("{}{}{}\"*/{{}};\n#error %s{}\\")", kind, kNameMark, number, "{0}");
}

constexpr std::array<std::uint64_t, 17> kAxisExtents = {
    1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 96, 128, 130, 1000, 1024, 4096, 30000};

}  // namespace

Drawer::Drawer(std::uint64_t seed, std::size_t ops) : dice_(seed), wanted_(ops) {
  constexpr std::array<DType, 14> kMain = {
      DType::kF32,     DType::kF32, DType::kF32, DType::kBf16, DType::kBf16,
      DType::kBf16,    DType::kF16, DType::kF16, DType::kF64,  DType::kTf32,
      DType::kFp8E4m3, DType::kI32, DType::kU8,  DType::kBf16};
  dtype_ = one_of(kMain);
  recent_ = dice_.chance(80);
  products_ = dice_.chance(35);
}

std::uint64_t Drawer::extent() {
  if (dice_.chance(1)) return 0;
  if (dice_.chance(1)) return 70001;
  return one_of(kAxisExtents);
}

Shape Drawer::shape() {
  constexpr std::array<std::size_t, 10> kRanks = {0, 1, 2, 2, 2, 3, 3, 4, 4, 5};
  Shape shape(one_of(kRanks));
  // Few ranks of large extents: more elements than 2^31 are rare, not the rule.
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] = i + 2 < shape.size() ? 1 + dice_.below(4) : extent();
  }
  return shape;
}

DType Drawer::any_dtype() {
  if (dice_.chance(85)) return dtype_;
  return static_cast<DType>(dice_.below(dtype_names().size()));
}

Shape Drawer::narrowed(Shape shape) {
  if (dice_.chance(40) && !shape.empty()) {
    shape.erase(shape.begin(),
                shape.begin() + static_cast<std::ptrdiff_t>(1 + dice_.below(shape.size())));
  }
  for (std::uint64_t& extent : shape) {
    if (dice_.chance(30)) extent = 1;
  }
  return shape;
}

Drawn Drawer::pick() {
  if (values_.empty() || dice_.chance(5)) return input(shape());
  const std::size_t reach = recent_ ? std::min<std::size_t>(values_.size(), 3) : values_.size();
  return values_[values_.size() - 1 - dice_.below(reach)];
}

Drawn Drawer::pick_ranked(std::size_t least_rank) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    Drawn value = pick();
    if (value.shape.size() >= least_rank) return value;
  }
  Shape wide = shape();
  while (wide.size() < least_rank) wide.push_back(extent());
  return input(wide);
}

Drawn Drawer::input(const Shape& shape, DType dtype) {
  const std::string name = hostile("in", tensors_.size());
  tensors_.push_back(fmt::format(R"({}: {{"shape": [{}], "dtype": "{}"}})", name,
                                 fmt::join(shape, ", "), name_of(dtype)));
  values_.push_back({name, shape, dtype});
  return values_.back();
}

Drawn Drawer::indices(const Shape& shape) {
  constexpr std::array<DType, 4> kTypes = {DType::kI32, DType::kI64, DType::kI16, DType::kU8};
  return input(shape, one_of(kTypes));
}

std::string Drawer::document() const {
  return fmt::format("{{\"dtype\": \"{}\", \"tensors\": {{{}}},\n \"ops\": [\n  {}]{}}}\n",
                     name_of(dtype_), fmt::join(tensors_, ",\n  "), fmt::join(ops_, ",\n  "),
                     outputs_);
}

bool Drawer::attempt(const OpRow& row, const Line& line) {
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < line.outputs; ++i) {
    outputs.push_back(hostile("out", made_.size() + i));
  }
  std::string more;
  for (const std::string& attribute : line.attributes) more += ", " + attribute;
  if (line.overwrites) {
    more += fmt::format(", \"inplace\": {{{}: {}}}", outputs[0], line.inputs[0]);
  }
  ops_.push_back(fmt::format(R"({{"name": {}, "op": "{}", "inputs": [{}], "outputs": [{}]{}}})",
                             hostile("op", ops_.size()), row.name, fmt::join(line.inputs, ", "),
                             fmt::join(outputs, ", "), more));
  try {
    graph_ = graph_of(document());
  } catch (const Error&) {
    ops_.pop_back();
    return false;
  }
  // Tensors come in the order of the document: declared ones first, then results.
  for (std::size_t i = 0; i < line.outputs; ++i) {
    const Tensor& tensor = graph_.tensors[graph_.tensors.size() - line.outputs + i];
    values_.push_back({outputs[i], tensor.type.shape, tensor.type.dtype});
    made_.push_back(outputs[i]);
  }
  return true;
}

const OpRow& Drawer::next_row() {
  if (products_ && ops_.size() < 2 && dice_.chance(60)) {
    constexpr std::array<std::string_view, 3> kProducts = {"matmul", "linear", "attention"};
    return *op_named(one_of(kProducts));
  }
  // Of those that are only counted a few are enough.
  for (;;) {
    const OpRow& row = op_table()[dice_.below(op_table().size())];
    if (row.has_kernel || dice_.chance(10)) return row;
  }
}

bool Drawer::add_op() {
  const std::vector<std::string> tensors = tensors_;
  const std::vector<Drawn> values = values_;
  const OpRow& row = next_row();
  if (attempt(row, propose(*this, row))) return true;
  tensors_ = tensors;
  values_ = values;
  return false;
}

RandomOps Drawer::draw() {
  for (std::size_t attempts = 0; ops_.size() < wanted_ && attempts < 20 * wanted_;) {
    if (!add_op()) ++attempts;
  }
  std::string text = document();
  if (dice_.chance(30)) {
    std::vector<std::string> names = {made_.back()};
    for (std::size_t i = 0; i + 1 < made_.size(); ++i) {
      if (dice_.chance(30)) names.push_back(made_[i]);
    }
    outputs_ = fmt::format(", \"outputs\": [{}]", fmt::join(names, ", "));
    try {
      graph_ = graph_of(document());
      text = document();
    } catch (const Error&) {  // what is overwritten can be no output: then as it was
    }
  }
  return {std::move(text), std::move(graph_)};
}

RandomOps random_ops(std::uint64_t seed, std::size_t ops) { return Drawer(seed, ops).draw(); }

}  // namespace fusecalc::testing
