#include "input/pt2/importer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "input/pt2/aten.hpp"
#include "input/pt2/module_names.hpp"

namespace fusecalc {
namespace {

using Kind = ProgramArgument::Kind;

struct ScalarType {
  std::int64_t code;  // torch/_export/serde/schema.py
  DType dtype;
};

// Complex numbers count as real ones of twice the size, unsigned ones as signed ones.
constexpr std::array kScalarTypes = {
    ScalarType{1, DType::kU8},       ScalarType{2, DType::kI8},
    ScalarType{3, DType::kI16},      ScalarType{4, DType::kI32},
    ScalarType{5, DType::kI64},      ScalarType{6, DType::kF16},
    ScalarType{7, DType::kF32},      ScalarType{8, DType::kF64},
    ScalarType{9, DType::kF32},      ScalarType{10, DType::kF64},
    ScalarType{11, DType::kF64},     ScalarType{12, DType::kBool},
    ScalarType{13, DType::kBf16},    ScalarType{28, DType::kI16},
    ScalarType{29, DType::kFp8E4m3}, ScalarType{30, DType::kFp8E5m2},
    ScalarType{31, DType::kFp8E4m3}, ScalarType{32, DType::kFp8E5m2},
    ScalarType{33, DType::kU8},      ScalarType{34, DType::kI32},
    ScalarType{35, DType::kI64},
};

// Higher-order ops that run a graph once, as it is.
constexpr std::array<std::string_view, 6> kInlined = {
    "wrap_with_set_grad_enabled", "wrap_with_autocast", "wrap",
    "tag_activation_checkpoint",  "invoke_subgraph",    "hints_wrapper",
};

// Ops whose operands autocast narrows.
constexpr std::array<std::string_view, 14> kProducts = {
    "linear",
    "matmul",
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "convolution",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "scaled_dot_product_attention",
};

// The real and imaginary parts of complex types.
constexpr std::array kComplexTypes = {ScalarType{9, DType::kF16}, ScalarType{10, DType::kF32},
                                      ScalarType{11, DType::kF64}};

std::string place_name(const WrittenGraph& graph, const WrittenPlace& place) {
  using Part = WrittenPlace::Part;
  switch (place.part) {
    case Part::kGraph:
    case Part::kDtype:
    case Part::kGraphOutputs:
    case Part::kGraphOutput:
    case Part::kFuseGroup:
    case Part::kFuseMember: return "";
    case Part::kTensor:
    case Part::kShape:
    case Part::kExtent:
    case Part::kTensorDtype: return "tensor " + in_quotes(graph.tensors[place.index].name);
    default: return "node " + in_quotes(graph.ops[place.index].name.value_or(""));
  }
}

void collect_sizes(const ProgramGraph& graph, std::vector<const ProgramInt*>& sizes) {
  for (const auto& [name, tensor] : graph.tensors) {
    for (const ProgramInt& size : tensor.sizes) sizes.push_back(&size);
  }
  for (const auto& [name, size] : graph.ints) sizes.push_back(&size);
}

std::vector<const ProgramInt*> sizes_of(const ProgramGraph& graph) {
  std::vector<const ProgramInt*> sizes;
  collect_sizes(graph, sizes);
  return sizes;
}

std::vector<std::string_view> tensors_of(const std::vector<ProgramArgument>& arguments) {
  std::vector<std::string_view> names;
  for (const ProgramArgument& argument : arguments) {
    for (const std::string& name : argument.tensors) {
      if (!name.empty()) names.emplace_back(name);
    }
  }
  return names;
}

// Whether a node calls an op that is not PyTorch's own, on tensors.
bool is_foreign(const ProgramNode& node) {
  constexpr std::string_view kOps = "torch.ops.";
  constexpr std::array<std::string_view, 4> kOwn = {"aten.", "prims.", "prim.", "higher_order."};
  std::string_view target = node.target;
  if (!target.starts_with(kOps)) return false;
  target.remove_prefix(kOps.size());
  return std::ranges::none_of(kOwn, [&](auto own) { return target.starts_with(own); }) &&
         !tensors_of(node.inputs).empty();
}

}  // namespace

std::string_view op_of(std::string_view target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps)) return {};
  target.remove_prefix(kOps.size());
  target.remove_prefix(std::min(target.size(), target.find('.') + 1));
  return target.substr(0, target.find('.'));
}

bool is_in_place(std::string_view op) { return op.ends_with('_') && !op.ends_with("__"); }

Pt2Importer::Pt2Importer(const ExportedProgram& program, const std::string& document,
                         const std::vector<DimOverride>& dims)
    : program_(program),
      document_(document),
      graph_(document, place_name),
      symbols_(sizes_of(program.graph), program.ranges, dims, document) {}

void Pt2Importer::fail(const ProgramNode* node, const std::string& message) const {
  std::string place;
  if (node != nullptr) {
    const std::vector<std::string_view> outputs = tensors_of(node->outputs);
    const std::string_view name = outputs.empty() ? std::string_view(node->target) : outputs[0];
    place = fmt::format("node {}: ", in_quotes(name));
  }
  throw Error(Fault::kBadInput, fmt::format("{}: {}{}", document_, place, message));
}

std::int64_t Pt2Importer::size_value(const ProgramInt& size) {
  const std::optional<std::int64_t> value = symbols_.value(size);
  if (!value) fail(nullptr, "the size " + in_quotes(size.expression) + " has no known value");
  return *value;
}

// Symbols become dims; what is calculated from them is written as it is, where an op list can.
WrittenDim Pt2Importer::size_text(const ProgramInt& size) {
  const std::int64_t value = size_value(size);
  if (size.expression.empty()) return value;
  const std::optional<SizeExpression> expression = parse_size_expression(size.expression);
  const std::optional<std::string> text = expression ? dim_text(*expression) : std::nullopt;
  if (!text) return value;
  std::vector<std::string> symbols;
  collect_symbols(*expression, symbols);
  for (const std::string& symbol : symbols) {
    graph_.dim(symbol, static_cast<std::uint64_t>(symbols_.value(symbol).value_or(0)));
  }
  return graph_.extent(*text, value);
}

const ProgramTensor& Pt2Importer::meta_of(std::size_t frame, const std::string& name) const {
  const auto& tensors = frames_[frame].graph->tensors;
  const auto found = tensors.find(name);
  if (found == tensors.end()) fail(nullptr, "tensor " + in_quotes(name) + " has no type");
  return found->second;
}

const ModelType& Pt2Importer::type_of(std::size_t frame, const std::string& name) {
  auto& types = frames_[frame].types;
  const auto known = types.find(name);
  if (known != types.end()) return known->second;
  const ProgramTensor& meta = meta_of(frame, name);
  const auto* scalar = std::ranges::find(kScalarTypes, meta.dtype, &ScalarType::code);
  const std::string what = "tensor " + in_quotes(name);
  if (scalar == kScalarTypes.end()) {
    fail(nullptr, fmt::format("{}: elements of type {} are not read", what, meta.dtype));
  }
  ModelType type{.type = {{}, scalar->dtype}, .extents = {}};
  for (const ProgramInt& size : meta.sizes) {
    const std::int64_t value = size_value(size);
    if (value < 0) fail(nullptr, fmt::format("{}: an extent is {}", what, value));
    type.type.shape.push_back(static_cast<std::uint64_t>(value));
    type.extents.push_back(size_text(size));
  }
  const std::optional<std::uint64_t> elements = checked_elements(type.shape());
  if (!elements || !checked_bytes_of(scalar->dtype, *elements)) {
    fail(nullptr, fmt::format("{} of shape {} is more than {} bytes", what, to_string(type.shape()),
                              kMaxCount));
  }
  // The key is the graph's own, which lives as long as the program.
  const std::string& key = frames_[frame].graph->tensors.find(name)->first;
  return types.emplace(key, std::move(type)).first->second;
}

std::optional<ModelType> Pt2Importer::pairs_of(std::size_t frame, const std::string& name) {
  const auto* complex =
      std::ranges::find(kComplexTypes, meta_of(frame, name).dtype, &ScalarType::code);
  if (complex == kComplexTypes.end()) return std::nullopt;
  ModelType pairs = type_of(frame, name);
  pairs.type.shape.push_back(2);
  pairs.extents.emplace_back(std::int64_t{2});
  pairs.type.dtype = complex->dtype;
  const auto elements = checked_elements(pairs.shape());
  if (!elements || !checked_bytes_of(pairs.dtype(), *elements)) {
    fail(nullptr, fmt::format("tensor {} of shape {} is more than {} bytes", in_quotes(name),
                              to_string(type_of(frame, name).shape()), kMaxCount));
  }
  return pairs;
}

std::vector<std::int64_t> Pt2Importer::strides_of(std::size_t frame, const std::string& name) {
  std::vector<std::int64_t> strides;
  for (const ProgramInt& stride : meta_of(frame, name).strides) {
    strides.push_back(symbols_.value(stride).value_or(0));
  }
  return strides;
}

std::int64_t Pt2Importer::int_value(std::size_t frame, const ProgramArgument::Int& value) {
  if (value.name.empty()) return value.value;
  const auto& ints = frames_[frame].graph->ints;
  const auto found = ints.find(value.name);
  if (found == ints.end()) fail(nullptr, "size " + in_quotes(value.name) + " has no value");
  return size_value(found->second);
}

std::size_t Pt2Importer::open_frame(const ProgramGraph& graph) {
  Frame& frame = frames_.emplace_back(Frame{.graph = &graph});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::string_view name : tensors_of(graph.nodes[i].inputs)) frame.last_read[name] = i;
  }
  for (const std::string_view name : tensors_of(graph.outputs)) {
    frame.last_read[name] = graph.nodes.size();
  }
  return frames_.size() - 1;
}

ValueId Pt2Importer::bind(std::size_t frame, std::string_view name, ProgramValue value) {
  const auto id = static_cast<ValueId>(bindings_.size());
  bindings_.push_back(
      {.value = std::move(value), .storage = static_cast<std::uint32_t>(storages_.size())});
  storages_.push_back({.base = id});
  frames_[frame].names.insert_or_assign(name, id);
  return id;
}

// All elements of a value as a tensor.
ModelGraph::TensorId Pt2Importer::tensor(ValueId id) {
  ProgramValue& value = bindings_[id].value;
  if (value.tensor != ProgramValue::kNoTensor) return value.tensor;
  if (value.pairs != ProgramValue::kNoTensor) {
    value.tensor = graph_.custom({value.pairs}, std::span(&value.type, 1),
                                 {.op_class = OpClass::kMovement})[0];
    return value.tensor;
  }
  if (value.number) {
    auto constant = filled(graph_, value.type, *value.number);
    if (!constant) {
      constant = graph_.custom({}, std::span(&value.type, 1), {.op_class = OpClass::kMovement})[0];
    }
    value.tensor = *constant;
    return value.tensor;
  }
  const std::vector<WrittenAttribute> attributes = {listed("shape", value.type.extents)};
  auto expanded = graph_.op("expand_view", {value.base}, attributes, value.type);
  if (!expanded) expanded = graph_.op("broadcast_to", {value.base}, attributes, value.type);
  if (!expanded) {
    expanded =
        graph_.custom({value.base}, std::span(&value.type, 1), {.op_class = OpClass::kMovement})[0];
  }
  value.tensor = *expanded;
  return value.tensor;
}

void Pt2Importer::read_inputs() {
  std::unordered_map<std::string_view, std::string_view> names;
  for (const ProgramInput& input : program_.inputs) names.emplace(input.tensor, input.name);
  for (const ProgramArgument& argument : program_.graph.inputs) {
    for (const std::string& name : argument.tensors) {
      if (name.empty()) continue;
      const auto known = names.find(name);
      const bool named = known != names.end() && !known->second.empty();
      ProgramValue value{.type = type_of(0, name), .strides = strides_of(0, name)};
      const std::string_view stated = named ? known->second : std::string_view(name);
      const std::string own(stated);
      if (const auto pairs = pairs_of(0, name)) {
        value.pairs = graph_.input(own, *pairs);
      } else {
        value.tensor = graph_.input(own, value.type);
      }
      if (std::ranges::find(program_.outputs, stated, &ProgramOutput::mutates) !=
          program_.outputs.end()) {
        mutated_.insert(value.tensor);
      }
      const ModelGraph::TensorId tensor = value.tensor;
      inputs_.push_back({.name = stated, .own = tensor, .value = bind(0, name, std::move(value))});
    }
  }
}

// Runs the graph that a node calls in place of the node.
bool Pt2Importer::inline_graph(std::size_t frame, const ProgramNode& node) {
  const auto graph = std::ranges::find(node.inputs, Kind::kGraph, &ProgramArgument::kind);
  if (graph == node.inputs.end()) return false;
  if (std::ranges::find(kInlined, op_of(node.target)) == kInlined.end()) return false;
  const ProgramGraph& inner = *graph->graph;
  std::vector<std::string> given;
  for (auto argument = graph + 1; argument != node.inputs.end(); ++argument) {
    given.insert(given.end(), argument->tensors.begin(), argument->tensors.end());
  }
  const std::vector<std::string_view> taken = tensors_of(inner.inputs);
  const std::vector<std::string_view> made = tensors_of(inner.outputs);
  const std::vector<std::string_view> results = tensors_of(node.outputs);
  if (given.size() != taken.size() || made.size() != results.size()) {
    fail(&node, "the graph that it calls has other inputs or outputs");
  }
  const std::size_t inside = open_frame(inner);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    frames_[inside].names.emplace(taken[i], lookup(frame, &node, given[i]));
  }
  for (const ProgramNode& inner_node : inner.nodes) read_node(inside, inner_node);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const ValueId id = lookup(inside, &node, std::string(made[i]));
    frames_[frame].names.insert_or_assign(results[i], id);
  }
  return true;
}

void Pt2Importer::read_node(std::size_t frame, const ProgramNode& node) {
  if (inline_graph(frame, node)) return;
  std::string_view op = op_of(node.target);
  graph_.begin_node(named_node(node.modules, node.target, op));
  if (read_lists(frame, node)) return;
  if (tensors_of(node.outputs).empty() && is_foreign(node)) {
    return make_overwriting(AtenCall(*this, frame, node));
  }
  if (op.empty() || tensors_of(node.outputs).empty()) {
    graph_.fold_node();
    return;
  }
  call(frame, node);
}

// Before it is decomposed, a program does not show the casts of autocast: products have operands
// that are wider than their results. Names that stand for casts, with what they stood for.
std::vector<std::pair<std::string_view, ValueId>> Pt2Importer::cast_operands(
    std::size_t frame, const ProgramNode& node) {
  std::vector<std::pair<std::string_view, ValueId>> wide;
  if (std::ranges::find(kProducts, op_of(node.target)) == kProducts.end()) return wide;
  const DType narrow = type_of(frame, std::string(tensors_of(node.outputs)[0])).dtype();
  for (const std::string_view name : tensors_of(node.inputs)) {
    const ValueId id = lookup(frame, &node, std::string(name));
    ModelType type = bindings_[id].value.type;
    const bool floats = is_float(type.dtype()) && is_float(narrow);
    const bool wider = floats && bytes_of(type.dtype(), 1) > bytes_of(narrow, 1);
    if (!wider || bindings_[id].value.number) continue;
    type.type.dtype = narrow;
    const auto cast = graph_.op("cast", {tensor(id)},
                                {{.name = "to", .value = std::string(name_of(narrow))}}, type);
    if (!cast) continue;
    wide.emplace_back(name, id);
    bind(frame, name, {.type = type, .strides = bindings_[id].value.strides, .tensor = *cast});
  }
  return wide;
}

void Pt2Importer::call(std::size_t frame, const ProgramNode& node) {
  std::string_view op = op_of(node.target);
  const bool in_place = is_in_place(op);
  if (in_place) op.remove_suffix(1);
  const AtenCall call(*this, frame, node);
  // Before the rule: the result of a call of a list has the name of what it overwrites.
  const std::optional<ValueId> target = in_place ? call.value("self") : std::nullopt;
  const auto wide = cast_operands(frame, node);
  if (!apply_aten_rule(call, op)) make_custom(call, op);
  for (const auto& [name, id] : wide) frames_[frame].names.insert_or_assign(name, id);
  if (!target) return;
  const std::string_view result = tensors_of(node.outputs)[0];
  const ValueId made = lookup(frame, &node, std::string(result));
  // What only looks at memory in another way, as unsqueeze_ or detach_, overwrites nothing.
  if (bindings_[made].storage == bindings_[*target].storage) return;
  write_back(*target, tensor(made));
  frames_[frame].names.insert_or_assign(result, *target);
}

// Its inputs and outputs move once.
void Pt2Importer::make_custom(const AtenCall& call, std::string_view op) {
  std::vector<ModelGraph::TensorId> inputs;
  const bool makes_alike = op.ends_with("_like");  // from the shape of its operand alone
  for (const ValueId id : call.all_values()) {
    const ProgramValue& value = call.at(id);
    if (value.number || makes_alike) continue;
    const bool pairs = value.pairs != ProgramValue::kNoTensor;
    const bool broadcast = value.base != ProgramValue::kNoTensor;
    const ModelGraph::TensorId source = pairs ? value.pairs : broadcast ? value.base : tensor(id);
    if (std::ranges::find(inputs, source) == inputs.end()) inputs.push_back(source);
  }
  std::vector<ModelType> types;
  for (std::size_t i = 0; i < call.results(); ++i) {
    types.push_back(call.pairs(i).value_or(call.type(i)));
  }
  const auto outputs = graph_.custom(inputs, types, {.op_class = aten_class(op)});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (call.pairs(i)) {
      call.set_pairs(i, outputs[i]);
    } else {
      call.set(i, outputs[i]);
    }
  }
}

// A custom op without results is called for what it writes. Which of its operands that is the file
// does not say: the first, by custom, and all of it.
void Pt2Importer::make_overwriting(const AtenCall& call) {
  const std::vector<ValueId> values = call.all_values();
  std::vector<ModelGraph::TensorId> operands;
  for (const ValueId id : values) {
    const ModelGraph::TensorId operand = tensor(id);
    if (std::ranges::find(operands, operand) == operands.end()) operands.push_back(operand);
  }
  const ModelType type = graph_.type(operands.front());
  write_back(values.front(), graph_.custom(operands, std::span(&type, 1), {})[0]);
}

// Another input's elements, or a part of them, are copied; what was computed is written there.
void Pt2Importer::write_input(const GraphInput& input, ModelGraph::TensorId holds) {
  const ModelGraph::TensorId from = graph_.below_views(holds);
  if (graph_.is_input(from) && from != input.own) {
    graph_.begin_node({.target = "torch.ops.aten.copy_.default",
                       .name = std::string(input.name) + ".copy",
                       .scope = ""});
    const ModelType type = graph_.type(holds);
    holds = graph_.op("copy", {holds}, {}, type).value_or(holds);
  }
  graph_.output(holds);
}

// The program's outputs, and the inputs that it has overwritten.
void Pt2Importer::read_outputs() {
  const std::vector<std::string_view> names = tensors_of(program_.graph.outputs);
  std::vector<const ProgramOutput*> stated;  // of those that are tensors
  for (const ProgramOutput& output : program_.outputs) {
    if (!output.tensor.empty()) stated.push_back(&output);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ValueId id = lookup(0, nullptr, std::string(names[i]));
    const ModelGraph::TensorId pairs = bindings_[id].value.pairs;
    const auto input = std::ranges::find_if(inputs_, [&](const GraphInput& each) {
      return stated.size() == names.size() && each.name == stated[i]->mutates;
    });
    if (pairs != ProgramValue::kNoTensor) {
      graph_.output(pairs);
    } else if (input != inputs_.end()) {
      write_input(*input, tensor(id));
    } else {
      graph_.output(tensor(id));
    }
  }
  for (const GraphInput& input : inputs_) {
    if (storages_[bindings_[input.value].storage].version != 0) {
      write_input(input, tensor(input.value));
    }
  }
}

Model Pt2Importer::run() {
  open_frame(program_.graph);
  read_inputs();
  for (const ProgramNode& node : program_.graph.nodes) read_node(0, node);
  read_outputs();
  Model model = graph_.finish();
  model.origin.unstated = symbols_.unstated();
  return model;
}

}  // namespace fusecalc
