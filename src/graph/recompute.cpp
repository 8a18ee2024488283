#include "graph/recompute.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "graph/links.hpp"

namespace fusecalc {
namespace {

// Adds copies to the end of a graph's ops and tensors, one request after the other.
class Copier {
 public:
  explicit Copier(const OpGraph& graph) : source_(graph) {
    result_.graph.document = graph.document;
    result_.graph.name = graph.name;
    result_.graph.dims = graph.dims;
    result_.graph.tensors = graph.tensors;
    result_.graph.ops = graph.ops;
    for (OpId op = 0; op < graph.ops.size(); ++op) result_.original.push_back(op);
  }

  void add(const Copies& asked) {
    tensors_.clear();
    std::vector<OpId>& ids = result_.copies.emplace_back();
    for (const OpId op : asked.ops) {
      assert(may_recompute(source_, op));
      const auto id = static_cast<OpId>(result_.graph.ops.size());
      Op copy = source_.ops[op];
      for (TensorId& output : copy.outputs) {
        Tensor tensor = source_.tensors[output];
        const auto added = static_cast<TensorId>(result_.graph.tensors.size());
        tensor.value = tensor.window = tensor.storage = added;
        tensor.producer = id;
        tensor.output = false;
        result_.graph.tensors.push_back(std::move(tensor));
        tensors_.emplace(output, added);
        output = added;
      }
      read_copies(copy);
      result_.graph.ops.push_back(std::move(copy));
      result_.original.push_back(op);
      ids.push_back(id);
    }
    for (const OpId reader : asked.readers) read_copies(result_.graph.ops[reader]);
  }

  // Each copy goes to the place behind the op that it copies: what that waits for runs earlier, and
  // what reads it later.
  Recomputation finish() && {
    OpGraph& graph = result_.graph;
    std::vector<OpId> order(graph.ops.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](OpId id) { return result_.original[id]; });
    std::vector<OpId> new_id(order.size());
    std::vector<Op> ops(order.size());
    std::vector<OpId> original(order.size());
    for (OpId id = 0; id < order.size(); ++id) {
      new_id[order[id]] = id;
      ops[id] = std::move(graph.ops[order[id]]);
      original[id] = result_.original[order[id]];
    }
    graph.ops = std::move(ops);
    result_.original = std::move(original);
    const auto renumber = [&](OpId& id) {
      if (id != kNone) id = new_id[id];
    };
    for (Tensor& tensor : graph.tensors) {
      renumber(tensor.producer);
      renumber(tensor.patched_by);
      renumber(tensor.overwritten_by);
    }
    for (std::vector<OpId>& ids : result_.copies) std::ranges::for_each(ids, renumber);
    result_.id_of.assign(new_id.begin(),
                         new_id.begin() + static_cast<std::ptrdiff_t>(source_.ops.size()));
    link_ops(graph);
    graph.outline = Outline(graph);
    rank_copies();
    return std::move(result_);
  }

 private:
  // In the order of what they copy; each copy behind it.
  void rank_copies() {
    std::vector<OpId> order(result_.original.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {},
                             [&](OpId id) { return source_.rank[result_.original[id]]; });
    result_.graph.rank.resize(order.size());
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
      result_.graph.rank[order[rank]] = rank;
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
    Tensor view = source_.tensors[id];
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
  Copier copier(graph);
  for (const Copies& copies : asked) copier.add(copies);
  return std::move(copier).finish();
}

}  // namespace fusecalc
