#include "codegen/row_holding.hpp"

#include <algorithm>
#include <optional>

namespace fusecalc {
namespace {

// The one value of full size that a value is computed from, where keeping that takes less room:
// computing it again is cheaper than the registers.
std::optional<TensorId> narrower_source(const Emitter& emitter, std::uint64_t space, TensorId id) {
  const OpGraph& graph = emitter.graph();
  const OpId producer = graph.tensors[id].producer;
  if (!made_inside(emitter, id)) return std::nullopt;
  if (emitter.op(producer).op_class != OpClass::kPointwise) return std::nullopt;
  std::optional<TensorId> source;
  for (const Operand& operand : emitter.op(producer).operands) {
    if (operand.tensor == kNone) continue;
    if (graph.value_of(operand.tensor).elements != space) continue;
    const bool same_place = graph.tensors[operand.tensor].view_perm.empty();
    if (source || !same_place) return std::nullopt;
    source = graph.tensors[operand.tensor].value;
  }
  if (!source || is_packed(graph.tensors[*source].type.dtype) ||
      register_bytes(emitter, *source) >= register_bytes(emitter, id)) {
    return std::nullopt;
  }
  return source;
}

}  // namespace

bool made_inside(const Emitter& emitter, TensorId id) {
  const OpId producer = emitter.graph().tensors[id].producer;
  return producer != kNone && emitter.contains(producer);
}

std::uint64_t stored_bytes(const Emitter& emitter, TensorId id) {
  return bytes_of(emitter.graph().tensors[id].type.dtype, 1);
}

std::uint64_t register_bytes(const Emitter& emitter, TensorId id) {
  const bool computed =
      made_inside(emitter, id) && is_float(emitter.graph().tensors[id].type.dtype);
  return std::max<std::uint64_t>(stored_bytes(emitter, id), computed ? sizeof(float) : 0);
}

std::vector<TensorId> find_held(const Emitter& emitter, std::uint64_t space, std::uint8_t last) {
  const OpGraph& graph = emitter.graph();
  std::vector<TensorId> held;
  const auto add = [&](TensorId id, bool inside, std::uint8_t first) {
    // Two to a byte are looked up again: a place on chip has whole bytes.
    if (graph.tensors[id].elements != space || is_packed(graph.tensors[id].type.dtype)) return;
    std::uint8_t final = inside ? first : 0;
    for (const OpId reader : graph.readers[id]) {
      if (!emitter.contains(reader)) continue;
      const Op& op = emitter.op(reader);
      const bool again = !op.rows.empty() && op.passes > 1;
      if (!inside) first = std::min(first, emitter.runs_in(reader));
      final = std::max(final, again ? emitter.ready_in(reader) : emitter.runs_in(reader));
    }
    if (final > first) held.push_back(id);
  };
  for (const Phases::Use& use : emitter.phases().reads) add(use.value, false, last);
  for (const OpId id : emitter.kernel()) {
    for (const TensorId output : emitter.op(id).outputs) {
      if (!emitter.is_row_result(output)) add(output, true, emitter.ready_in(id));
    }
  }
  // From the last to the first, so that chains are followed to their beginning.
  for (std::size_t i = held.size(); i-- > 0;) {
    const std::optional<TensorId> narrower = narrower_source(emitter, space, held[i]);
    if (!narrower) continue;
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    if (std::ranges::find(held, *narrower) == held.end()) held.push_back(*narrower);
    i = held.size();
  }
  return held;
}

}  // namespace fusecalc
