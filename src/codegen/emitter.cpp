#include "codegen/emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace fusecalc {

void cannot_generate(const Op& op, std::string_view why) {
  throw Error(Fault::kUnavailable, fmt::format("{} ({}) cannot be generated: {}",
                                               in_quotes(op.name), op.row->name, why));
}

std::string CodeBlock::text(std::string_view indent) const {
  std::string result;
  const auto add = [&](const std::string& lines, std::string_view more) {
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin);
      result += fmt::format("{}{}{}\n", indent, more, lines.substr(begin, end - begin));
      begin = end + 1;
    }
  };
  add(before, "");
  if (!lanes.empty()) {
    result +=
        fmt::format("#pragma unroll\n{}for (int j = 0; j < {}; ++j) {{\n", indent, width_text);
    add(lanes, "  ");
    result += fmt::format("{}}}\n", indent);
  }
  add(after, "");
  return result;
}

Emitter::Emitter(const OpGraph& graph, PhaseFinder& finder, const Kernel& kernel)
    : graph_(graph), finder_(finder), kernel_(kernel), phases_(finder.find(kernel)) {}

void Emitter::enter(CodeBlock& piece, std::uint8_t phase) {
  piece_ = &piece;
  phase_ = phase;
}

void Emitter::set_tile(const IndexMap& map, const std::map<TensorId, std::string>& tiles) {
  tile_map_ = map;
  tiles_ = tiles;
}

void Emitter::set_row(const Index& q, unsigned width, std::string lane) {
  row_ = q;
  row_width_ = width;
  // Of one row, all is uniform, and uniform code stands outside the loop over j.
  row_lane_ = width == 1 ? "0" : std::move(lane);
}

std::string Emitter::take_row_code() { return std::exchange(row_code_, {}); }

// Indices.

Index Emitter::index(const std::string& text, LanePattern pattern, bool aligned) {
  Index result{.name = fresh("e"), .pattern = pattern, .aligned = aligned, .path = std::nullopt};
  std::string& code = pattern == LanePattern::kScattered ? piece_->lanes : piece_->before;
  code += fmt::format("const idx {} = {};\n", result.name, text);
  return result;
}

Index Emitter::derive(const Index& from, const IndexMap& map) {
  if (map.identity()) return from;
  const std::string key = fmt::format("{} {}", from.name, map.text("x"));
  const auto found = piece_->indices.find(key);
  if (found != piece_->indices.end()) return found->second;
  if (matrix_ && from.name == loop_.name) {
    return piece_->indices.emplace(key, derive_in_matrix(from, map)).first->second;
  }
  LanePattern pattern = from.pattern;
  bool aligned = from.aligned;
  if (from.pattern == LanePattern::kUnit) {
    if (from.aligned) {
      pattern = map.pattern(piece_->width);
      aligned = map.aligned(piece_->width);
    } else if (map.axes.size() > 1 || (!map.axes.empty() && map.axes[0].stride > 1)) {
      pattern = LanePattern::kScattered;
    } else if (map.axes.empty() || map.axes[0].stride == 0) {
      pattern = LanePattern::kUniform;
    }
  }
  const std::string source =
      from.pattern == LanePattern::kUnit && pattern == LanePattern::kScattered ? from.lane()
                                                                               : from.name;
  Index result = index(map.text(source), pattern, aligned);
  if (from.path) {
    result.path = *from.path;
    result.path->push_back(map);
  }
  return piece_->indices.emplace(key, result).first->second;
}

// rows * stride + found... : the element of a table that an index found in memory names.
Index Emitter::looked_up(const Index& rows, const Value& found, std::uint64_t stride,
                         const Index& rest) {
  const bool uniform = found.uniform && rows.pattern == LanePattern::kUniform;
  const bool unit = uniform && rest.pattern == LanePattern::kUnit;
  const bool all_uniform = uniform && rest.pattern == LanePattern::kUniform;
  const LanePattern pattern = unit          ? LanePattern::kUnit
                              : all_uniform ? LanePattern::kUniform
                                            : LanePattern::kScattered;
  const std::string base = pattern == LanePattern::kScattered ? rows.lane() : rows.name;
  const std::string tail = pattern == LanePattern::kScattered ? rest.lane() : rest.name;
  return index(fmt::format("{} + (idx){} * {} + {}", base, found.text, stride, tail), pattern,
               rest.aligned && stride % piece_->width == 0);
}

// Elements.

Value Emitter::value(TensorId tensor, const Index& at) {
  Index index = at;
  while (graph_.tensors[tensor].view_of != kNone) {
    const Tensor& view = graph_.tensors[tensor];
    tensor = view.view_of;
    if (!view.view_perm.empty()) {
      index = derive(index, permutation_map(graph_.tensors[tensor].type.shape, view.view_perm));
    }
  }
  const std::pair key(tensor, index.name);
  const auto known = piece_->values.find(key);
  if (known != piece_->values.end()) return known->second;
  if (matrix_ && tensor == matrix_->made) {
    return piece_->values.emplace(key, made(index)).first->second;
  }
  const OpId producer = graph_.tensors[tensor].producer;
  const bool inside = producer != kNone && contains(producer);
  if (inside && is_row_result(tensor)) return row_value(tensor);
  Held* const held = held_at(tensor, index);
  Value result;
  if (held != nullptr && held->since) {
    result = from_held(tensor, *held);
  } else if (inside) {
    const std::vector<TensorId>& outputs = op(producer).outputs;
    const auto k = static_cast<std::size_t>(std::ranges::find(outputs, tensor) - outputs.begin());
    result = compute(producer, k, index);
    if (held != nullptr) {
      held->since = phase_;
      const DType dtype = graph_.tensors[tensor].type.dtype;
      const std::string name = fresh("x");
      piece_->before +=
          fmt::format("Pack<{}, {}> {};\n", held->computed ? "f32" : stored_type(dtype),
                      piece_->width_text, name);
      piece_->lanes += fmt::format("store_as({}.v[j], {});\n", name, result.text);
      piece_->after += fmt::format("hold_at({}, {});\n", place_of(*held), name);
    }
  } else {
    result = load(tensor, index);
  }
  piece_->values.emplace(key, result);
  return result;
}

Value Emitter::converted(const Value& value, ComputeType type) {
  if (value.number) return {.text = literal(*value.number, type), .type = type, .uniform = true};
  if (value.type == type) return value;
  return {.text = fmt::format("{}({})", name_of(type), value.text),
          .type = type,
          .uniform = value.uniform};
}

IndexMap Emitter::operand_map(const Op& op, std::size_t i) const {
  const Shape& shape = graph_.tensors[op.outputs[0]].type.shape;
  if (!op.row->per_channel || i == 0) {
    return broadcast_map(graph_.tensors[op.operands[i].tensor].type.shape, shape);
  }
  IndexMap map;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    map.append(shape[axis], axis == 1 ? 1 : 0);
  return map;
}

Value Emitter::operand(const Op& op, std::size_t i, const Index& at) {
  const Operand& operand = op.operands[i];
  if (operand.tensor == kNone) return {.text = {}, .uniform = true, .number = operand.number};
  return value(operand.tensor, derive(at, operand_map(op, i)));
}

Value Emitter::compute(OpId id, std::size_t k, const Index& at) {
  const Op& op = this->op(id);
  switch (op.op_class) {
    case OpClass::kPointwise: return pointwise(op, k, at);
    case OpClass::kMovement: return movement(op, at);
    case OpClass::kReduce:
    case OpClass::kNormalise: break;
    default: cannot_generate(op, fmt::format("{} ops have no code yet", name_of(op.op_class)));
  }
  const std::string_view device = k == 0 ? op.row->device : op.row->device_more[k - 1];
  const ComputeType type = compute_type(graph_.tensors[op.outputs[k]].type.dtype);
  if (op.row->family == OpFamily::kLoss) {
    // One score of each row, each row by itself.
    if (inline_rows(op)) keep_inline(id, value(op.operands[0].tensor, at));
    const Value score = picked(op, at);
    return expression(op, device, {score}, at, inline_rows(op) ? state_type(op) : score.type, type);
  }
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < op.operands.size(); ++i) inputs.push_back(operand(op, i, at));
  if (inline_rows(op)) keep_inline(id, inputs[0]);
  return expression(op, device, inputs, at, state_type(op), type);
}

// The state of a row of one element, declared anew wherever one is needed.
void Emitter::keep_inline(OpId id, const Value& element) {
  const Op& op = this->op(id);
  // Their building blocks know no states of rows.
  const auto contracts = [&](OpId other) { return this->op(other).op_class == OpClass::kContract; };
  if (std::ranges::any_of(kernel_, contracts)) {
    cannot_generate(op, "its rows are single elements, behind a contraction");
  }
  const std::string state = states_[id] = fresh("s");
  const std::string taken = converted(element, state_type(op)).text;
  piece_->lanes += fmt::format("{} {}[1];\n", state_class(op), state);
  if (op.row->state == "Moments") piece_->lanes += fmt::format("{}[0].pivot = {};\n", state, taken);
  piece_->lanes += fmt::format("{0}[0].add({1}, 0);\n{0}[0].finish(1, {2:.17g});\n", state, taken,
                               op.attributes->eps);
}

}  // namespace fusecalc
