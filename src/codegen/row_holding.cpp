#include "codegen/row_holding.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "codegen/text.hpp"

namespace fusecalc {
namespace {

// The one full-size value that a pointwise op of the kernel computes a value from.
std::optional<TensorId> source_of(const KernelView& kernel, std::uint64_t space, TensorId id) {
  const OpGraph& graph = kernel.graph();
  const OpId producer = graph.tensors[id].producer;
  if (!kernel.makes(id) || producer == kNone) return std::nullopt;
  if (kernel.op(producer).op_class != OpClass::kPointwise) return std::nullopt;
  std::optional<TensorId> source;
  for (const Operand& operand : kernel.op(producer).operands) {
    if (operand.tensor == kNone) continue;
    if (graph.tensors[operand.tensor].elements != space) continue;
    if (source) return std::nullopt;
    source = graph.tensors[operand.tensor].window;
  }
  if (source && is_packed(graph.tensors[*source].type.dtype)) return std::nullopt;
  return source;
}

// The value nearest before it, if holding that takes less room: computing a value again is cheaper
// than the registers. Further back only past ops without special functions.
std::optional<TensorId> narrower_source(const KernelView& kernel, std::uint64_t space,
                                        TensorId id) {
  TensorId at = id;
  while (const std::optional<TensorId> source = source_of(kernel, space, at)) {
    if (register_bytes(kernel, *source) < register_bytes(kernel, id)) return source;
    if (kernel.op(kernel.graph().tensors[at].producer).row->instructions > 0) return std::nullopt;
    at = *source;
  }
  return std::nullopt;
}

// When a full-size value is needed: made or first read, and last read.
struct Needed {
  TensorId tensor = kNone;
  std::uint8_t first = 0;
  std::uint8_t last = 0;
};

Needed when_needed(const KernelView& kernel, TensorId id, std::uint8_t first) {
  const OpGraph& graph = kernel.graph();
  Needed needed{.tensor = id, .first = first};
  for (const OpId reader : graph.readers[graph.tensors[id].value]) {
    if (!kernel.contains(reader)) continue;
    const Op& op = kernel.op(reader);
    const auto operand = std::ranges::find_if(op.operands, [&](const Operand& each) {
      return each.tensor != kNone && graph.tensors[each.tensor].window == id;
    });
    if (operand == op.operands.end()) continue;
    // What is read again are the first operands; a weight is read after the rows were.
    const bool again = !op.rows.empty() && op.passes > 1;
    const bool weight = again && operand - op.operands.begin() >= op.row->row_inputs;
    const std::uint8_t last_use = again ? kernel.ready_in(reader) : kernel.begins_in(reader);
    needed.first = std::min(needed.first, weight ? last_use : kernel.begins_in(reader));
    needed.last = std::max(needed.last, last_use);
  }
  return needed;
}

// Whether nothing is computed of a value after a phase, unless of `kept`: what is not held is
// computed where it is needed, from what it was made of.
bool is_done(const KernelView& kernel, TensorId id, TensorId kept, std::uint8_t phase,
             std::set<TensorId>& seen) {
  if (id == kept || !seen.insert(id).second) return true;
  const OpGraph& graph = kernel.graph();
  return std::ranges::all_of(graph.readers[graph.tensors[id].value], [&](OpId reader) {
    if (!kernel.contains(reader)) return true;
    const Op& op = kernel.op(reader);
    if (!op.rows.empty() && (op.passes > 1 || kernel.runs_in(reader) > phase)) return false;
    return std::ranges::all_of(op.outputs, [&](TensorId output) {
      if (kernel.is_row_result(output)) return true;
      if (kernel.needed_outside(output) && kernel.stored_in(output) > phase) return false;
      return is_done(kernel, output, kept, phase, seen);
    });
  });
}

// A group of a value is read before those that are made in the same phase are held.
std::vector<Held> with_places(const KernelView& kernel, const std::vector<Needed>& needed) {
  std::vector<Held> held;
  std::vector<const Needed*> in_place;  // what each place holds last
  for (const Needed& each : needed) {
    const auto free = std::ranges::find_if(in_place, [&](const Needed* other) {
      std::set<TensorId> seen;
      return kernel.makes(each.tensor) && other->last == each.first &&
             kernel.tensor(other->tensor).type.dtype == kernel.tensor(each.tensor).type.dtype &&
             is_done(kernel, other->tensor, each.tensor, each.first, seen);
    });
    held.push_back(
        {.tensor = each.tensor, .place = static_cast<std::size_t>(free - in_place.begin())});
    if (free == in_place.end()) {
      in_place.push_back(&each);
    } else {
      *free = &each;
    }
  }
  return held;
}

}  // namespace

std::uint64_t stored_bytes(const KernelView& kernel, TensorId id) {
  return bytes_of(kernel.graph().tensors[id].type.dtype, 1);
}

std::uint64_t register_bytes(const KernelView& kernel, TensorId id) {
  const bool computed = kernel.makes(id) && is_float(kernel.graph().tensors[id].type.dtype);
  return std::max<std::uint64_t>(stored_bytes(kernel, id), computed ? sizeof(float) : 0);
}

std::vector<Held> find_held(const KernelView& kernel, std::uint64_t space, std::uint8_t last) {
  const OpGraph& graph = kernel.graph();
  std::vector<Needed> needed;
  // `first` is the phase that a value is there for even if none of the kernel's ops reads it then.
  const auto add = [&](TensorId id, std::uint8_t first) {
    // Packed types are read again: what is held on chip has whole bytes.
    if (graph.tensors[id].elements != space || is_packed(graph.tensors[id].type.dtype)) return;
    const Needed found = when_needed(kernel, id, first);
    if (found.last > found.first) needed.push_back(found);
  };
  for (const Phases::Use& use : kernel.phases().reads) add(use.value, last);
  for (const OpId id : kernel.ops()) {
    for (const TensorId output : kernel.op(id).outputs) {
      if (kernel.is_row_result(output)) continue;
      const bool waits = graph.outline[id].moves() && !kernel.needed_outside(output);
      add(output, waits ? last : kernel.ready_in(id));
    }
  }
  std::set<TensorId> views;
  for (const OpId id : kernel.ops()) {
    for (const Operand& operand : kernel.op(id).operands) {
      if (operand.tensor == kNone) continue;
      const Tensor& tensor = graph.tensors[operand.tensor];
      if (tensor.window == tensor.value || !views.insert(tensor.window).second) continue;
      add(tensor.window, last);
    }
  }
  // From the last to the first, so that chains of ops are followed to their beginning. Such a
  // source is needed whenever what is computed from it is.
  for (std::size_t i = needed.size(); i-- > 0;) {
    const std::optional<TensorId> narrower = narrower_source(kernel, space, needed[i].tensor);
    if (!narrower) continue;
    needed.erase(needed.begin() + static_cast<std::ptrdiff_t>(i));
    const auto known = std::ranges::find(needed, *narrower, &Needed::tensor);
    if (known != needed.end()) {
      known->last = last;
    } else {
      needed.push_back({.tensor = *narrower, .first = 0, .last = last});
    }
    i = needed.size();
  }
  return with_places(kernel, needed);
}

std::vector<Held> find_read(const KernelView& kernel, std::uint64_t space) {
  std::vector<Held> read;
  for (const OpId id : kernel.ops()) {
    for (const Operand& operand : kernel.op(id).operands) {
      if (operand.tensor == kNone || kernel.makes(operand.tensor)) continue;
      const Tensor& tensor = kernel.tensor(operand.tensor);
      const bool whole = tensor.elements == space && tensor.window == tensor.value;
      if (!whole || is_packed(tensor.type.dtype)) continue;
      if (std::ranges::find(read, tensor.value, &Held::tensor) != read.end()) continue;
      read.push_back({.tensor = tensor.value, .place = read.size()});
    }
  }
  return read;
}

}  // namespace fusecalc
