#include "graph/recompute.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <unordered_map>
#include <utility>

#include "graph/links.hpp"

namespace fusecalc {
namespace {

// Copies ops of a graph, one request after the other. Each copy stands behind the op that it
// copies: what that waits for runs earlier, and what reads it later.
class Copier {
 public:
  Copier(const OpGraph& graph, std::span<const Copies> asked) : source_(graph) {
    copy_ops(asked);
    copy_tensors(asked);
    last_copy_ = result_.id_of;
  }

  void add(const Copies& asked) {
    tensors_.clear();
    std::vector<OpId>& ids = result_.copies.emplace_back();
    for (const OpId op : asked.ops) {
      assert(may_recompute(source_, op));
      const OpId id = ++last_copy_[op];
      Op& copy = result_.graph.ops[id];
      for (TensorId& output : copy.outputs) {
        Tensor tensor = result_.graph.tensors[output];
        const auto added = static_cast<TensorId>(result_.graph.tensors.size());
        tensor.value = tensor.window = tensor.storage = added;
        tensor.producer = id;
        tensor.output = false;
        result_.graph.tensors.push_back(std::move(tensor));
        tensors_.emplace(output, added);
        output = added;
      }
      read_copies(copy);
      ids.push_back(id);
    }
    for (const OpId reader : asked.readers) read_copies(result_.graph.ops[result_.id_of[reader]]);
  }

  Recomputation finish() && {
    link_ops(result_.graph);
    result_.graph.outline = Outline(result_.graph);
    rank_ops();
    return std::move(result_);
  }

 private:
  void copy_ops(std::span<const Copies> asked) {
    const std::size_t count = source_.ops.size();
    std::vector<std::uint32_t> copies(count, 0);
    std::size_t all = count;
    for (const Copies& each : asked) {
      for (const OpId op : each.ops) ++copies[op];
      all += each.ops.size();
    }
    result_.graph.ops.reserve(all);
    result_.original.reserve(all);
    result_.id_of.reserve(count);
    for (OpId op = 0; op < count; ++op) {
      result_.id_of.push_back(static_cast<OpId>(result_.graph.ops.size()));
      for (std::uint32_t copy = 0; copy <= copies[op]; ++copy) {
        result_.graph.ops.push_back(source_.ops[op]);
        result_.original.push_back(op);
      }
    }
  }

  // Those of the graph; there is room for the results of copies.
  void copy_tensors(std::span<const Copies> asked) {
    std::vector<Tensor>& tensors = result_.graph.tensors;
    std::size_t all = source_.tensors.size();
    for (const Copies& each : asked) {
      for (const OpId op : each.ops) all += source_.ops[op].outputs.size();
    }
    tensors.reserve(all);
    tensors = source_.tensors;
    const auto renumber = [&](OpId& id) {
      if (id != kNone) id = result_.id_of[id];
    };
    for (Tensor& tensor : tensors) {
      renumber(tensor.producer);
      renumber(tensor.patched_by);
      renumber(tensor.overwritten_by);
    }
  }

  // In the order of what they copy; each copy behind it.
  void rank_ops() {
    std::vector<OpId> ranked(source_.ops.size());
    for (OpId op = 0; op < ranked.size(); ++op) ranked[source_.rank[op]] = op;
    result_.graph.rank.resize(result_.graph.ops.size());
    std::uint32_t rank = 0;
    for (const OpId op : ranked) {
      for (OpId id = result_.id_of[op]; id <= last_copy_[op]; ++id) result_.graph.rank[id] = rank++;
    }
  }

  void read_copies(Op& op) {
    for (Operand& operand : op.operands) {
      if (operand.tensor != kNone) operand.tensor = copy_of(operand.tensor);
    }
  }

  // The copy of a tensor that a copy of an op makes or that is a view of one; else the tensor.
  TensorId copy_of(TensorId id) {
    const auto known = tensors_.find(id);
    if (known != tensors_.end()) return known->second;
    // Operands of readers that were rerouted before are no tensors of the first graph.
    if (id >= source_.tensors.size() || !tensors_.contains(source_.tensors[id].value)) return id;
    Tensor view = result_.graph.tensors[id];
    view.view_of = copy_of(view.view_of);
    view.value = tensors_.at(view.value);
    view.storage = view.value;
    const TensorId window = view.window == id ? kNone : copy_of(view.window);
    const auto added = static_cast<TensorId>(result_.graph.tensors.size());
    view.window = window == kNone ? added : window;
    result_.graph.tensors.push_back(std::move(view));
    tensors_.emplace(id, added);
    return added;
  }

  const OpGraph& source_;
  Recomputation result_;
  std::vector<OpId> last_copy_;  // of each op, or its own id
  // Of the request at hand: the copy of each tensor.
  std::unordered_map<TensorId, TensorId> tensors_;
};

}  // namespace

bool may_recompute(const OpGraph& graph, OpId id) {
  const Op& op = graph.ops[id];
  if (op.op_class != OpClass::kPointwise && op.op_class != OpClass::kMovement) return false;
  // An element of a window's or a scatter's result takes many elements.
  if (op.row->access == Access::kWindow || op.row->access == Access::kScatter) return false;
  const auto is_own = [&](TensorId tensor) {
    return graph.tensors[tensor].storage == tensor && graph.tensors[tensor].overwritten_by == kNone;
  };
  const auto stays = [&](const Operand& operand) {
    return operand.tensor == kNone || graph.value_of(operand.tensor).overwritten_by == kNone;
  };
  return std::ranges::all_of(op.outputs, is_own) && std::ranges::all_of(op.operands, stays);
}

Recomputation with_copies(const OpGraph& graph, std::span<const Copies> asked) {
  Copier copier(graph, asked);
  for (const Copies& copies : asked) copier.add(copies);
  return std::move(copier).finish();
}

}  // namespace fusecalc
