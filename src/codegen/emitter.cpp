#include "codegen/emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "graph/dropout.hpp"

namespace fusecalc {
namespace {

std::size_t axis_of(const Op& op, std::size_t rank) {
  const std::int64_t axis = op.attributes->axes ? op.attributes->axes->front() : 0;
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

// From an element of a slice to that of the whole.
Step slice_step(const Shape& whole, const Shape& part, const Attributes& attributes) {
  std::vector<std::uint64_t> strides = strides_of(whole);
  Step step;
  const std::size_t count = std::max(attributes.starts.size(), attributes.ends.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto rank = static_cast<std::int64_t>(whole.size());
    const std::int64_t axis =
        attributes.axes ? (*attributes.axes)[i] : static_cast<std::int64_t>(i);
    const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    const std::int64_t start = attributes.starts.empty() ? 0 : attributes.starts[i];
    const auto first = static_cast<std::uint64_t>(
        start < 0 ? start + static_cast<std::int64_t>(whole[at]) : start);
    step.offset += first * strides[at];
    if (!attributes.steps.empty()) strides[at] *= static_cast<std::uint64_t>(attributes.steps[i]);
  }
  for (std::size_t i = 0; i < part.size(); ++i) step.append(part[i], strides[i]);
  return step;
}

// The device column of an op in the functions of quick.cuh, where they have it.
std::string in_quick_functions(std::string_view device, const Op& op) {
  if (device == "a * sigmoid(a)") return "quick_silu(a)";
  if (device == "$gelu(a)") {
    return op.attributes->approximate == GeluKind::kTanh ? "quick_gelu_tanh(a)" : "$gelu(a)";
  }
  constexpr std::array kQuick = {
      std::pair{"exp(a)", "quick_exp(a)"},         std::pair{"log(a)", "quick_log(a)"},
      std::pair{"log1p(a)", "quick_log1p(a)"},     std::pair{"tanh(a)", "quick_tanh(a)"},
      std::pair{"sigmoid(a)", "quick_sigmoid(a)"}, std::pair{"a / b", "quick_divide(a, b)"},
  };
  for (const auto& [precise, quick] : kQuick) {
    if (device == precise) return quick;
  }
  return std::string(device);
}

}  // namespace

void cannot_generate(const Op& op, std::string_view why) {
  throw Error(Fault::kUnavailable, fmt::format("{} ({}) cannot be generated: {}",
                                               in_quotes(op.name), op.row->name, why));
}

std::string Piece::text(std::string_view indent) const {
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

void Emitter::enter(Piece& piece, std::uint8_t phase) {
  piece_ = &piece;
  phase_ = phase;
}

void Emitter::set_loop(const Index& e, std::string slot) {
  loop_ = e;
  slot_ = std::move(slot);
}

void Emitter::set_tile(const Step& step, const std::map<TensorId, std::string>& tiles) {
  tile_step_ = step;
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

Index Emitter::index(const std::string& text, Spread spread, bool aligned) {
  Index result{.name = fresh("e"), .spread = spread, .aligned = aligned, .path = std::nullopt};
  std::string& code = spread == Spread::kScattered ? piece_->lanes : piece_->before;
  code += fmt::format("const idx {} = {};\n", result.name, text);
  return result;
}

Index Emitter::derive(const Index& from, const Step& step) {
  if (step.identity()) return from;
  const std::string key = fmt::format("{} {}", from.name, step.text("x"));
  const auto found = piece_->indices.find(key);
  if (found != piece_->indices.end()) return found->second;
  if (matrix_ && from.name == loop_.name) {
    return piece_->indices.emplace(key, derive_in_matrix(from, step)).first->second;
  }
  Spread spread = from.spread;
  bool aligned = from.aligned;
  if (from.spread == Spread::kUnit) {
    if (from.aligned) {
      spread = step.spread(piece_->width);
      aligned = step.aligned(piece_->width);
    } else if (step.axes.size() > 1 || (!step.axes.empty() && step.axes[0].stride > 1)) {
      spread = Spread::kScattered;
    } else if (step.axes.empty() || step.axes[0].stride == 0) {
      spread = Spread::kUniform;
    }
  }
  const std::string source =
      from.spread == Spread::kUnit && spread == Spread::kScattered ? from.lane() : from.name;
  Index result = index(step.text(source), spread, aligned);
  if (from.path) {
    result.path = *from.path;
    result.path->push_back(step);
  }
  return piece_->indices.emplace(key, result).first->second;
}

// rows * stride + found... : the element of a table that an index found in memory names.
Index Emitter::looked_up(const Index& rows, const Value& found, std::uint64_t stride,
                         const Index& rest) {
  const bool uniform = found.uniform && rows.spread == Spread::kUniform;
  const bool unit = uniform && rest.spread == Spread::kUnit;
  const bool all_uniform = uniform && rest.spread == Spread::kUniform;
  const Spread spread = unit ? Spread::kUnit : all_uniform ? Spread::kUniform : Spread::kScattered;
  const std::string base = spread == Spread::kScattered ? rows.lane() : rows.name;
  const std::string tail = spread == Spread::kScattered ? rest.lane() : rest.name;
  return index(fmt::format("{} + (idx){} * {} + {}", base, found.text, stride, tail), spread,
               rest.aligned && stride % piece_->width == 0);
}

// Memory.

std::string Emitter::pointer(TensorId tensor) {
  const TensorId storage = graph_.storage_of(tensor);
  auto found = std::ranges::find(storages_, storage);
  if (found == storages_.end()) found = storages_.insert(storages_.end(), storage);
  const std::string name = fmt::format("p{}", found - storages_.begin());
  const DType dtype = graph_.tensors[tensor].type.dtype;
  if (dtype == graph_.tensors[storage].type.dtype) return name;
  // A cast that does without the const that a memory only read has.
  return fmt::format("(({}*){})", stored_type(dtype), name);
}

// __restrict__ tells the compiler that loads may pass stores: not where a kernel works in place.
std::string Emitter::parameters() const {
  std::string text;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const Tensor& tensor = graph_.tensors[storages_[i]];
    const bool written = written_.contains(storages_[i]);
    text += fmt::format("{}{}{}* {}p{}", i > 0 ? ", " : "", written ? "" : "const ",
                        stored_type(tensor.type.dtype), written ? "" : "__restrict__ ", i);
  }
  return text;
}

Value Emitter::define(std::string_view prefix, ComputeType type, const std::string& text,
                      bool uniform) {
  const std::string name = fresh(prefix);
  std::string& code = uniform ? piece_->before : piece_->lanes;
  code += fmt::format("const {} {} = {};\n", name_of(type), name, text);
  return {.text = name, .type = type, .uniform = uniform};
}

Value Emitter::load(TensorId tensor, const Index& at) {
  const DType dtype = graph_.tensors[tensor].type.dtype;
  const ComputeType type = compute_type(dtype);
  const std::string memory = pointer(tensor);
  if (matrix_) return load_in_matrix(tensor, at);
  if (at.spread == Spread::kScattered && at.path && at.path->size() == 1) {
    const Step& step = at.path->front();
    const auto tile = tiles_.find(tensor);
    if (tile != tiles_.end() && step == tile_step_) {
      return define("v", type, fmt::format("{}[(c + j) * kPitch + b]", tile->second), false);
    }
    transposed_.emplace_back(tensor, step);
  }
  const bool pack = at.spread == Spread::kUnit && at.aligned;
  if (!pack) {
    return define("v", type, fmt::format("fetch({}, {})", memory, at.lane()),
                  at.spread == Spread::kUniform);
  }
  if (is_packed(dtype)) {
    const std::string name = fresh("x");
    piece_->before += fmt::format("const auto {} = load_nibbles<{}>({}, {});\n", name,
                                  piece_->width_text, memory, at.name);
    return define("v", type, fmt::format("{}.get(j)", name), false);
  }
  const std::string loaded =
      fmt::format("load_pack<{}>({} + {})", piece_->width_text, memory, at.name);
  if (Held* held = held_at(tensor, at)) {
    held->since = phase_;
    piece_->before += fmt::format("{}[{}] = {};\n", held->name, slot_, loaded);
    return from_held(tensor, *held);
  }
  const std::string name = fresh("x");
  piece_->before += fmt::format("const Pack<{}, {}> {} = {};\n", stored_type(dtype),
                                piece_->width_text, name, loaded);
  return define("v", type, fmt::format("to_compute({}.v[j])", name), false);
}

Held* Emitter::held_at(TensorId tensor, const Index& at) {
  const auto found = held_.find(tensor);
  return found != held_.end() && at.name == loop_.name ? &found->second : nullptr;
}

Value Emitter::from_held(TensorId tensor, const Held& held) {
  const std::string element = fmt::format("{}[{}].v[j]", held.name, slot_);
  return define("v", compute_type(graph_.tensors[tensor].type.dtype),
                held.computed ? element : fmt::format("to_compute({})", element), false);
}

void Emitter::store(TensorId tensor, const Index& at, const Value& value, std::string_view guard) {
  const DType dtype = graph_.tensors[tensor].type.dtype;
  if (is_packed(dtype)) {
    cannot_generate(op(graph_.tensors[tensor].producer),
                    fmt::format("results of type {}, two a byte", name_of(dtype)));
  }
  const std::string memory = pointer(tensor);
  written_.insert(graph_.storage_of(tensor));
  if (matrix_) return store_in_matrix(tensor, at, value);
  const std::string condition = guard.empty() ? "" : fmt::format("if ({}) ", guard);
  const std::string text = converted(value, compute_type(dtype)).text;
  if (at.spread == Spread::kUnit && at.aligned) {
    const std::string name = fresh("y");
    piece_->before +=
        fmt::format("Pack<{}, {}> {};\n", stored_type(dtype), piece_->width_text, name);
    piece_->lanes += fmt::format("store_as({}.v[j], {});\n", name, text);
    piece_->after += fmt::format("{}store_pack<{}>({} + {}, {});\n", condition, piece_->width_text,
                                 memory, at.name, name);
    return;
  }
  piece_->lanes += fmt::format("{}put({}, {}, {});\n", condition, memory, at.lane(), text);
}

// Elements.

Value Emitter::value(TensorId tensor, const Index& at) {
  Index index = at;
  while (graph_.tensors[tensor].view_of != kNone) {
    const Tensor& view = graph_.tensors[tensor];
    tensor = view.view_of;
    if (!view.view_perm.empty()) {
      index = derive(index, permute_step(graph_.tensors[tensor].type.shape, view.view_perm));
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
      const std::string element = fmt::format("{}[{}].v[j]", held->name, slot_);
      piece_->lanes += held->computed ? fmt::format("{} = {};\n", element, result.text)
                                      : fmt::format("store_as({}, {});\n", element, result.text);
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

Step Emitter::operand_step(const Op& op, std::size_t i) const {
  const Shape& shape = graph_.tensors[op.outputs[0]].type.shape;
  if (!op.row->per_channel || i == 0) {
    return broadcast_step(graph_.tensors[op.operands[i].tensor].type.shape, shape);
  }
  Step step;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    step.append(shape[axis], axis == 1 ? 1 : 0);
  return step;
}

Value Emitter::operand(const Op& op, std::size_t i, const Index& at) {
  const Operand& operand = op.operands[i];
  if (operand.tensor == kNone) return {.text = {}, .uniform = true, .number = operand.number};
  return value(operand.tensor, derive(at, operand_step(op, i)));
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
  if (op.row->infer == infer_loss) {
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

Value Emitter::pointwise(const Op& op, std::size_t k, const Index& at) {
  std::vector<Value> inputs;
  const bool selects = op.row->infer == infer_where;
  ComputeType computed =
      op.row->type_rule == TypeRule::kFloat ? ComputeType::kF32 : ComputeType::kBool;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    inputs.push_back(operand(op, i, at));
    if (selects && i == 0) continue;
    const std::optional<double>& number = inputs[i].number;
    if (!number) {
      computed = std::max(computed, inputs[i].type);
    } else if (*number != static_cast<double>(static_cast<std::int64_t>(*number))) {
      computed = std::max(computed, ComputeType::kF32);
    } else {
      computed = std::max(computed, ComputeType::kI32);
    }
  }
  const ComputeType result = compute_type(graph_.tensors[op.outputs[k]].type.dtype);
  if (is_float(result) && op.row->infer != infer_cast) computed = std::max(computed, result);
  const std::string_view device = k == 0 ? op.row->device : op.row->device_more[k - 1];
  return expression(op, device, inputs, at, computed, result);
}

// What a word of a device expression stands for.
std::string Emitter::word(const Op& op, std::string_view word, const std::vector<Value>& inputs,
                          const Index& at, ComputeType computed) {
  const Attributes& attributes = *op.attributes;
  const bool selects = op.row->infer == infer_where;
  const auto input = [&](std::size_t i, double otherwise) {
    const ComputeType type = selects && i == 0 ? ComputeType::kBool : computed;
    if (i < inputs.size()) return converted(inputs[i], type).text;
    return literal(otherwise, type);
  };
  const bool trains = !op.rows.empty() || inline_rows(op);
  const double infinity = std::numeric_limits<double>::infinity();
  if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'e') {
    return input(static_cast<std::size_t>(word[0] - 'a'), 0);
  }
  if (word == "s") {
    const auto id = static_cast<OpId>(&op - graph_.ops.data());
    return fmt::format("{}[{}]", state_of(id), inline_rows(op) ? "0" : row_lane_);
  }
  if (word == "$zero") return literal(0, computed);
  if (word == "$one") return literal(1, computed);
  if (word == "$min") return input(1, attributes.min.value_or(-infinity));
  if (word == "$max") return input(2, attributes.max.value_or(infinity));
  if (word == "$weight") return input(1, 1);
  if (word == "$bias") return input(2, 0);
  if (word == "$mean")
    return trains ? this->word(op, "s", inputs, at, computed) + ".mean" : input(3, 0);
  if (word == "$rstd") {
    if (trains) return this->word(op, "s", inputs, at, computed) + ".rstd";
    return fmt::format("rsqrt({} + {})", input(4, 1), literal(attributes.eps, computed));
  }
  if (word == "$count") return literal(static_cast<double>(op.rows.row_length()), computed);
  // What is stored in 16 bits or less need not be worked out to more.
  const bool narrow = bytes_of(graph_.tensors[op.outputs[0]].type.dtype, 1) <= 2;
  if (word == "$sigmoid") return narrow ? "sigmoid_narrow" : "sigmoid";
  if (word == "$gelu") {
    if (attributes.approximate == GeluKind::kExact) return "gelu_exact";
    return narrow ? "gelu_tanh_narrow" : "gelu_tanh";
  }
  if (word == "$seed") return fmt::format("{}ull", dropout_seed(op));
  if (word == "$index") return at.lane();
  if (word == "$limit") return fmt::format("{}u", dropout_threshold(op));
  if (word == "$kept") return literal(1 / (1 - attributes.p), computed);
  return {};
}

Value Emitter::expression(const Op& op, std::string_view device, const std::vector<Value>& inputs,
                          const Index& at, ComputeType computed, ComputeType result) {
  bool uniform = std::ranges::all_of(inputs, &Value::uniform);
  const bool quick = matrix_ && matrix_->quick && computed == ComputeType::kF32;
  const std::string text = substitute(
      quick ? in_quick_functions(device, op) : std::string(device), [&](std::string_view found) {
        if (found == "$index" && at.spread != Spread::kUniform) uniform = false;
        if ((found == "s" || found == "$mean" || found == "$rstd") &&
            (row_lane_ == "j" || inline_rows(op))) {
          uniform = false;
        }
        return word(op, found, inputs, at, computed);
      });
  return define("v", result, text, uniform);
}

// Movements.

Value Emitter::movement(const Op& op, const Index& at) {
  const auto shape_of = [&](std::size_t i) -> const Shape& {
    return graph_.tensors[op.operands[i].tensor].type.shape;
  };
  switch (op.row->access) {
    case Access::kSame: return operand(op, 0, at);
    case Access::kPermute:
      return value(op.operands[0].tensor,
                   derive(at, permute_step(shape_of(0), op.attributes->perm)));
    case Access::kSelect:
      if (op.row->max_inputs > 1) return concat(op, at);
      return value(op.operands[0].tensor,
                   derive(at, slice_step(shape_of(0), graph_.tensors[op.outputs[0]].type.shape,
                                         *op.attributes)));
    case Access::kGather: {
      // Frameworks disagree on the order of an embedding's inputs; the indices are the integers.
      const auto is_table = [&](std::size_t i) {
        return is_float(graph_.tensors[op.operands[i].tensor].type.dtype);
      };
      const bool embeds = op.row->infer == infer_embedding;
      const std::size_t table = embeds && !is_table(0) && is_table(1) ? 1 : 0;
      const std::size_t axis = embeds ? 0 : axis_of(op, shape_of(0).size());
      return value(op.operands[table].tensor, gathered(op, table, 1 - table, axis, at));
    }
    case Access::kScatter: break;
  }
  cannot_generate(op, "its result is read in the kernel that writes it");
}

// The element of the table for the element of a result whose axes are those of the table, with the
// indices' axes in place of `axis`.
Index Emitter::gathered(const Op& op, std::size_t table, std::size_t indices, std::size_t axis,
                        const Index& at) {
  const Tensor& rows = graph_.tensors[op.operands[table].tensor];
  const Tensor& ids = graph_.tensors[op.operands[indices].tensor];
  const std::uint64_t inner = elements_between(rows.type.shape, axis + 1, rows.type.shape.size());
  const std::uint64_t outer = elements_between(rows.type.shape, 0, axis);
  const auto step = [&](std::uint64_t of_outer, std::uint64_t of_ids, std::uint64_t of_inner) {
    Step result;
    result.append(outer, of_outer);
    result.append(ids.elements, of_ids);
    result.append(inner, of_inner);
    return result;
  };
  const Value id = value(op.operands[indices].tensor, derive(at, step(0, 1, 0)));
  const Index base = derive(at, step(rows.type.shape[axis] * inner, 0, 0));
  return looked_up(base, id, inner, derive(at, step(0, 0, 1)));
}

Index Emitter::scatter_target(const Op& op, const Index& at) {
  const Shape& shape = graph_.tensors[op.operands[0].tensor].type.shape;
  return gathered(op, 0, 1, axis_of(op, shape.size()), at);
}

// Every part is looked at, with its index held in range; the part that the element lies in wins.
Value Emitter::concat(const Op& op, const Index& at) {
  const Shape& shape = graph_.tensors[op.outputs[0]].type.shape;
  const std::size_t axis = axis_of(op, shape.size());
  const std::uint64_t inner = elements_between(shape, axis + 1, shape.size());
  const std::uint64_t run = shape[axis] * inner;
  const std::uint64_t outer = elements_between(shape, 0, axis);
  const auto step = [&](std::uint64_t of_outer, std::uint64_t of_run) {
    Step result;
    result.append(outer, of_outer);
    result.append(run, of_run);
    return result;
  };
  const ComputeType type = compute_type(graph_.tensors[op.outputs[0]].type.dtype);
  const Index place = derive(at, step(0, 1));
  std::uint64_t begin = 0;
  std::string chosen;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const Tensor& part = graph_.tensors[op.operands[i].tensor];
    if (part.elements == 0) continue;
    const std::uint64_t length = part.type.shape[axis] * inner;
    const bool whole_groups = begin % piece_->width == 0 && length % piece_->width == 0 &&
                              place.aligned && place.spread != Spread::kScattered;
    const Spread spread = whole_groups ? place.spread : Spread::kScattered;
    const std::string x = whole_groups ? place.name : place.lane();
    const Index base = derive(at, step(length, 0));
    const std::string inside = fresh("in");
    std::string& code = spread == Spread::kScattered ? piece_->lanes : piece_->before;
    code +=
        fmt::format("const bool {} = {} >= {} && {} < {};\n", inside, x, begin, x, begin + length);
    const std::string row = spread == Spread::kScattered ? base.lane() : base.name;
    const Index from =
        index(fmt::format("{} ? {} + ({} - {}) : 0", inside, row, x, begin), spread, true);
    const std::string text = converted(value(op.operands[i].tensor, from), type).text;
    chosen = chosen.empty() ? text : fmt::format("{} ? {} : {}", inside, text, chosen);
    begin += length;
  }
  return define("v", type, chosen, false);
}

Value Emitter::picked(const Op& op, const Index& at) {
  const auto known = picked_.find(static_cast<OpId>(&op - graph_.ops.data()));
  if (known != picked_.end()) return {.text = known->second, .type = ComputeType::kF32};
  const Shape& shape = graph_.tensors[op.operands[0].tensor].type.shape;
  Step rows;
  rows.append(graph_.tensors[op.operands[1].tensor].elements, shape.back());
  const Value target = value(op.operands[1].tensor, at);
  const Index base = derive(at, rows);
  return value(op.operands[0].tensor,
               looked_up(base, target, 1, {.name = "0", .path = std::nullopt}));
}

}  // namespace fusecalc
