// The graph as a whole: which ops overwrite which tensors, the final order, outputs and the
// explicit plan.

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "core/suggest.hpp"
#include "core/text.hpp"
#include "graph/builder.hpp"
#include "graph/recompute.hpp"

namespace fusecalc {

// A tensor declared without a shape only constrains an output, so an operation must write it.
void GraphBuilder::refuse_stray_pins() const {
  for (TensorId id = 0; id < written_.tensors.size(); ++id) {
    if (declared_[id]->shape || writer_[id] != kNone) continue;
    std::vector<std::string_view> outputs;
    for (const WrittenOp& op : written_.ops) {
      outputs.insert(outputs.end(), op.outputs.begin(), op.outputs.end());
    }
    const std::string& name = declared_[id]->name;
    fail({Part::kTensor, id},
         "no operation writes it, so it needs a shape" + did_you_mean(name, outputs));
  }
}

// The new ids of the ops in a valid execution order that follows the document where possible.
std::vector<OpId> GraphBuilder::sorted_ids() const {
  const auto count = static_cast<OpId>(graph_.ops.size());
  std::vector<std::size_t> missing(count);
  std::priority_queue<OpId, std::vector<OpId>, std::greater<>> ready;
  for (OpId id = 0; id < count; ++id) {
    missing[id] = graph_.before[id].size();
    if (missing[id] == 0) ready.push(id);
  }
  std::vector<OpId> new_id(count, kNone);
  OpId next = 0;
  while (!ready.empty()) {
    const OpId id = ready.top();
    ready.pop();
    new_id[id] = next++;
    for (const OpId later : graph_.after[id]) {
      if (--missing[later] == 0) ready.push(later);
    }
  }
  TensorId stuck = kNone;  // the value that is overwritten first in the document
  for (TensorId value = 0; value < graph_.tensors.size(); ++value) {
    const OpId writer = graph_.tensors[value].overwritten_by;
    if (writer == kNone || new_id[writer] != kNone) continue;
    if (stuck == kNone || writer < graph_.tensors[stuck].overwritten_by) stuck = value;
  }
  if (stuck != kNone) {
    const Op& op = graph_.ops[graph_.tensors[stuck].overwritten_by];
    fail({Part::kOp, op.position},
         fmt::format("{} overwrites {}, which a later op still reads", in_quotes(op.name),
                     in_quotes(graph_.tensors[stuck].name)));
  }
  return new_id;
}

// In-place ops add order constraints that run_order did not know; renumbers the ops if needed.
void GraphBuilder::sort_ops() {
  const auto count = static_cast<OpId>(graph_.ops.size());
  bool in_order = true;
  for (OpId id = 0; id < count; ++id) {
    in_order = in_order && (graph_.before[id].empty() || graph_.before[id].back() < id);
  }
  if (in_order) return;
  const std::vector<OpId> new_id = sorted_ids();
  const auto renumber = [&](OpId& id) {
    if (id != kNone) id = new_id[id];
  };
  std::vector<Op> ops(count);
  for (OpId id = 0; id < count; ++id) ops[new_id[id]] = std::move(graph_.ops[id]);
  graph_.ops = std::move(ops);
  for (Tensor& tensor : graph_.tensors) {
    renumber(tensor.producer);
    renumber(tensor.patched_by);
    renumber(tensor.overwritten_by);
  }
  for (OpId& id : op_at_position_) renumber(id);
  link_ops(graph_);
}

// A tensor that was overwritten in place cannot be an output of the graph.
void GraphBuilder::mark_output(TensorId id, const std::optional<WrittenPlace>& place) {
  const TensorId value = graph_.tensors[id].value;
  const OpId writer = graph_.tensors[value].overwritten_by;
  if (writer != kNone) {
    const Op& op = graph_.ops[writer];
    const auto successor = std::ranges::find_if(op.outputs, [&](TensorId output) {
      return graph_.tensors[output].storage == graph_.tensors[value].storage;
    });
    fail(place.value_or(WrittenPlace{Part::kOp, op.position}),
         fmt::format(
             "{} overwrites {}, which is an output of the graph; {} can be an output instead",
             in_quotes(op.name), in_quotes(graph_.tensors[id].name),
             in_quotes(graph_.tensors[*successor].name)));
  }
  graph_.tensors[value].output = true;
}

void GraphBuilder::mark_outputs() {
  if (!written_.outputs) {
    // The tensors, views included, that no op reads.
    std::vector<bool> consumed(graph_.tensors.size(), false);
    for (const TensorId input : input_ids_) {
      if (input != kNone) consumed[input] = true;
    }
    for (TensorId id = 0; id < graph_.tensors.size(); ++id) {
      if (writer_[id] == kNone || consumed[id]) continue;
      mark_output(id, {});
    }
    return;
  }
  if (written_.outputs->empty() && !graph_.ops.empty()) {
    fail({Part::kGraphOutputs}, "must name at least one tensor");
  }
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < written_.outputs->size(); ++i) {
    const std::string& name = (*written_.outputs)[i];
    const WrittenPlace place{Part::kGraphOutput, i};
    const auto found = tensor_ids_.find(name);
    if (found == tensor_ids_.end()) fail(place, unknown("tensor", name, tensor_ids_));
    if (!seen.insert(name).second) fail(place, in_quotes(name) + " is named twice");
    mark_output(found->second, place);
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
    if ((*written_.fuse)[g].empty()) {
      fail({Part::kFuseGroup, g}, "must name at least one operation");
    }
    for (std::size_t i = 0; i < (*written_.fuse)[g].size(); ++i) {
      const std::string& name = (*written_.fuse)[g][i];
      const WrittenPlace place{Part::kFuseMember, g, i};
      const auto found = names.find(name);
      if (found == names.end()) fail(place, unknown("operation", name, names));
      const OpId op = op_at_position_[found->second];
      const std::size_t last = std::exchange(group_of[found->second], g);
      if (last == g) {
        fail(place,
             fmt::format("{} is already in {}", in_quotes(name), named({Part::kFuseGroup, g})));
      }
      if (op == kNone) continue;  // a view is not executed
      if (last != written_.fuse->size() && !may_recompute(graph_, op)) {
        fail(place, fmt::format("{} is already in {}; only pointwise ops and movements that update "
                                "nothing in place can be in several groups",
                                in_quotes(graph_.ops[op].name), named({Part::kFuseGroup, last})));
      }
      group.push_back(op);
    }
    std::ranges::sort(group);
    if (!group.empty()) groups.push_back(std::move(group));
  }
  graph_.fuse = std::move(groups);
}

OpGraph build_graph(const WrittenGraph& written, const std::vector<DimOverride>& overrides) {
  return GraphBuilder(written, overrides).build();
}

}  // namespace fusecalc
