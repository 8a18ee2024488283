#include "graph/canonical_order.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "core/random_bits.hpp"

namespace fusecalc {
namespace {

using Hash = std::uint64_t;

Hash mixed(Hash hash, std::uint64_t value) { return random_bits(hash, value); }

// Hashes of ops, refined three times: by all that leads to an op, by all that its results lead to,
// and by what leads to it once more, which now tells apart the graph's inputs by their readers. Ops
// in corresponding places of two equal parts of a graph hash alike.
class OpHashes {
 public:
  explicit OpHashes(const OpGraph& graph) : graph_(graph), values_(graph.tensors.size(), 0) {
    ops_.reserve(graph.ops.size());
    for (const Op& op : graph.ops) ops_.push_back(hash_of(op));
    for (TensorId id = 0; id < values_.size(); ++id) {
      if (graph.tensors[id].producer == kNone) values_[id] = hash_of(graph.tensors[id]);
    }
  }

  std::vector<Hash> run() {
    follow_operands();
    follow_readers();
    follow_operands();
    return std::move(ops_);
  }

 private:
  void follow_operands() {
    for (OpId id = 0; id < ops_.size(); ++id) {
      const Op& op = graph_.ops[id];
      for (const Operand& operand : op.operands) ops_[id] = mixed(ops_[id], hash_of(operand));
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        values_[op.outputs[i]] = mixed(ops_[id], i);
      }
    }
  }

  void follow_readers() {
    std::ranges::fill(values_, 0);
    for (auto id = static_cast<OpId>(ops_.size()); id-- > 0;) {
      const Op& op = graph_.ops[id];
      for (const TensorId output : op.outputs) ops_[id] = mixed(ops_[id], values_[output]);
      for (std::size_t i = 0; i < op.operands.size(); ++i) {
        if (op.operands[i].tensor == kNone) continue;
        // A sum: the readers of a value are in no order.
        values_[graph_.tensors[op.operands[i].tensor].value] += mixed(ops_[id], i);
      }
    }
  }

  Hash hash_of(const Tensor& tensor) const {
    Hash hash = mixed(tensor.output ? 1 : 0, static_cast<std::uint64_t>(tensor.type.dtype));
    for (const std::uint64_t extent : tensor.type.shape) hash = mixed(hash, extent);
    return hash;
  }

  Hash hash_of(const Op& op) const {
    auto hash = static_cast<Hash>(op.row - op_table().data());
    for (const std::uint64_t value :
         {static_cast<std::uint64_t>(op.op_class), op.work, op.flops, op.matrix.batch,
          op.matrix.rows, op.matrix.columns, op.matrix.depth, std::uint64_t{op.passes}}) {
      hash = mixed(hash, value);
    }
    for (const RowLayout::MergedAxis& axis : op.rows.axes)
      hash = mixed(hash, 2 * axis.extent + axis.reduced);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      hash = mixed(mixed(hash, op.writes[i].most), op.writes[i].least);
      hash = mixed(hash, hash_of(graph_.tensors[op.outputs[i]]));
      hash = mixed(hash, operand_below(op, op.outputs[i]));
    }
    return hash;
  }

  // The operand in whose memory a result is stored; the number of operands where it has its own.
  std::size_t operand_below(const Op& op, TensorId output) const {
    const TensorId storage = graph_.tensors[output].storage;
    const auto found = std::ranges::find_if(op.operands, [&](const Operand& operand) {
      return operand.tensor != kNone && graph_.storage_of(operand.tensor) == storage;
    });
    return static_cast<std::size_t>(found - op.operands.begin());
  }

  Hash hash_of(const Operand& operand) const {
    if (operand.tensor == kNone) return std::bit_cast<std::uint64_t>(operand.number);
    Hash hash = mixed(values_[graph_.tensors[operand.tensor].value], operand.reads);
    for (TensorId id = operand.tensor; graph_.tensors[id].view_of != kNone;
         id = graph_.tensors[id].view_of) {
      hash = mixed(hash, hash_of(graph_.tensors[id]));
    }
    for (const StridedMap& map : graph_.tensors[operand.tensor].maps) {
      hash = mixed(hash, map.offset);
      for (const StridedMap::Axis& axis : map.axes) {
        hash = mixed(mixed(hash, axis.extent), axis.stride);
      }
    }
    return hash;
  }

  const OpGraph& graph_;
  std::vector<Hash> values_;
  std::vector<Hash> ops_;
};

// The longest way from a graph input to each op, in ops.
std::vector<std::uint32_t> depths_of(const OpGraph& graph) {
  std::vector<std::uint32_t> depths(graph.ops.size(), 0);
  for (OpId id = 0; id < depths.size(); ++id) {
    for (const OpId earlier : graph.before[id]) {
      depths[id] = std::max(depths[id], depths[earlier] + 1);
    }
  }
  return depths;
}

// Walks back from the ops that nothing waits for, the shallow ones first, and lists each op after
// all that must run before it.
class Walk {
 public:
  explicit Walk(const OpGraph& graph)
      : graph_(graph), depths_(depths_of(graph)), hashes_(OpHashes(graph).run()) {}

  std::vector<std::uint32_t> run() {
    std::vector<OpId> last;
    for (OpId id = 0; id < graph_.ops.size(); ++id) {
      if (graph_.after[id].empty()) last.push_back(id);
    }
    sort(last);
    ranks_.assign(graph_.ops.size(), kNone);
    expanded_.assign(graph_.ops.size(), false);
    for (const OpId id : last) list(id);
    return std::move(ranks_);
  }

 private:
  void list(OpId last) {
    open_.push_back(last);
    while (!open_.empty()) {
      const OpId id = open_.back();
      if (is_listed(id)) {
        open_.pop_back();
      } else if (expanded_[id]) {
        ranks_[id] = listed_++;
        open_.pop_back();
      } else {
        expanded_[id] = true;
        open_what_is_before(id);
      }
    }
  }

  // The producers of its operands come first, in their order, then readers of what it overwrites.
  // What comes first is pushed last.
  void open_what_is_before(OpId id) {
    const Op& op = graph_.ops[id];
    const bool overwrites = std::ranges::any_of(
        op.outputs, [&](TensorId output) { return graph_.tensors[output].storage != output; });
    if (overwrites) {
      std::vector<OpId> earlier(graph_.before[id].begin(), graph_.before[id].end());
      sort(earlier);
      open_.insert(open_.end(), earlier.rbegin(), earlier.rend());
    }
    for (std::size_t i = op.operands.size(); i-- > 0;) {
      if (op.operands[i].tensor == kNone) continue;
      const OpId producer = graph_.value_of(op.operands[i].tensor).producer;
      if (producer != kNone && !is_listed(producer)) open_.push_back(producer);
    }
  }

  void sort(std::vector<OpId>& ops) const {
    const auto key = [&](OpId id) {
      return std::tuple(depths_[id], hashes_[id],
                        std::string_view(graph_.tensors[graph_.ops[id].outputs[0]].name));
    };
    std::ranges::sort(ops, {}, key);
  }

  bool is_listed(OpId id) const { return ranks_[id] != kNone; }

  const OpGraph& graph_;
  std::vector<std::uint32_t> depths_;
  std::vector<Hash> hashes_;
  std::vector<std::uint32_t> ranks_;
  std::vector<bool> expanded_;
  std::vector<OpId> open_;
  std::uint32_t listed_ = 0;
};

}  // namespace

std::vector<std::uint32_t> canonical_ranks(const OpGraph& graph) { return Walk(graph).run(); }

}  // namespace fusecalc
