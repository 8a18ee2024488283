#include "input/model_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/checked.hpp"
#include "graph/attribute_reader.hpp"
#include "graph/dim_expression.hpp"
#include "input/model_shapes.hpp"
#include "input/written_attention.hpp"
#include "input/written_pattern.hpp"

namespace fusecalc {
namespace {

// A row's rule refuses an op.
struct Refused {};

// An op list has no infinite numbers; the largest ones serve as well in masks and clamps. False if
// it is not a number.
bool make_finite(double& number) {
  constexpr double kMost = std::numeric_limits<double>::max();
  if (std::isnan(number)) return false;
  number = std::clamp(number, -kMost, kMost);
  return true;
}

}  // namespace

ModelType model_type(Shape shape, DType dtype) {
  ModelType type{.type = {std::move(shape), dtype}, .extents = {}};
  for (const std::uint64_t extent : type.shape()) {
    type.extents.emplace_back(static_cast<std::int64_t>(extent));
  }
  return type;
}

ModelGraph::ModelGraph(std::string document, PlaceNamer name_of_place) {
  model_.graph.document = std::move(document);
  model_.graph.name_of_place = std::move(name_of_place);
}

void ModelGraph::dim(const std::string& name, std::uint64_t extent) {
  if (!dims_.emplace(name, static_cast<std::int64_t>(extent)).second) return;
  model_.graph.dims.emplace_back(name, static_cast<std::int64_t>(extent));
}

std::int64_t ModelGraph::dim_value(const std::string& name) const {
  const auto found = dims_.find(name);
  if (found != dims_.end()) return found->second;
  if (!is_dim_expression(name)) throw Refused();
  return evaluate_dims(name, {.dim = [&](const std::string& part) { return dim_value(part); },
                              .fail = [](const std::string&) { throw Refused(); }});
}

WrittenDim ModelGraph::extent(const std::string& expression, std::int64_t value) const {
  try {
    if (dim_value(expression) == value) return expression;
  } catch (const Refused&) {
    // A value that the expression does not have is written as a number.
  }
  return value;
}

ModelGraph::TensorId ModelGraph::new_tensor(ModelType type, std::uint32_t producer) {
  tensors_.push_back({.type = std::move(type), .name = {}, .producer = producer});
  return static_cast<TensorId>(tensors_.size() - 1);
}

ModelGraph::TensorId ModelGraph::input(std::string name, ModelType type, KnownElements known) {
  const TensorId id = new_tensor(std::move(type), kNobody);
  tensors_[id].known = std::move(known);
  tensors_[id].name = std::move(name);
  return id;
}

void ModelGraph::name_result(TensorId tensor, std::string name) {
  Tensor& of = tensors_[tensor];
  if (is_input(tensor) || !of.given_name.empty()) return;
  if (ops_[of.producer].node + 1 == nodes_.size()) of.given_name = std::move(name);
}

ModelGraph::TensorId ModelGraph::below_views(TensorId tensor) const {
  while (!is_input(tensor) && ops_[tensors_[tensor].producer].row->op_class == OpClass::kView) {
    tensor = std::get<TensorId>(ops_[tensors_[tensor].producer].inputs[0]);
  }
  return tensor;
}

std::optional<ModelGraph::Shown> ModelGraph::shown(TensorId tensor) const {
  if (is_input(tensor)) return std::nullopt;
  const Op& op = ops_[tensors_[tensor].producer];
  const auto output =
      static_cast<std::size_t>(std::ranges::find(op.outputs, tensor) - op.outputs.begin());
  const auto* from = op.inputs.empty() ? nullptr : std::get_if<TensorId>(&op.inputs[0]);
  if (from == nullptr) return std::nullopt;
  if (op.row->name == "copy")
    return Shown{*from, StridedMap::of(
                            elements_between(type(*from).shape(), 0, type(*from).shape().size()))};
  if (output >= op.sources.size()) return std::nullopt;
  return Shown{*from, op.sources[output]};
}

// Whether a tensor holds all elements of its memory, in their order: only such a one can be updated
// in place.
bool ModelGraph::is_whole(const Input& input) const {
  const auto* tensor = std::get_if<TensorId>(&input);
  if (tensor == nullptr) return false;
  for (TensorId id = *tensor; !is_input(id);) {
    const Op& op = ops_[tensors_[id].producer];
    if (op.row->op_class != OpClass::kView) return true;
    if (op.row->family != OpFamily::kReshape) return false;
    id = std::get<TensorId>(op.inputs[0]);
  }
  return true;
}

// The types that the row's rule yields.
std::optional<ModelGraph::Inferred> ModelGraph::infer(const OpRow& row,
                                                      const std::vector<Input>& inputs,
                                                      const std::vector<WrittenAttribute>& written,
                                                      std::size_t outputs) const {
  if (inputs.size() < row.min_inputs || inputs.size() > row.max_inputs) return std::nullopt;
  if (outputs > row.max_outputs) return std::nullopt;
  std::vector<Inference::Input> typed;
  for (const Input& input : inputs) {
    if (const auto* number = std::get_if<double>(&input)) {
      typed.push_back({.name = {}, .number = *number});
      continue;
    }
    const TensorType& type = tensors_[std::get<TensorId>(input)].type.type;
    typed.push_back({.name = {},
                     .type = &type,
                     .elements = elements_between(type.shape, 0, type.shape.size())});
  }
  Attributes attributes;
  const AttributeScope scope{.dim = [&](const std::string& name) { return dim_value(name); },
                             .fail = [](const std::string&) { throw Refused(); }};
  try {
    for (const WrittenAttribute& attribute : written) {
      const std::optional<Attribute> known = attribute_named(attribute.name);
      if (!known || (row.attributes & only(*known)) == 0) return std::nullopt;
      set_attribute(attributes, *known, attribute.value, scope);
    }
    Inference inference(row, attributes, std::move(typed), outputs, DType::kF32,
                        [](const RefusedPart&, const std::string&) { throw Refused(); });
    infer_results(inference);
    if (inference.outputs.size() < outputs) return std::nullopt;
    if (inference.inplace_input && !is_whole(inputs[*inference.inplace_input])) return std::nullopt;
    return Inferred{std::move(inference.outputs), std::move(inference.sources)};
  } catch (const Refused&) {
    return std::nullopt;
  }
}

std::optional<std::vector<ModelGraph::TensorId>> ModelGraph::op(
    std::string_view name, std::vector<Input> inputs, std::vector<WrittenAttribute> attributes,
    std::span<const ModelType> types) {
  const OpRow* row = op_named(name);
  if (row == nullptr || row->family == OpFamily::kCustom) return std::nullopt;
  for (WrittenAttribute& attribute : attributes) {
    auto* number = std::get_if<double>(&attribute.value);
    if (number != nullptr && !make_finite(*number)) return std::nullopt;
  }
  for (Input& input : inputs) {
    auto* number = std::get_if<double>(&input);
    if (number != nullptr && !make_finite(*number)) return std::nullopt;
  }
  auto inferred = infer(*row, inputs, attributes, types.size());
  if (!inferred) return std::nullopt;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool same_dtype = inferred->outputs[i].dtype == types[i].dtype();
    if (inferred->outputs[i].shape != types[i].shape()) return std::nullopt;
    if (row->op_class == OpClass::kView && !same_dtype) return std::nullopt;
  }
  const bool reads_floats = std::ranges::any_of(inputs, [&](const Input& input) {
    const auto* tensor = std::get_if<TensorId>(&input);
    return tensor != nullptr && is_float(tensors_[*tensor].type.dtype());
  });
  Op op{.row = row,
        .node = static_cast<NodeId>(nodes_.size() - 1),
        .inputs = std::move(inputs),
        .outputs = {},
        .attributes = std::move(attributes),
        .custom = {},
        .sources = std::move(inferred->sources)};
  for (std::size_t i = 0; i < types.size(); ++i) {
    op.outputs.push_back(new_tensor(types[i], static_cast<std::uint32_t>(ops_.size())));
    // What is computed from integers or numbers alone follows the list's dtype, which is not known
    // yet.
    tensors_.back().pinned_dtype = inferred->outputs[i].dtype != types[i].dtype() ||
                                   (is_float(types[i].dtype()) && !reads_floats);
  }
  std::vector<TensorId> outputs = op.outputs;
  ops_.push_back(std::move(op));
  find_patterns(row->family, outputs.front());
  return outputs;
}

void ModelGraph::find_patterns(OpFamily family, TensorId last) {
  if (family == OpFamily::kMatmul) find_written_attention(*this, last);
  if (family == OpFamily::kCast) {
    find_narrow_pattern(*this, last);
    find_narrow_rotary(*this, last);
  }
  if (family == OpFamily::kConcat) find_written_rotary(*this, last);
  if (family == OpFamily::kReduce) find_sum_of_rows(*this, last);
  if (family != OpFamily::kPointwise) return;
  find_written_rotary(*this, last);
  find_written_norm(*this, last);
  find_written_activation(*this, last);
}

std::optional<std::vector<ModelGraph::TensorId>> ModelGraph::op(
    std::string_view name, std::vector<Input> inputs, std::vector<WrittenAttribute> attributes,
    std::size_t outputs) {
  const OpRow* row = op_named(name);
  if (row == nullptr || row->family == OpFamily::kCustom) return std::nullopt;
  const auto inferred = infer(*row, inputs, attributes, outputs);
  if (!inferred) return std::nullopt;
  std::vector<ModelType> types;
  for (std::size_t i = 0; i < outputs; ++i) {
    types.push_back(model_type(inferred->outputs[i].shape, inferred->outputs[i].dtype));
  }
  return op(name, std::move(inputs), std::move(attributes), types);
}

std::optional<ModelGraph::TensorId> ModelGraph::op(std::string_view row, std::vector<Input> inputs,
                                                   std::vector<WrittenAttribute> attributes,
                                                   const ModelType& type) {
  const auto outputs =
      op(row, std::move(inputs), std::move(attributes), std::span<const ModelType>(&type, 1));
  return outputs ? std::optional(outputs->front()) : std::nullopt;
}

std::vector<ModelGraph::TensorId> ModelGraph::custom(const std::vector<TensorId>& inputs,
                                                     std::span<const ModelType> types,
                                                     const Custom& custom) {
  Op op{.row = op_named("custom"),
        .node = static_cast<NodeId>(nodes_.size() - 1),
        .inputs = {inputs.begin(), inputs.end()},
        .outputs = {},
        .attributes = {},
        .custom = custom};
  if (op.custom.overwrites && !is_whole(op.inputs[0])) {
    op.custom.overwrites.reset();
    op.custom.reads.clear();
  }
  for (const ModelType& type : types) {
    op.outputs.push_back(new_tensor(type, static_cast<std::uint32_t>(ops_.size())));
    tensors_.back().pinned_shape = tensors_.back().pinned_dtype = true;
  }
  ops_.push_back(std::move(op));
  return ops_.back().outputs;
}

std::optional<ModelGraph::Origin> ModelGraph::written_by(TensorId tensor,
                                                         std::string_view row) const {
  const std::uint32_t producer = tensors_[tensor].producer;
  if (producer == kNobody || ops_[producer].row->name != row) return std::nullopt;
  return Origin{ops_[producer].inputs, ops_[producer].attributes};
}

// The name itself, or with a number where it is taken.
std::string ModelGraph::unused(const std::string& name) {
  std::uint32_t& wanted = names_[name];
  if (++wanted == 1) return name;
  for (;; ++wanted) {
    std::string numbered = fmt::format("{}_{}", name, wanted);
    if (names_.emplace(numbered, 1).second) return numbered;
  }
}

void ModelGraph::count(const std::vector<bool>& needed) {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    NodeState& node = nodes_[ops_[i].node];
    ++node.ops;
    if (!needed[i]) continue;
    ++node.kept;
    node.moves = node.moves || ops_[i].row->op_class != OpClass::kView;
    node.missing = node.missing || ops_[i].row->family == OpFamily::kCustom;
  }
  ModelOrigin& origin = model_.origin;
  origin.nodes = nodes_.size();
  for (const NodeState& node : nodes_) {
    if (node.missing) {
      ++origin.opaque;
    } else if (node.moves || node.joined) {
      ++origin.exact;
    } else if (node.folded || (node.ops != 0 && node.kept == 0)) {
      ++origin.folded;
    } else {
      ++origin.views;
    }
  }
}

// An op has the name that the file gives to its first result. Without one, the last op that a node
// keeps has the node's name, the others that of their row, too.
WrittenOp ModelGraph::write(const Op& op, bool last) {
  const Node& node = nodes_[op.node].node;
  WrittenOp written;
  written.op = op.row->name;
  written.source = op.node;
  const std::string& first = tensors_[op.outputs[0]].given_name;
  const std::string name = unused(!first.empty() ? first
                                  : last         ? node.name
                                                 : node.name + "." + std::string(op.row->name));
  written.name = name;
  if (!node.scope.empty()) written.scope = node.scope;
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    Tensor& tensor = tensors_[op.outputs[i]];
    const std::string& given = tensor.given_name;
    tensor.name = i == 0 ? name : unused(given.empty() ? fmt::format("{}.{}", name, i) : given);
    written.outputs.push_back(tensor.name);
  }
  for (const Input& input : op.inputs) {
    const auto* tensor = std::get_if<TensorId>(&input);
    if (tensor != nullptr) {
      written.inputs.emplace_back(tensors_[*tensor].name);
    } else {
      written.inputs.emplace_back(std::get<double>(input));
    }
  }
  written.attributes = op.attributes;
  if (op.row->family != OpFamily::kCustom) return written;
  model_.origin.missing.push_back({node.target, model_.graph.ops.size()});
  if (op.custom.op_class != OpClass::kOpaque) {
    written.op_class = std::string(name_of(op.custom.op_class));
  }
  if (op.custom.flops > 0) written.flops = op.custom.flops;
  for (const auto& [tensor, elements] : op.custom.reads) {
    written.reads.emplace_back(tensors_[tensor].name, elements);
  }
  if (op.custom.overwrites) {
    written.writes.emplace_back(name, *op.custom.overwrites);
    written.inplace.emplace_back(name, tensors_[std::get<TensorId>(op.inputs[0])].name);
  }
  return written;
}

// The dtype of most tensors that state theirs.
DType ModelGraph::commonest_dtype() const {
  std::map<DType, std::size_t> counts;
  for (const Tensor& tensor : tensors_) {
    if (!tensor.name.empty()) ++counts[tensor.type.dtype()];
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return most == counts.end() ? DType::kF32 : most->first;
}

void ModelGraph::write_tensors(const std::vector<bool>& needed) {
  const DType common = commonest_dtype();
  model_.graph.dtype = std::string(name_of(common));
  std::vector<bool> used(tensors_.size(), false);
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (!needed[i]) continue;
    for (const TensorId output : ops_[i].outputs) used[output] = true;
    for (const Input& input : ops_[i].inputs) {
      if (const auto* tensor = std::get_if<TensorId>(&input)) used[*tensor] = true;
    }
  }
  for (TensorId id = 0; id < tensors_.size(); ++id) {
    const Tensor& tensor = tensors_[id];
    const bool whole = is_input(id) || tensor.pinned_shape;
    if (!used[id] || (!whole && !tensor.pinned_dtype)) continue;
    WrittenTensor written{.name = tensor.name, .shape = {}, .dtype = {}};
    if (whole) written.shape = tensor.type.extents;
    if (!whole || tensor.type.dtype() != common) {
      written.dtype = std::string(name_of(tensor.type.dtype()));
    }
    model_.graph.tensors.push_back(std::move(written));
  }
}

// What is left out: an output named twice, and an input that is passed through.
void ModelGraph::write_outputs() {
  std::vector<std::string>& names = model_.graph.outputs.emplace();
  std::vector<bool> named(tensors_.size(), false);
  for (const TensorId output : outputs_) {
    if (is_input(below_views(output)) || named[output]) continue;
    named[output] = true;
    names.push_back(tensors_[output].name);
  }
  if (names.empty()) model_.graph.outputs.reset();
}

Model ModelGraph::finish() {
  choose_alternatives();
  join_casts();
  const std::vector<bool> needed = needed_ops();
  count(needed);
  for (Tensor& tensor : tensors_) {
    if (tensor.producer == kNobody) tensor.name = unused(tensor.name);
  }
  std::vector<std::size_t> last(nodes_.size(), 0);
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (needed[i]) last[ops_[i].node] = i;
  }
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    if (needed[i]) model_.graph.ops.push_back(write(ops_[i], last[ops_[i].node] == i));
  }
  write_tensors(needed);
  write_outputs();
  return std::move(model_);
}

std::optional<ModelGraph::TensorId> reshaped(ModelGraph& graph, ModelGraph::TensorId tensor,
                                             const ModelType& type) {
  if (const auto origin = graph.written_by(tensor, "reshape")) {
    tensor = std::get<ModelGraph::TensorId>(origin->inputs[0]);
  }
  if (graph.type(tensor).shape() == type.shape()) return tensor;
  return graph.op("reshape", {tensor}, {listed("shape", type.extents)}, type);
}

}  // namespace fusecalc
