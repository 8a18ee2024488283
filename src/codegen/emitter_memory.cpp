// What the emitter knows of memory: pointers, loads, stores, and what stays on chip.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/emitter.hpp"

namespace fusecalc {

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
  if (at.pattern == LanePattern::kScattered && at.path && at.path->size() == 1) {
    const IndexMap& map = at.path->front();
    const auto tile = tiles_.find(tensor);
    if (tile != tiles_.end() && map == tile_map_) {
      return define("v", type, fmt::format("{}[(c + j) * kPitch + b]", tile->second), false);
    }
    transposed_.emplace_back(tensor, map);
  }
  const bool pack = at.pattern == LanePattern::kUnit && at.aligned;
  if (!pack) {
    return define("v", type, fmt::format("fetch({}, {})", memory, at.lane()),
                  at.pattern == LanePattern::kUniform);
  }
  if (is_packed(dtype)) {
    const std::string name = fresh("x");
    piece_->before += fmt::format("const auto {} = load_nibbles<{}>({}, {});\n", name,
                                  piece_->width_text, memory, at.name);
    return define("v", type, fmt::format("{}.get(j)", name), false);
  }
  const std::string loaded =
      fmt::format("load_pack<{}>({} + {})", piece_->width_text, memory, at.name);
  Held* const held = held_at(tensor, at);
  if (held != nullptr && held->copied) {
    held->since = phase_;
    piece_->copies += fmt::format("copy({}, {} + {});\n", place_of(*held), memory, at.name);
    return from_held(tensor, *held);
  }
  const std::string name = fresh("x");
  piece_->before += fmt::format("const Pack<{}, {}> {} = {};\n", stored_type(dtype),
                                piece_->width_text, name, loaded);
  if (held != nullptr) {
    held->since = phase_;
    piece_->before += fmt::format("hold_at({}, {});\n", place_of(*held), name);
  }
  return define("v", type, fmt::format("{}.get(j)", name), false);
}

std::string Emitter::place_of(const Held& held) { return held.name + kPlace; }

Held* Emitter::held_at(TensorId tensor, const Index& at) {
  const auto found = held_.find(tensor);
  return found != held_.end() && at.name == loop_.name ? &found->second : nullptr;
}

Value Emitter::from_held(TensorId tensor, const Held& held) {
  const std::string name = fresh("x");
  piece_->before += fmt::format("const auto {} = {};\n", name, place_of(held));
  return define("v", compute_type(graph_.tensors[tensor].type.dtype),
                fmt::format("{}.get(j)", name), false);
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
  if (at.pattern == LanePattern::kUnit && at.aligned) {
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

}  // namespace fusecalc
