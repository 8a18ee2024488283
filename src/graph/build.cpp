// From a written graph to a valid one.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/attribute_reader.hpp"
#include "graph/op_graph.hpp"

namespace fusecalc {
namespace {

using NameIndex = std::unordered_map<std::string_view, std::uint32_t>;

class GraphBuilder {
 public:
  GraphBuilder(const WrittenGraph& written, const std::vector<DimOverride>& overrides)
      : written_(written) {
    graph_.document = written.document;
    graph_.name = written.name;
    resolve_dims(overrides);
  }

  OpGraph build() {
    if (written_.dtype) default_dtype_ = dtype_at("/dtype", *written_.dtype);
    declare_tensors();
    declare_ops();
    for (const std::uint32_t position : run_order()) build_op(position);
    refuse_stray_pins();
    link_overwrites();
    sort_ops();
    mark_outputs();
    resolve_fuse();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(std::string_view pointer, const std::string& message) const {
    throw Error(Fault::kBadInput, fmt::format("{}: {}{}{}", written_.document, printable(pointer),
                                              pointer.empty() ? "" : ": ", message));
  }
  static std::string at_op(std::size_t position) { return fmt::format("/ops/{}", position); }
  static std::string place_of(const std::string& attribute, bool grouped) {
    return (grouped ? "/attrs/" : "/") + pointer_token(attribute);
  }
  // Where a rule's place within an op, "/axes", stands in the document: perhaps at "/attrs/axis".
  static std::string written_place(const WrittenOp& op, std::string_view place);
  static std::string at_output(const WrittenOp& op, std::size_t position, std::size_t i) {
    return op.one_output ? at_op(position) + "/output"
                         : fmt::format("{}/outputs/{}", at_op(position), i);
  }

  // "unknown WHAT "x" (did you mean "y"?)".
  static std::string unknown(std::string_view what, std::string_view name, const NameIndex& known) {
    std::vector<std::string_view> names;
    for (const auto& [key, id] : known) names.push_back(key);
    std::ranges::sort(names);
    return fmt::format("unknown {} {}{}", what, in_quotes(name), did_you_mean(name, names));
  }

  DType dtype_at(const std::string& pointer, const std::string& name) const {
    const std::optional<DType> dtype = dtype_named(name);
    if (!dtype) fail(pointer, unknown_dtype(name));
    return *dtype;
  }

  void resolve_dims(const std::vector<DimOverride>& overrides);
  std::int64_t dim(const std::string& pointer, const std::string& name) const;
  void declare_tensors();
  void declare_ops();
  void refuse_taken_defaults() const;
  std::vector<std::uint32_t> run_order() const;
  [[noreturn]] void fail_cycle(const std::vector<std::uint32_t>& waiting) const;
  TensorId input_at(std::size_t position, std::size_t i, const std::string& name) const;
  void build_op(std::uint32_t position);
  void build_custom(const WrittenOp& written, Op& op);
  void infer(const WrittenOp& written, Op& op, Inference& inference);
  Attributes read_attributes(const WrittenOp& written, const Op& op) const;
  void add_output(const WrittenOp& written, Op& op, std::size_t i, TensorType type);
  void add_view(const WrittenOp& written, const Op& op, TensorType type);
  void apply_partial(const WrittenOp& written, Op& op) const;
  void apply_inplace(const WrittenOp& written, const Op& op);
  void live_in(const std::string& pointer, TensorId output, TensorId storage, OpId writer);
  void count_flops(const Op& op, std::uint64_t& flops) const;
  void refuse_stray_pins() const;
  void link_overwrites();
  void sort_ops();
  void mark_outputs();
  void resolve_fuse();
  void set_type(TensorId id, TensorType type, const std::string& pointer);

  const WrittenGraph& written_;
  OpGraph graph_;
  DType default_dtype_ = DType::kF32;
  std::unordered_map<std::string_view, std::uint64_t> dims_;
  NameIndex tensor_ids_;
  NameIndex op_positions_;
  // Per tensor: the position of the op that writes it, and what the document declares of it.
  std::vector<std::uint32_t> writer_;
  std::vector<const WrittenTensor*> declared_;
  // Per value: the op that overwrites it in place.
  std::unordered_map<TensorId, OpId> overwritten_by_;
  std::vector<OpId> op_at_position_;
};

void GraphBuilder::resolve_dims(const std::vector<DimOverride>& overrides) {
  for (const auto& [name, extent] : written_.dims) dims_.emplace(name, extent);
  for (const DimOverride& override : overrides) {
    const auto found = dims_.find(override.name);
    if (found == dims_.end()) {
      std::vector<std::string_view> names;
      for (const auto& [name, extent] : written_.dims) names.push_back(name);
      std::string hint = did_you_mean(override.name, names);
      if (hint.empty() && names.empty()) hint = " (the list names no dims)";
      if (hint.empty()) hint = " (known: " + listed(names) + ")";
      fail("", fmt::format("--dim: unknown dim {}{}", in_quotes(override.name), hint));
    }
    found->second = override.extent;
  }
}

std::int64_t GraphBuilder::dim(const std::string& pointer, const std::string& name) const {
  const auto found = dims_.find(name);
  if (found != dims_.end()) return static_cast<std::int64_t>(found->second);
  std::vector<std::string_view> names;
  for (const auto& [known, extent] : written_.dims) names.push_back(known);
  const std::string hint = did_you_mean(name, names);
  fail(pointer, fmt::format("unknown dim {}{}", in_quotes(name),
                            hint.empty() ? "; give it an extent in \"dims\"" : hint));
}

void GraphBuilder::set_type(TensorId id, TensorType type, const std::string& pointer) {
  Tensor& tensor = graph_.tensors[id];
  const std::optional<std::uint64_t> elements = checked_elements(type.shape);
  const std::optional<std::uint64_t> bytes =
      elements ? checked_bytes_of(type.dtype, *elements) : std::nullopt;
  if (!bytes) {
    fail(pointer, fmt::format("{} of shape {} is more than {} bytes", in_quotes(tensor.name),
                              to_string(type.shape), kMaxCount));
  }
  tensor.elements = *elements;
  tensor.bytes = *bytes;
  tensor.type = std::move(type);
}

void GraphBuilder::declare_tensors() {
  for (const WrittenTensor& written : written_.tensors) {
    const std::string pointer = "/tensors/" + pointer_token(written.name);
    const auto id = static_cast<TensorId>(graph_.tensors.size());
    tensor_ids_.emplace(written.name, id);
    declared_.push_back(&written);
    writer_.push_back(kNone);
    Tensor& tensor = graph_.tensors.emplace_back();
    tensor.name = written.name;
    tensor.value = tensor.storage = id;
    TensorType type{.shape = {}, .dtype = default_dtype_};
    if (written.dtype) type.dtype = dtype_at(pointer + "/dtype", *written.dtype);
    if (!written.shape) continue;
    for (std::size_t i = 0; i < written.shape->size(); ++i) {
      const std::string place = fmt::format("{}/shape/{}", pointer, i);
      const WrittenDim& extent = (*written.shape)[i];
      const auto* name = std::get_if<std::string>(&extent);
      const std::int64_t value =
          name != nullptr ? dim(place, *name) : std::get<std::int64_t>(extent);
      if (value < 0) fail(place, fmt::format("must not be negative, and is {}", value));
      type.shape.push_back(static_cast<std::uint64_t>(value));
    }
    set_type(id, std::move(type), pointer + "/shape");
  }
}

// Finds every op's row, name and outputs, so that ops may stand in any order.
void GraphBuilder::declare_ops() {
  for (std::size_t position = 0; position < written_.ops.size(); ++position) {
    const WrittenOp& written = written_.ops[position];
    if (op_named(written.op) == nullptr) {
      fail(at_op(position) + "/op",
           fmt::format("unknown op {}{}; fusecalc ops lists them all", in_quotes(written.op),
                       did_you_mean(written.op, op_names())));
    }
    if (written.name) {
      const auto [first, fresh] =
          op_positions_.emplace(*written.name, static_cast<std::uint32_t>(position));
      if (!fresh) {
        fail(at_op(position) + "/name",
             fmt::format("{} is already the name of {}", in_quotes(*written.name),
                         at_op(first->second)));
      }
    }
    for (std::size_t i = 0; i < written.outputs.size(); ++i) {
      const std::string& name = written.outputs[i];
      const auto next = static_cast<TensorId>(graph_.tensors.size());
      const auto [entry, fresh] = tensor_ids_.emplace(name, next);
      if (fresh) {
        Tensor& tensor = graph_.tensors.emplace_back();
        tensor.name = name;
        tensor.value = tensor.storage = next;
        declared_.push_back(nullptr);
        writer_.push_back(kNone);
      }
      std::uint32_t& writer = writer_[entry->second];
      if (writer != kNone) {
        fail(at_output(written, position, i), fmt::format("tensor {} is written twice, first by {}",
                                                          in_quotes(name), at_op(writer)));
      }
      writer = static_cast<std::uint32_t>(position);
    }
  }
  refuse_taken_defaults();
  op_at_position_.assign(written_.ops.size(), kNone);
}

// A name may not be the one by which an unnamed op goes.
void GraphBuilder::refuse_taken_defaults() const {
  for (std::size_t position = 0; position < written_.ops.size(); ++position) {
    if (written_.ops[position].name) continue;
    const auto taken = op_positions_.find(fmt::format("op#{}", position));
    if (taken == op_positions_.end()) continue;
    fail(at_op(taken->second) + "/name",
         fmt::format("{} is already what {} is called, which has no name of its own",
                     in_quotes(taken->first), at_op(position)));
  }
}

TensorId GraphBuilder::input_at(std::size_t position, std::size_t i,
                                const std::string& name) const {
  const auto found = tensor_ids_.find(name);
  if (found == tensor_ids_.end()) {
    std::string message = unknown("tensor", name, tensor_ids_);
    if (!message.ends_with("?)")) message += "; declare graph inputs in \"tensors\"";
    fail(fmt::format("{}/inputs/{}", at_op(position), i), message);
  }
  return found->second;
}

// Positions in an order in which every op comes after those that it needs; the earliest first.
std::vector<std::uint32_t> GraphBuilder::run_order() const {
  const std::size_t count = written_.ops.size();
  std::vector<std::uint32_t> missing(count, 0);
  std::vector<std::vector<std::uint32_t>> users(count);
  for (std::size_t position = 0; position < count; ++position) {
    const auto& inputs = written_.ops[position].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto* name = std::get_if<std::string>(&inputs[i]);
      if (name == nullptr) continue;
      const std::uint32_t writer = writer_[input_at(position, i, *name)];
      if (writer == kNone) continue;
      users[writer].push_back(static_cast<std::uint32_t>(position));
      ++missing[position];
    }
  }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t position = 0; position < count; ++position) {
    if (missing[position] == 0) ready.push(position);
  }
  std::vector<std::uint32_t> order;
  order.reserve(count);
  while (!ready.empty()) {
    const std::uint32_t position = ready.top();
    ready.pop();
    order.push_back(position);
    for (const std::uint32_t user : users[position]) {
      if (--missing[user] == 0) ready.push(user);
    }
  }
  if (order.size() != count) fail_cycle(missing);
  return order;
}

void GraphBuilder::fail_cycle(const std::vector<std::uint32_t>& waiting) const {
  // Every op that still waits has an input whose writer waits too: walking back must close a loop.
  auto position = static_cast<std::uint32_t>(
      std::ranges::find_if(waiting, [](std::uint32_t n) { return n > 0; }) - waiting.begin());
  std::vector<std::uint32_t> path;
  while (std::ranges::find(path, position) == path.end()) {
    path.push_back(position);
    for (const auto& input : written_.ops[position].inputs) {
      const auto* name = std::get_if<std::string>(&input);
      if (name == nullptr) continue;
      const std::uint32_t writer = writer_[tensor_ids_.at(*name)];
      if (writer != kNone && waiting[writer] > 0) {
        position = writer;
        break;
      }
    }
  }
  path.erase(path.begin(), std::ranges::find(path, position));
  std::ranges::reverse(path);
  const auto first = std::ranges::min_element(path);
  std::ranges::rotate(path, first);
  std::string text;
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i == kShown && path.size() > kShown + 1) {
      text += fmt::format("{} more -> ", path.size() - i);
      break;
    }
    text += written_.ops[path[i]].outputs[0] + " -> ";
  }
  fail(at_op(path[0]), "the operations form a cycle: " + printable(text) +
                           printable(written_.ops[path[0]].outputs[0]));
}

std::string GraphBuilder::written_place(const WrittenOp& op, std::string_view place) {
  const auto attribute = place.empty() ? std::nullopt : attribute_named(place.substr(1));
  if (!attribute) return std::string(place);
  for (const WrittenAttribute& written : op.attributes) {
    if (attribute_named(written.name) == attribute) return place_of(written.name, written.grouped);
  }
  return "";
}

Attributes GraphBuilder::read_attributes(const WrittenOp& written, const Op& op) const {
  Attributes attributes;
  const AttributeSet allowed = op.row->attributes;
  AttributeSet seen = 0;
  for (const auto& [key, value, grouped] : written.attributes) {
    const std::string pointer = at_op(op.position) + place_of(key, grouped);
    const std::optional<Attribute> attribute = attribute_named(key);
    if (!attribute || (allowed & only(*attribute)) == 0) {
      std::vector<std::string_view> known = {"name", "op", "inputs", "output", "outputs"};
      std::vector<std::string_view> own;
      for (const Attribute member : members_of(allowed)) own.push_back(name_of(member));
      known.insert(known.end(), own.begin(), own.end());
      std::string hint = did_you_mean(key, known);
      if (hint.empty()) {
        hint = own.empty() ? " (it takes none)" : fmt::format(" (known: {})", fmt::join(own, ", "));
      }
      fail(pointer, fmt::format("unknown attribute {} of {}{}", in_quotes(key), written.op, hint));
    }
    if ((seen & only(*attribute)) != 0) {
      fail(pointer,
           fmt::format("gives {} a second time; keep one", in_quotes(name_of(*attribute))));
    }
    seen = seen | *attribute;
    const AttributeScope scope{.dim = [&](const std::string& name) { return dim(pointer, name); },
                               .fail = [&](const std::string& message) { fail(pointer, message); }};
    set_attribute(attributes, *attribute, value, scope);
  }
  return attributes;
}

void GraphBuilder::build_op(std::uint32_t position) {
  const WrittenOp& written = written_.ops[position];
  Op op;
  op.position = position;
  op.name = written.name.value_or(fmt::format("op#{}", position));
  op.row = op_named(written.op);
  op.op_class = op.row->op_class;
  op.attributes = std::make_unique<const Attributes>(read_attributes(written, op));
  std::vector<Inference::Input> inputs;
  for (std::size_t i = 0; i < written.inputs.size(); ++i) {
    const auto* name = std::get_if<std::string>(&written.inputs[i]);
    if (name == nullptr) {
      const double number = std::get<WrittenNumber>(written.inputs[i]).real;
      op.operands.push_back({.number = number});
      inputs.push_back({.name = {}, .number = number});
      continue;
    }
    const TensorId id = input_at(position, i, *name);
    const Tensor& tensor = graph_.tensors[id];
    const bool graph_input = writer_[id] == kNone;
    if (graph_input && !declared_[id]->shape) {
      fail("/tensors/" + pointer_token(*name), "a graph input needs a shape");
    }
    op.operands.push_back({.tensor = id, .reads = tensor.elements});
    inputs.push_back({.name = tensor.name, .type = &tensor.type, .elements = tensor.elements});
  }
  const OpRow& row = *op.row;
  if (inputs.size() < row.min_inputs || inputs.size() > row.max_inputs) {
    const std::string range = row.min_inputs == row.max_inputs
                                  ? std::to_string(row.min_inputs)
                                  : fmt::format("{} to {}", row.min_inputs, row.max_inputs);
    fail(at_op(position) + "/inputs", fmt::format("{} takes {} input{}, not {}", row.name, range,
                                                  range == "1" ? "" : "s", inputs.size()));
  }
  if (written.outputs.size() > row.max_outputs) {
    fail(at_op(position) + "/outputs",
         fmt::format("{} has at most {} output{}, not {}", row.name, row.max_outputs,
                     row.max_outputs == 1 ? "" : "s", written.outputs.size()));
  }
  Inference inference(row, *op.attributes, std::move(inputs), written.outputs.size(),
                      [&](std::string_view place, const std::string& message) {
                        fail(at_op(position) + written_place(written, place), message);
                      });
  if (row.infer == nullptr) {
    build_custom(written, op);
  } else {
    if (written.flops) fail(at_op(position) + "/flops", "only a custom op states its FLOPs");
    if (written.op_class) fail(at_op(position) + "/class", "only a custom op states its class");
    infer(written, op, inference);
  }
  if (op.op_class == OpClass::kView) {
    add_view(written, op, inference.outputs[0]);
    return;
  }
  apply_partial(written, op);
  const auto id = static_cast<OpId>(graph_.ops.size());
  op_at_position_[position] = id;
  for (const TensorId output : op.outputs) graph_.tensors[output].producer = id;
  graph_.ops.push_back(std::move(op));
  apply_inplace(written, graph_.ops.back());
  if (inference.inplace_input && written.inplace.empty()) {
    const Op& stored = graph_.ops.back();
    live_in(at_output(written, position, 0), stored.outputs[0],
            stored.operands[*inference.inplace_input].tensor, id);
  }
}

void GraphBuilder::infer(const WrittenOp& written, Op& op, Inference& inference) {
  op.row->infer(inference);
  if (inference.outputs.size() < written.outputs.size()) {
    inference.fail(fmt::format("{} has {} output{} here, not {}", op.row->name,
                               inference.outputs.size(), inference.outputs.size() == 1 ? "" : "s",
                               written.outputs.size()));
  }
  op.op_class = inference.op_class;
  op.passes = inference.passes;
  op.rows = std::move(inference.rows);
  op.matrix = inference.matrix.value_or(MatrixShape{});
  op.collapses = inference.collapses;
  for (std::size_t i = 0; i < op.operands.size(); ++i) op.operands[i].reads = inference.reads[i];
  if (op.op_class == OpClass::kView) return;
  for (std::size_t i = 0; i < written.outputs.size(); ++i) {
    add_output(written, op, i, inference.outputs[i]);
  }
  if (inference.partial_write) op.writes[0] = *inference.partial_write;
  op.work = inference.work.value_or(graph_.tensors[op.outputs[0]].elements);
  count_flops(op, op.flops);
}

void GraphBuilder::count_flops(const Op& op, std::uint64_t& flops) const {
  flops = op.row->flops;
  bool fits = checked_multiply(flops, op.work);
  if (op.op_class == OpClass::kContract) {
    flops = 2;
    const MatrixShape& m = op.matrix;
    for (const std::uint64_t factor : {m.batch, m.rows, m.columns, m.depth}) {
      fits = fits && checked_multiply(flops, factor);
    }
    // A causal mask leaves the pairs in which the key is not younger than the query.
    if (op.attributes->causal && m.columns >= m.rows && m.rows > 0) {
      const double pairs = static_cast<double>(m.columns) - (static_cast<double>(m.rows) - 1) / 2;
      flops = static_cast<std::uint64_t>(static_cast<double>(flops) *
                                         (pairs / static_cast<double>(m.columns)));
    }
  }
  if (!fits) {
    fail(at_op(op.position),
         fmt::format("takes more than {} floating-point operations", kMaxCount));
  }
}

void GraphBuilder::build_custom(const WrittenOp& written, Op& op) {
  if (written.op_class) {
    const auto names = op_class_names();
    const auto found = std::ranges::find(names, *written.op_class);
    const auto op_class = static_cast<OpClass>(found - names.begin());
    if (found == names.end() || op_class == OpClass::kView || op_class == OpClass::kNormalise) {
      fail(at_op(op.position) + "/class",
           in_quotes(*written.op_class) +
               " is none of pointwise, reduce, movement, contract or opaque");
    }
    op.op_class = op_class;
  }
  for (std::size_t i = 0; i < written.outputs.size(); ++i) {
    const TensorId id = tensor_ids_.at(written.outputs[i]);
    if (declared_[id] == nullptr || !declared_[id]->shape) {
      fail(at_output(written, op.position, i),
           fmt::format("{} comes from a custom op; declare its shape in \"tensors\"",
                       in_quotes(written.outputs[i])));
    }
    add_output(written, op, i, graph_.tensors[id].type);
  }
  op.flops = written.flops.value_or(0);
  for (const Operand& operand : op.operands) op.work = std::max(op.work, operand.reads);
  if (op.op_class != OpClass::kReduce) op.work = graph_.tensors[op.outputs[0]].elements;
}

void GraphBuilder::add_output(const WrittenOp& written, Op& op, std::size_t i, TensorType type) {
  const TensorId id = tensor_ids_.at(written.outputs[i]);
  const std::string pointer = at_output(written, op.position, i);
  if (declared_[id] != nullptr) {
    // The document pins what it states; the rest is inferred.
    const Tensor& declared = graph_.tensors[id];
    if (declared_[id]->shape && declared.type.shape != type.shape) {
      fail(pointer,
           fmt::format("{} has the shape {}, and \"tensors\" declares {}", in_quotes(declared.name),
                       to_string(type.shape), to_string(declared.type.shape)));
    }
    if (declared_[id]->dtype) {
      type.dtype =
          dtype_at("/tensors/" + pointer_token(declared.name) + "/dtype", *declared_[id]->dtype);
    }
  }
  set_type(id, std::move(type), pointer);
  op.outputs.push_back(id);
  op.writes.push_back(graph_.tensors[id].elements);
}

void GraphBuilder::add_view(const WrittenOp& written, const Op& op, TensorType type) {
  Op scratch;
  scratch.position = op.position;
  add_output(written, scratch, 0, std::move(type));
  Tensor& view = graph_.tensors[scratch.outputs[0]];
  const TensorId base = op.operands[0].tensor;
  const Tensor& viewed = graph_.tensors[base];
  if (view.type.dtype != viewed.type.dtype) {
    fail(at_output(written, op.position, 0), "a view keeps the dtype; cast copies");
  }
  view.view_of = base;
  view.value = viewed.value;
  view.storage = graph_.tensors[viewed.value].storage;
  if (op.row->access == Access::kPermute) {
    view.view_perm = op.attributes->perm;
    const auto rank = static_cast<std::int64_t>(viewed.type.shape.size());
    if (view.view_perm.empty()) {
      for (std::int64_t axis = rank - 1; axis >= 0; --axis) view.view_perm.push_back(axis);
    }
    for (std::int64_t& axis : view.view_perm) axis += axis < 0 ? rank : 0;
  }
}

void GraphBuilder::apply_partial(const WrittenOp& written, Op& op) const {
  for (const auto& [name, elements] : written.reads) {
    bool found = false;
    for (Operand& operand : op.operands) {
      if (operand.tensor == kNone || graph_.tensors[operand.tensor].name != name) continue;
      operand.reads = std::min(elements, graph_.tensors[operand.tensor].elements);
      found = true;
    }
    if (!found) {
      fail(fmt::format("{}/reads/{}", at_op(op.position), pointer_token(name)),
           in_quotes(name) + " is no input of this op");
    }
  }
  for (const auto& [name, elements] : written.writes) {
    const auto output = std::ranges::find(written.outputs, name);
    if (output == written.outputs.end()) {
      fail(fmt::format("{}/writes/{}", at_op(op.position), pointer_token(name)),
           in_quotes(name) + " is no output of this op");
    }
    const auto i = static_cast<std::size_t>(output - written.outputs.begin());
    op.writes[i] = std::min(elements, graph_.tensors[op.outputs[i]].elements);
  }
}

void GraphBuilder::apply_inplace(const WrittenOp& written, const Op& op) {
  const auto id = static_cast<OpId>(graph_.ops.size() - 1);
  for (const auto& [output, home] : written.inplace) {
    const std::string pointer =
        fmt::format("{}/inplace/{}", at_op(op.position), pointer_token(output));
    const auto found = std::ranges::find(written.outputs, output);
    if (found == written.outputs.end()) {
      fail(pointer, in_quotes(output) + " is no output of this op");
    }
    const auto input = std::ranges::find_if(op.operands, [&](const Operand& operand) {
      return operand.tensor != kNone && graph_.tensors[operand.tensor].name == home;
    });
    if (input == op.operands.end()) fail(pointer, in_quotes(home) + " is no input of this op");
    live_in(pointer, op.outputs[static_cast<std::size_t>(found - written.outputs.begin())],
            input->tensor, id);
  }
}

void GraphBuilder::live_in(const std::string& pointer, TensorId output, TensorId home,
                           OpId writer) {
  Tensor& tensor = graph_.tensors[output];
  const TensorId value = graph_.tensors[home].value;
  if (tensor.bytes != graph_.tensors[value].bytes) {
    fail(pointer, fmt::format("{} has {} bytes and cannot live in the {} of {}",
                              in_quotes(tensor.name), tensor.bytes, graph_.tensors[value].bytes,
                              in_quotes(graph_.tensors[home].name)));
  }
  const auto [entry, fresh] = overwritten_by_.emplace(value, writer);
  if (!fresh) {
    fail(pointer,
         fmt::format("{} is already overwritten by {}", in_quotes(graph_.tensors[home].name),
                     in_quotes(graph_.ops[entry->second].name)));
  }
  tensor.storage = graph_.tensors[value].storage;
  const Op& op = graph_.ops[writer];
  const auto place = std::ranges::find(op.outputs, output) - op.outputs.begin();
  const bool partial = op.writes[static_cast<std::size_t>(place)] < tensor.elements;
  if (partial) graph_.tensors[value].patched_by = writer;
}

// A tensor that is declared without a shape pins what an operation writes: one must.
void GraphBuilder::refuse_stray_pins() const {
  for (TensorId id = 0; id < written_.tensors.size(); ++id) {
    if (declared_[id]->shape || writer_[id] != kNone) continue;
    std::vector<std::string_view> outputs;
    for (const WrittenOp& op : written_.ops) {
      outputs.insert(outputs.end(), op.outputs.begin(), op.outputs.end());
    }
    const std::string& name = declared_[id]->name;
    fail("/tensors/" + pointer_token(name),
         "no operation writes it, so it needs a shape" + did_you_mean(name, outputs));
  }
}

// Whoever reads a value must run before the op that overwrites it.
void GraphBuilder::link_overwrites() {
  for (OpId id = 0; id < graph_.ops.size(); ++id) {
    Op& op = graph_.ops[id];
    for (const Operand& operand : op.operands) {
      if (operand.tensor == kNone) continue;
      Tensor& value = graph_.tensors[graph_.tensors[operand.tensor].value];
      if (value.readers.empty() || value.readers.back() != id) value.readers.push_back(id);
      if (value.producer != kNone) op.before.push_back(value.producer);
    }
  }
  for (const auto& [value, writer] : overwritten_by_) {
    for (const OpId reader : graph_.tensors[value].readers) {
      if (reader != writer) graph_.ops[writer].before.push_back(reader);
    }
  }
  for (Op& op : graph_.ops) {
    std::ranges::sort(op.before);
    const auto [first, last] = std::ranges::unique(op.before);
    op.before.erase(first, last);
  }
}

// Overwriting adds orders that run_order did not know; renumbers the ops where it must.
void GraphBuilder::sort_ops() {
  const std::size_t count = graph_.ops.size();
  std::vector<std::uint32_t> missing(count);
  std::vector<std::vector<OpId>> after(count);
  bool in_order = true;
  for (OpId id = 0; id < count; ++id) {
    missing[id] = static_cast<std::uint32_t>(graph_.ops[id].before.size());
    for (const OpId earlier : graph_.ops[id].before) {
      after[earlier].push_back(id);
      in_order = in_order && earlier < id;
    }
  }
  if (!in_order) {
    std::priority_queue<OpId, std::vector<OpId>, std::greater<>> ready;
    for (OpId id = 0; id < count; ++id) {
      if (missing[id] == 0) ready.push(id);
    }
    std::vector<OpId> new_id(count, kNone);
    OpId next = 0;
    while (!ready.empty()) {
      const OpId id = ready.top();
      ready.pop();
      new_id[id] = next++;
      for (const OpId later : after[id]) {
        if (--missing[later] == 0) ready.push(later);
      }
    }
    TensorId stuck = kNone;  // the value whose overwriting comes first in the document
    for (const auto& [value, writer] : overwritten_by_) {
      if (new_id[writer] != kNone) continue;
      if (stuck == kNone || writer < overwritten_by_.at(stuck)) stuck = value;
    }
    if (stuck != kNone) {
      const Op& op = graph_.ops[overwritten_by_.at(stuck)];
      fail(at_op(op.position),
           fmt::format("{} overwrites {}, which a later op still reads", in_quotes(op.name),
                       in_quotes(graph_.tensors[stuck].name)));
    }
    std::vector<Op> ops(count);
    for (OpId id = 0; id < count; ++id) ops[new_id[id]] = std::move(graph_.ops[id]);
    graph_.ops = std::move(ops);
    const auto renumber = [&](std::vector<OpId>& ids) {
      for (OpId& id : ids) id = new_id[id];
      std::ranges::sort(ids);
    };
    for (Op& op : graph_.ops) renumber(op.before);
    for (Tensor& tensor : graph_.tensors) {
      renumber(tensor.readers);
      if (tensor.producer != kNone) tensor.producer = new_id[tensor.producer];
      if (tensor.patched_by != kNone) tensor.patched_by = new_id[tensor.patched_by];
    }
    for (OpId& id : op_at_position_) id = id == kNone ? kNone : new_id[id];
  }
  for (OpId id = 0; id < count; ++id) {
    for (const OpId earlier : graph_.ops[id].before) graph_.ops[earlier].after.push_back(id);
  }
}

void GraphBuilder::mark_outputs() {
  if (!written_.outputs) {
    // What no op takes as an input, views included.
    std::vector<bool> consumed(graph_.tensors.size(), false);
    for (const WrittenOp& op : written_.ops) {
      for (const auto& input : op.inputs) {
        const auto* name = std::get_if<std::string>(&input);
        if (name != nullptr) consumed[tensor_ids_.at(*name)] = true;
      }
    }
    for (TensorId id = 0; id < graph_.tensors.size(); ++id) {
      if (writer_[id] == kNone || consumed[id]) continue;
      graph_.tensors[graph_.tensors[id].value].output = true;
    }
    return;
  }
  for (std::size_t i = 0; i < written_.outputs->size(); ++i) {
    const std::string& name = (*written_.outputs)[i];
    const std::string pointer = fmt::format("/outputs/{}", i);
    const auto found = tensor_ids_.find(name);
    if (found == tensor_ids_.end()) fail(pointer, unknown("tensor", name, tensor_ids_));
    graph_.tensors[graph_.tensors[found->second].value].output = true;
  }
}

void GraphBuilder::resolve_fuse() {
  if (!written_.fuse) return;
  std::vector<std::vector<OpId>> groups;
  std::vector<std::size_t> group_of(written_.ops.size(), written_.fuse->size());
  NameIndex names = op_positions_;
  std::vector<std::string> defaults(written_.ops.size());
  for (std::size_t position = 0; position < written_.ops.size(); ++position) {
    if (written_.ops[position].name) continue;
    defaults[position] = fmt::format("op#{}", position);
    names.emplace(defaults[position], static_cast<std::uint32_t>(position));
  }
  for (std::size_t g = 0; g < written_.fuse->size(); ++g) {
    std::vector<OpId> group;
    for (std::size_t i = 0; i < (*written_.fuse)[g].size(); ++i) {
      const std::string& name = (*written_.fuse)[g][i];
      const std::string pointer = fmt::format("/fuse/{}/{}", g, i);
      const auto found = names.find(name);
      if (found == names.end()) fail(pointer, unknown("operation", name, names));
      std::size_t& owner = group_of[found->second];
      if (owner != written_.fuse->size()) {
        fail(pointer, fmt::format("{} is already in /fuse/{}", in_quotes(name), owner));
      }
      owner = g;
      // A view runs nowhere.
      if (op_at_position_[found->second] != kNone) group.push_back(op_at_position_[found->second]);
    }
    std::ranges::sort(group);
    if (!group.empty()) groups.push_back(std::move(group));
  }
  graph_.fuse = std::move(groups);
}

}  // namespace

OpGraph build_graph(const WrittenGraph& written, const std::vector<DimOverride>& overrides) {
  return GraphBuilder(written, overrides).build();
}

}  // namespace fusecalc
