// Builds one op at a time: its row, attributes, shapes, and the memory it reads and writes.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/checked.hpp"
#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/attribute_reader.hpp"
#include "graph/builder.hpp"
#include "graph/foreign_names.hpp"
#include "graph/infer_shared.hpp"

namespace fusecalc {

WrittenPlace GraphBuilder::place_of(const RefusedPart& part, std::size_t position) const {
  if (const auto* input = std::get_if<std::size_t>(&part)) return {Part::kInput, position, *input};
  const auto* attribute = std::get_if<Attribute>(&part);
  if (attribute == nullptr) return {Part::kOp, position};
  const std::vector<WrittenAttribute>& written = written_.ops[position].attributes;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (attribute_named(written[i].name) == *attribute) return {Part::kAttribute, position, i};
  }
  return {Part::kOp, position};
}

Attributes GraphBuilder::read_attributes(const WrittenOp& written, const Op& op) const {
  Attributes attributes;
  const AttributeSet allowed = op.row->attributes;
  AttributeSet seen = 0;
  for (std::size_t i = 0; i < written.attributes.size(); ++i) {
    const std::string& key = written.attributes[i].name;
    const WrittenPlace place{Part::kAttribute, op.position, i};
    const std::optional<Attribute> attribute = attribute_named(key);
    if (!attribute || (allowed & only(*attribute)) == 0) {
      std::vector<std::string_view> known = {"name", "op", "inputs", "output", "outputs"};
      std::vector<std::string_view> own;
      for (const Attribute member : members_of(allowed)) own.push_back(name_of(member));
      known.insert(known.end(), own.begin(), own.end());
      std::string hint = did_you_mean(NameKind::kAttribute, key, known);
      if (hint.empty()) {
        hint = own.empty() ? " (it takes none)" : fmt::format(" (known: {})", fmt::join(own, ", "));
      }
      fail(place, fmt::format("unknown attribute {} of {}{}", in_quotes(key), written.op, hint));
    }
    if ((seen & only(*attribute)) != 0) {
      fail(place, fmt::format("sets {} a second time; keep one", in_quotes(name_of(*attribute))));
    }
    seen = seen | *attribute;
    const AttributeScope scope{.dim = [&](const std::string& name) { return dim(place, name); },
                               .fail = [&](const std::string& message) { fail(place, message); }};
    set_attribute(attributes, *attribute, written.attributes[i].value, scope);
  }
  return attributes;
}

void GraphBuilder::check_arity(const WrittenOp& written, const Op& op) const {
  const OpRow& row = *op.row;
  const std::size_t position = op.position;
  if (written.inputs.size() < row.min_inputs || written.inputs.size() > row.max_inputs) {
    const std::string range = row.min_inputs == row.max_inputs ? std::to_string(row.min_inputs)
                              : row.max_inputs == kAnyNumber
                                  ? fmt::format("{} or more", row.min_inputs)
                                  : fmt::format("{} to {}", row.min_inputs, row.max_inputs);
    fail({Part::kInputs, position}, fmt::format("{} takes {} input{}, not {}", row.name, range,
                                                range == "1" ? "" : "s", written.inputs.size()));
  }
  if (written.outputs.size() > row.max_outputs) {
    fail({Part::kOutputs, position},
         fmt::format("{} has at most {} output{}, not {}", row.name, row.max_outputs,
                     row.max_outputs == 1 ? "" : "s", written.outputs.size()));
  }
}

void GraphBuilder::build_op(std::uint32_t position) {
  const WrittenOp& written = written_.ops[position];
  Op op;
  op.position = position;
  op.name = written.name ? *written.name : fmt::format("op#{}", position);
  op.scope = written.scope.value_or("");
  op.row = op_named(written.op);
  op.op_class = op.row->op_class;
  op.attributes = written.attributes.empty()
                      ? no_attributes_
                      : std::make_shared<const Attributes>(read_attributes(written, op));
  op.operands.reserve(written.inputs.size());
  std::vector<Inference::Input> inputs;
  inputs.reserve(written.inputs.size());
  for (std::size_t i = 0; i < written.inputs.size(); ++i) {
    const auto* name = std::get_if<std::string>(&written.inputs[i]);
    if (name == nullptr) {
      const double number = std::get<double>(written.inputs[i]);
      op.operands.push_back({.number = number});
      inputs.push_back({.name = {}, .number = number});
      continue;
    }
    const TensorId id = inputs_of(position)[i];
    const Tensor& tensor = graph_.tensors[id];
    const bool graph_input = writer_[id] == kNone;
    if (graph_input && !declared_[id]->shape) {
      fail({Part::kTensor, id}, "a graph input needs a shape");
    }
    op.operands.push_back({.tensor = id, .reads = tensor.elements});
    inputs.push_back({.name = tensor.name, .type = &tensor.type, .elements = tensor.elements});
  }
  const OpRow& row = *op.row;
  check_arity(written, op);
  Inference inference(row, *op.attributes, std::move(inputs), written.outputs.size(),
                      default_dtype_, [&](const RefusedPart& part, const std::string& message) {
                        fail(place_of(part, position), message);
                      });
  if (row.family == OpFamily::kCustom) {
    build_custom(written, op);
  } else {
    if (written.flops) fail({Part::kFlops, position}, "only a custom op may specify its FLOPs");
    if (written.op_class) fail({Part::kClass, position}, "only a custom op may specify its class");
    infer(written, op, inference);
  }
  if (op.op_class == OpClass::kView) {
    add_views(written, op, inference);
    return;
  }
  apply_partial(written, op);
  if (!checked_add(flops_, op.flops)) {
    fail({Part::kOp, position},
         fmt::format("with it, the operations take more than {} floating-point operations",
                     kMaxCount));
  }
  const auto id = static_cast<OpId>(graph_.ops.size());
  op_at_position_[position] = id;
  for (const TensorId output : op.outputs) graph_.tensors[output].producer = id;
  graph_.ops.push_back(std::move(op));
  place_results(written, id, inference.inplace_input);
  drop_empty_parts(graph_.ops.back());
}

// In memory of other tensors, where the op list or the row says so.
void GraphBuilder::place_results(const WrittenOp& written, OpId id,
                                 std::optional<std::size_t> input) {
  apply_inplace(written, graph_.ops[id]);
  if (input) store_in_input(written, id, *input);
}

// An empty part adds nothing to a concat, and has no memory that a kernel could read. It stays
// where the result is empty, too.
void GraphBuilder::drop_empty_parts(Op& op) const {
  const bool joins = op.row->family == OpFamily::kConcat;
  if (!joins || graph_.tensors[op.outputs[0]].elements == 0) return;
  std::erase_if(op.operands, [&](const Operand& operand) {
    return graph_.tensors[operand.tensor].elements == 0;
  });
}

void GraphBuilder::infer(const WrittenOp& written, Op& op, Inference& inference) {
  infer_results(inference);
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
  if (op.op_class == OpClass::kMovement && !inference.sources.empty()) {
    op.source = std::move(inference.sources[0]);
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) op.operands[i].reads = inference.reads[i];
  if (op.op_class == OpClass::kView) return;
  for (std::size_t i = 0; i < written.outputs.size(); ++i) {
    add_output(op, i, std::move(inference.outputs[i]));
  }
  if (op.row->has_type_bounds) bound_by_type(op);
  if (inference.partial_write) op.writes[0] = *inference.partial_write;
  op.work = inference.work.value_or(graph_.tensors[op.outputs[0]].elements);
  op.flops = inference.flops;
  if (inference.total_flops) {
    op.flops = *inference.total_flops;
  } else {
    count_flops(op, op.flops);
  }
}

// Of floats: no integer is beyond the range of its type.
void GraphBuilder::bound_by_type(Op& op) const {
  const DType dtype = graph_.tensors[op.outputs[0]].type.dtype;
  if (!is_float(dtype)) return;
  Attributes attributes = *op.attributes;
  if (!attributes.min) attributes.min = -highest_of(dtype);
  if (!attributes.max) attributes.max = highest_of(dtype);
  op.attributes = std::make_shared<const Attributes>(std::move(attributes));
}

void GraphBuilder::count_flops(const Op& op, std::uint64_t& flops) const {
  bool fits = checked_multiply(flops, op.work);
  if (op.op_class == OpClass::kContract) {
    flops = 2;
    const MatrixShape& m = op.matrix;
    for (const std::uint64_t factor : {m.batch, m.rows, m.columns, m.depth}) {
      fits = fits && checked_multiply(flops, factor);
    }
    if (fits && flops > 0 && op.attributes->causal) {
      flops =
          flops / (m.rows * m.columns) * visible_pairs(m.rows, m.columns, op.attributes->window);
    }
  }
  if (!fits) {
    fail({Part::kOp, op.position},
         fmt::format("takes more than {} floating-point operations", kMaxCount));
  }
}

void GraphBuilder::build_custom(const WrittenOp& written, Op& op) {
  if (written.op_class) {
    const auto names = op_class_names();
    const auto found = std::ranges::find(names, *written.op_class);
    const auto op_class = static_cast<OpClass>(found - names.begin());
    if (found == names.end() || op_class == OpClass::kView || op_class == OpClass::kNormalise) {
      fail({Part::kClass, op.position},
           in_quotes(*written.op_class) +
               " is not one of pointwise, reduce, movement, contract or opaque");
    }
    op.op_class = op_class;
  }
  for (std::size_t i = 0; i < written.outputs.size(); ++i) {
    const TensorId id = outputs_of(op.position)[i];
    if (declared_[id] == nullptr || !declared_[id]->shape) {
      fail({Part::kOutput, op.position, i},
           fmt::format("{} is an output of a custom op, so its shape must be declared",
                       in_quotes(written.outputs[i])));
    }
    add_output(op, i, graph_.tensors[id].type);
  }
  op.flops = written.flops.value_or(0);
  for (const Operand& operand : op.operands) op.work = std::max(op.work, operand.reads);
  if (op.op_class != OpClass::kReduce) op.work = graph_.tensors[op.outputs[0]].elements;
}

void GraphBuilder::add_output(Op& op, std::size_t i, TensorType type) {
  const TensorId id = outputs_of(op.position)[i];
  const WrittenPlace place{Part::kOutput, op.position, i};
  if (declared_[id] != nullptr) {
    // A declared shape must match the inferred one; a declared dtype replaces it.
    const Tensor& declared = graph_.tensors[id];
    if (declared_[id]->shape && declared.type.shape != type.shape) {
      fail(place, fmt::format("{} has shape {}, but is declared as {}", in_quotes(declared.name),
                              to_string(type.shape), to_string(declared.type.shape)));
    }
    if (declared_[id]->dtype) {
      type.dtype = dtype_at({Part::kTensorDtype, id}, *declared_[id]->dtype);
    }
  }
  set_type(id, std::move(type), place);
  op.outputs.push_back(id);
  const std::uint64_t elements = graph_.tensors[id].elements;
  op.writes.push_back({.most = elements, .least = elements});
}

// The error for a name that is not an input (or output) of the op.
std::string GraphBuilder::not_of_op(const std::string& name, std::string_view what,
                                    const std::vector<std::string_view>& own) {
  return fmt::format("{} is not an {} of this op{}", in_quotes(name), what,
                     did_you_mean(name, own));
}

std::vector<std::string_view> GraphBuilder::input_names(const Op& op) const {
  std::vector<std::string_view> names;
  for (const Operand& operand : op.operands) {
    if (operand.tensor != kNone) names.push_back(graph_.tensors[operand.tensor].name);
  }
  return names;
}

void GraphBuilder::apply_partial(const WrittenOp& written, Op& op) const {
  // An op may have a hundred thousand inputs, and state what it reads of each.
  NameIndex items;
  for (std::size_t item = 0; item < written.reads.size(); ++item) {
    items.emplace(written.reads[item].first, static_cast<std::uint32_t>(item));
  }
  std::vector<bool> found(written.reads.size(), false);
  for (Operand& operand : op.operands) {
    if (operand.tensor == kNone || items.empty()) continue;
    const auto item = items.find(graph_.tensors[operand.tensor].name);
    if (item == items.end()) continue;
    // An input that is given twice is one tensor: what is stated of it counts once.
    operand.reads = found[item->second] ? 0
                                        : std::min(written.reads[item->second].second,
                                                   graph_.tensors[operand.tensor].elements);
    found[item->second] = true;
  }
  for (std::size_t item = 0; item < found.size(); ++item) {
    if (found[item]) continue;
    fail({Part::kReads, op.position, item},
         not_of_op(written.reads[item].first, "input", input_names(op)));
  }
  for (std::size_t item = 0; item < written.writes.size(); ++item) {
    const auto& [name, elements] = written.writes[item];
    const auto output = std::ranges::find(written.outputs, name);
    if (output == written.outputs.end()) {
      fail({Part::kWrites, op.position, item},
           not_of_op(name, "output", {written.outputs.begin(), written.outputs.end()}));
    }
    const auto i = static_cast<std::size_t>(output - written.outputs.begin());
    // More elements than there are: some are written twice, maybe always the same ones.
    const std::uint64_t all = graph_.tensors[op.outputs[i]].elements;
    WrittenPart& part = op.writes[i];
    part = {.most = std::min(elements, all),
            .least = elements > all ? 0 : std::min(elements, part.least)};
  }
}

}  // namespace fusecalc
