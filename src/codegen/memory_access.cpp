#include "codegen/memory_access.hpp"

#include <fmt/format.h>

#include <array>

#include "codegen/matrix_access.hpp"

namespace fusecalc {
namespace {

// A value from memory, whose element as it is stored the code `stored` is.
Value from_memory(Value value, const std::string& stored, DType dtype) {
  if (is_packed(dtype)) return value;
  value.stored = stored;
  value.stored_as = dtype;
  return value;
}

std::string place_of(const HeldValue& held) { return held.name + kHeldGroup; }

// Converts a lane's value to the type of a pack.
std::string to_pack(const CodeBlock& block, const std::string& pack, const std::string& value) {
  return fmt::format("{}({}.v[j], {});\n", block.width_text == "1" ? "store_alone" : "store_as",
                     pack, value);
}

// Of what moves a group in or out.
std::string_view suffix_of(const Scope& scope, const Index& at) {
  return scope.loop.once && at.name == scope.loop.element.name ? "_once" : "";
}

// A group that is aligned, 16 bytes at a time.
Value load_group(const Scope& scope, TensorId tensor, const Index& at, const std::string& memory) {
  CodeBlock& block = scope.block;
  const DType dtype = scope.tensor(tensor).type.dtype;
  const ComputeType type = compute_type(dtype);
  if (is_packed(dtype)) {
    const std::string name = scope.fresh("x");
    block.before += fmt::format("const auto {} = load_nibbles<{}>({}, {});\n", name,
                                block.width_text, memory, at.name);
    Value value = scope.define(type, fmt::format("{}.get(j)", name), false);
    if (type == ComputeType::kI32) value.as_float = fmt::format("{}.as_float(j)", name);
    return value;
  }
  const HeldValue* const held = scope.loop.held_at(tensor, at);
  if (held != nullptr) block.held.push_back(tensor);
  if (held != nullptr && held->copied) {
    block.copies += fmt::format("copy({}, {} + {});\n", place_of(*held), memory, at.name);
    return load_held(scope, *held);
  }
  const std::string name = scope.fresh("x");
  block.before +=
      fmt::format("const Pack<{}, {}> {} = load_pack{}<{}>({} + {});\n", stored_type(dtype),
                  block.width_text, name, suffix_of(scope, at), block.width_text, memory, at.name);
  if (held != nullptr) {
    block.before += fmt::format("hold_at({}, {});\n", place_of(*held), name);
  }
  return from_memory(scope.define(type, fmt::format("{}.get(j)", name), false), name + ".v[j]",
                     dtype);
}

// The loop's group of a tensor that is transposed on chip.
Value load_transposed(const Scope& scope, TensorId tensor, const std::string& tile) {
  const TransposedTiles& tiles = scope.loop.tiles;
  const DType dtype = scope.tensor(tensor).type.dtype;
  const ComputeType type = compute_type(dtype);
  if (!tiles.element.empty()) {
    return scope.define(type, fmt::format("{}[{}]", tile, tiles.element), false);
  }
  const std::string name = scope.fresh("x");
  const std::string way =
      scope.block.width == tiles.width
          ? fmt::format("take_group<{}, {}, {}>", tiles.width, tiles.aligned, stored_type(dtype))
          : fmt::format("take_one<{}, {}>", tiles.width, stored_type(dtype));
  scope.block.before += fmt::format("const auto {} = {}({}, x, b);\n", name, way, tile);
  return from_memory(scope.define(type, fmt::format("{}.get(j)", name), false), name + ".v[j]",
                     dtype);
}

// Whether the index is that of an element in its row, and groups of such begin anywhere.
bool is_across(const Scope& scope, TensorId tensor, const Index& at) {
  const std::uint64_t length = scope.loop.row_length;
  if (length == 0 || !at.path || at.path->size() != 1) return false;
  const DType dtype = scope.tensor(tensor).type.dtype;
  const IndexTransform& map = at.path->front();
  return map.offset == 0 && map.axes.size() == 2 && map.axes[0].stride == 0 &&
         map.axes[1] == StridedMap::Axis{.extent = length, .stride = 1} && !is_packed(dtype) &&
         bytes_of(dtype, scope.block.width) % 4 == 0;
}

}  // namespace

Value load(const Scope& scope, TensorId tensor, const Index& at) {
  const std::string memory = scope.kernel.parameters().input(tensor);
  if (scope.loop.matrix) return load_in_matrix(scope, tensor, at);
  const ComputeType type = compute_type(scope.tensor(tensor).type.dtype);
  if (at.path && at.path->size() == 1) {
    const IndexTransform& map = at.path->front();
    const TransposedTiles& tiles = scope.loop.tiles;
    const auto tile = tiles.names.find(tensor);
    // A group of one element is not scattered.
    if (tile != tiles.names.end() && map == tiles.map) {
      return load_transposed(scope, tensor, tile->second);
    }
    if (at.pattern == LanePattern::kScattered)
      scope.block.scattered_reads.emplace_back(tensor, map);
  }
  if (is_across(scope, tensor, at)) {
    const std::string name = scope.fresh("x");
    scope.block.before += fmt::format("const auto {} = load_across<{}>({}, r, {});\n", name,
                                      scope.block.width, memory, scope.loop.row_length);
    return scope.define(type, fmt::format("{}.get(j)", name), false);
  }
  if (at.pattern == LanePattern::kUnit && at.aligned) return load_group(scope, tensor, at, memory);
  return scope.define(type, fmt::format("fetch({}, {})", memory, at.lane()),
                      at.pattern == LanePattern::kUniform);
}

Value load_from(const Scope& scope, DType dtype, const std::string& address, LanePattern pattern) {
  const ComputeType type = compute_type(dtype);
  if (pattern != LanePattern::kUnit) {
    return scope.define(type, fmt::format("fetch({}, 0)", address),
                        pattern == LanePattern::kUniform);
  }
  const std::string name = scope.fresh("x");
  scope.block.before +=
      fmt::format("const Pack<{}, {}> {} = load_pack<{}>({});\n", stored_type(dtype),
                  scope.block.width_text, name, scope.block.width_text, address);
  return from_memory(scope.define(type, fmt::format("{}.get(j)", name), false), name + ".v[j]",
                     dtype);
}

Value load_held(const Scope& scope, const HeldValue& held) {
  const std::string name = scope.fresh("x");
  scope.block.before += fmt::format("const auto {} = {};\n", name, place_of(held));
  return scope.define(compute_type(scope.tensor(held.tensor).type.dtype),
                      fmt::format("{}.get(j)", name), false);
}

void hold(const Scope& scope, const HeldValue& held, const Value& value) {
  CodeBlock& block = scope.block;
  block.held.push_back(held.tensor);
  const DType dtype = scope.tensor(held.tensor).type.dtype;
  const std::string name = scope.fresh("x");
  block.before += fmt::format("Pack<{}, {}> {};\n", held.computed ? "f32" : stored_type(dtype),
                              block.width_text, name);
  block.lanes += to_pack(block, name, value.text);
  block.after += fmt::format("hold_at({}, {});\n", place_of(held), name);
}

void combine(const Scope& scope, TensorId tensor, const Index& at, const Value& value, Combine how,
             std::string_view guard) {
  constexpr std::array<std::string_view, 5> kWays = {"", "Adding", "Multiplying", "Larger",
                                                     "Smaller"};
  const DType dtype = scope.tensor(tensor).type.dtype;
  const std::string memory = scope.kernel.parameters().output(tensor);
  const std::string condition = guard.empty() ? "" : fmt::format("if ({}) ", guard);
  const std::string text = converted(value, compute_type(dtype)).text;
  CodeBlock& block = scope.block;
  const bool adds = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
  if (how == Combine::kAdd && adds && at.pattern == LanePattern::kUnit && at.aligned) {
    const std::string name = scope.fresh("y");
    block.before += fmt::format("Pack<{}, {}> {};\n", stored_type(dtype), block.width_text, name);
    block.lanes += to_pack(block, name, text);
    block.after += fmt::format("{}add_pack<{}>({} + {}, {});\n", condition, block.width_text,
                               memory, at.name, name);
    return;
  }
  block.lanes += fmt::format("{}combine_at<{}>({}, {}, {});\n", condition,
                             kWays[static_cast<std::size_t>(how)], memory, at.lane(), text);
}

void store(const Scope& scope, TensorId tensor, const Index& at, const Value& value,
           std::string_view guard) {
  const DType dtype = scope.tensor(tensor).type.dtype;
  const std::string memory = scope.kernel.parameters().output(tensor);
  if (scope.loop.matrix) return store_in_matrix(scope, tensor, at, value);
  CodeBlock& block = scope.block;
  const std::string condition = guard.empty() ? "" : fmt::format("if ({}) ", guard);
  const std::string text = converted(value, compute_type(dtype)).text;
  if (at.pattern != LanePattern::kUnit || !at.aligned) {
    block.lanes += fmt::format("{}put({}, {}, {});\n", condition, memory, at.lane(), text);
    return;
  }
  const std::string name = scope.fresh("y");
  block.before += fmt::format("Pack<{}, {}> {};\n", stored_type(dtype), block.width_text, name);
  block.lanes += value.stored_as == dtype ? fmt::format("{}.v[j] = {};\n", name, value.stored)
                                          : to_pack(block, name, text);
  block.after += fmt::format("{}store_pack{}<{}>({} + {}, {});\n", condition, suffix_of(scope, at),
                             block.width_text, memory, at.name, name);
}

}  // namespace fusecalc
