#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/id_lists.hpp"
#include "graph/inference.hpp"
#include "graph/op_table.hpp"
#include "graph/outline.hpp"
#include "graph/strided_map.hpp"

namespace fusecalc {

struct Tensor {
  std::string name;
  TensorType type;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;
  // A view shows elements of another tensor. Readers, producer and output are kept at the value
  // that is below all views, never at the views.
  TensorId view_of = kNone;
  TensorId value = kNone;  // the tensor below all views, or itself
  // From the number of an element to that in the value, one map after the other: none where the
  // numbers are the same, and mostly one otherwise.
  std::vector<StridedMap> maps;
  std::uint64_t shown = 0;  // distinct elements of the value that it has, at most
  // The first tensor that shows the same elements of the value in the same order: the value itself
  // for a tensor that shows all of them in their order.
  TensorId window = kNone;
  TensorId storage = kNone;  // whose memory holds it: in-place results share their input's
  OpId producer = kNone;     // none for a graph input
  // The op that overwrites it in place, but maybe not all of it: a reader of that result needs the
  // rest of this tensor in memory.
  OpId patched_by = kNone;
  OpId overwritten_by = kNone;  // the op that overwrites it in place, all of it or a part
  bool output = false;          // an output of the graph
};

// What an op reads: a tensor, or an inline number.
struct Operand {
  TensorId tensor = kNone;
  double number = 0;
  std::uint64_t reads = 0;  // elements touched
};

struct Op {
  std::string name;
  std::string scope;         // the part of the model that it belongs to; may be empty
  std::size_t position = 0;  // in the document
  const OpRow* row = nullptr;
  OpClass op_class = OpClass::kPointwise;
  std::uint8_t passes = 1;
  std::shared_ptr<const Attributes> attributes;  // never null; out of line, as they are rarely read
  std::vector<Operand> operands;
  std::vector<TensorId> outputs;
  std::vector<WrittenPart> writes;  // per output
  std::uint64_t work = 0;           // elements of the iteration space
  std::uint64_t flops = 0;
  RowLayout rows;
  MatrixShape matrix;
  bool collapses = false;
  // From an element of the result to that of the first operand, where a movement only selects,
  // reorders or repeats.
  std::optional<StridedMap> source;
};

// Which gradient an output of a backward op is: those that it lists, or the first ones.
inline std::size_t gradient_of(const Op& op, std::size_t output) {
  const std::vector<std::int64_t>& listed = op.attributes->gradients;
  return listed.empty() ? output : static_cast<std::size_t>(listed[output]);
}

// A valid op graph: every name resolved, every shape and type known, no cycle, ops in a valid
// execution order (the document's, if it is valid). Views are tensors, not ops.
struct OpGraph {
  std::string document;
  std::optional<std::string> name;
  std::vector<std::pair<std::string, std::uint64_t>> dims;  // with --dim applied
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  IdLists readers;  // per tensor: the ops that read its value, in order
  IdLists before;   // per op: what must run first, producers and readers of what this overwrites
  IdLists after;    // the inverse
  Outline outline;  // the same ops, laid out for fast traversal
  // Per op: its place in canonical_order(), which the document's order of independent ops does not
  // change.
  std::vector<std::uint32_t> rank;
  // The explicit plan: its groups, of one or more ops, in the document's order. An op that
  // may_recompute() may be in several.
  std::optional<std::vector<std::vector<OpId>>> fuse;

  const Tensor& tensor(TensorId id) const { return tensors[id]; }
  const Tensor& value_of(TensorId id) const { return tensors[tensors[id].value]; }
  // The tensor that represents the memory of an input or output.
  TensorId storage_of(TensorId id) const { return tensors[tensors[id].value].storage; }
};

struct WrittenGraph;

struct DimOverride {
  std::string name;
  std::uint64_t extent = 0;
};

// Throws an Error if the graph is invalid; the graph's reader names the place.
OpGraph build_graph(const WrittenGraph& written, const std::vector<DimOverride>& overrides);

// Which operand of a gather or an embedding is its table (op_table.hpp).
inline std::size_t table_input(const OpGraph& graph, const Op& gather) {
  const auto dtype = [&](std::size_t i) {
    return graph.tensors[gather.operands[i].tensor].type.dtype;
  };
  return table_input(gather.row->family, dtype(0), dtype(1));
}

}  // namespace fusecalc
