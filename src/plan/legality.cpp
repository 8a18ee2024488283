#include "plan/legality.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "core/checked.hpp"
#include "plan/attention.hpp"
#include "plan/capability.hpp"
#include "plan/code_size.hpp"
#include "plan/overwrites.hpp"

namespace fusecalc {
namespace {

constexpr std::size_t kMostTensors = 96;
// Rows of the smallest contraction tile, and the bytes of an accumulator.
constexpr std::uint64_t kTileRows = 64;
constexpr std::uint64_t kAccumulatorBytes = 4;

using Edge = ResolvedKernel::Edge;

// One check of one kernel. Each step returns the obstacle, or nothing.
class Check {
 public:
  Check(PhaseFinder& finder, const Kernel& kernel, const Rules& rules)
      : finder_(finder),
        graph_(finder.graph()),
        outline_(finder.graph().outline),
        kernel_(kernel),
        rules_(rules) {}

  Verdict run() {
    if (kernel_.size() < 2) return {};
    if (const Verdict ops = check_ops(); !ops.legal()) return ops;
    if (const Verdict fused = check_fusion(); !fused.legal()) return fused;
    if (const Verdict safe = check_overwrites(*resolved_, kernel_); !safe.legal()) return safe;
    return rules_.launchable ? check_limits(*resolved_, kernel_, rules_.on_chip_bytes) : Verdict{};
  }

  Verdict run_launch() {
    if (const Verdict ops = check_ops(); !ops.legal()) return ops;
    resolved_ = finder_.resolve(kernel_);
    const Verdict limits = check_limits(*resolved_, kernel_, rules_.on_chip_bytes);
    if (!limits.legal()) return limits;
    if (const Verdict safe = check_overwrites(*resolved_, kernel_); !safe.legal()) return safe;
    // A single op breaks no rule of fusion.
    return kernel_.size() < 2 ? Verdict{} : check_fusion();
  }

 private:
  const Op& op(OpId id) const { return graph_.ops[id]; }
  const Outline::OpFacts& facts(OpId id) const { return outline_[id]; }
  std::uint8_t phase_of(OpId id) const { return phases_->runs_in[resolved_->index_of(id)]; }

  std::span<const Edge> edges_of(OpId id) const {
    return resolved_->edges_of(resolved_->index_of(id));
  }

  bool feeds_inside(OpId id) const { return resolved_->feeds_inside(resolved_->index_of(id)); }

  // Those that the kernel reads from memory or writes to it.
  std::size_t tensors() const {
    return std::accumulate(phases_->written.begin(), phases_->written.end(), phases_->reads.size());
  }

  Verdict check_ops();
  Verdict check_fusion();
  bool connected() const;
  Verdict check_edges() const;
  Verdict check_ready(OpId to, const Outline::Input& input) const;
  Verdict check_edge(OpId to, const Outline::Input& input) const;
  bool aligned(const Outline::Input& input, OpId reader) const;
  Verdict check_spaces() const;
  Verdict check_grid() const;
  bool works_on(OpId id, OpId earlier) const;
  Verdict check_contractions() const;
  OpId apart_from(OpId last) const;
  bool softmax_between(OpId first, OpId second) const;
  void find_epilogue(OpId contraction, std::bitset<kMostOps>& follows,
                     std::bitset<kMostOps>& serves) const;
  Verdict check_epilogue(OpId contraction) const;
  Verdict check_epilogue_spaces(OpId contraction) const;
  Verdict check_epilogue_rows(OpId contraction) const;
  // Computed in 32-bit floats.
  bool is_narrow_float(TensorId tensor) const {
    const DType dtype = graph_.tensors[tensor].type.dtype;
    return is_float(dtype) && dtype != DType::kF64;
  }

  PhaseFinder& finder_;
  // Not before it is known that the kernel is small enough: searches ask about large ones.
  std::optional<ResolvedKernel> resolved_;
  const OpGraph& graph_;
  const Outline& outline_;
  const Kernel& kernel_;
  const Rules& rules_;
  const Phases* phases_ = nullptr;
  std::vector<OpId> contractions_;
};

// Lists the contractions on the way.
Verdict Check::check_ops() {
  for (const OpId id : kernel_) {
    if (facts(id).custom) return {Obstacle::kCustom, id};
    if (rules_.launchable && !facts(id).has_kernel) return check_op(graph_, id);
    if (facts(id).contracts()) contractions_.push_back(id);
  }
  return {};
}

Verdict Check::check_fusion() {
  if (kernel_.size() > kMostOps) return {Obstacle::kTooManyOps};
  resolved_ = finder_.resolve(kernel_);
  // What can be told from who feeds whom comes first: searches ask about many kernels that fail.
  if (const Verdict order = check_contractions(); !order.legal()) return order;
  if (resolved_->reads() > kMostTensors) return {Obstacle::kTooManyTensors};
  if (!connected()) return {Obstacle::kUnrelated, kernel_.front(), kernel_.back()};
  phases_ = &resolved_->phases();
  if (const Verdict code = check_code(*resolved_, kernel_); !code.legal()) return code;
  if (tensors() > kMostTensors) return {Obstacle::kTooManyTensors};
  if (const Verdict edges = check_edges(); !edges.legal()) return edges;
  if (contractions_.empty()) return check_spaces();
  if (contractions_.size() == 1) return check_epilogue_spaces(contractions_[0]);
  return rules_.launchable
             ? check_heads(graph_, contractions_[0], contractions_[1], rules_.on_chip_bytes)
             : Verdict{};
}

// Kernels share tensors: merging what has nothing in common saves no traffic.
bool Check::connected() const {
  std::array<std::uint16_t, kMostOps> root{};
  std::iota(root.begin(), root.begin() + std::ssize(kernel_), std::uint16_t{0});
  const auto find = [&](std::size_t i) {
    while (root[i] != i) i = root[i] = root[root[i]];
    return i;
  };
  // The first op that was seen to read each outside value.
  std::array<std::size_t, kMostTensors> first_reader{};
  first_reader.fill(kernel_.size());
  std::size_t parts = kernel_.size();
  const auto join = [&](std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    root[b] = static_cast<std::uint16_t>(a);
    --parts;
  };
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (edge.inside()) {
        join(i, edge.maker);
        continue;
      }
      std::size_t& first = first_reader[edge.value];
      if (first == kernel_.size()) {
        first = i;
      } else {
        join(i, first);
      }
    }
    if (parts == 1) return true;
  }
  return parts == 1;
}

Verdict Check::check_edges() const {
  for (const OpId id : kernel_) {
    for (const Edge& edge : edges_of(id)) {
      if (!edge.inside()) continue;
      const Verdict verdict = check_edge(id, *edge.input);
      if (!verdict.legal()) return verdict;
    }
  }
  return {};
}

// Whether a block can have what its own kernel makes before all blocks are done.
Verdict Check::check_ready(OpId to, const Outline::Input& input) const {
  const OpId from = input.producer;
  if (facts(from).access == Access::kScatter) return {Obstacle::kAfterScatter, from, to};
  if (input.elements <= 1 && op(from).collapses) return {Obstacle::kAfterCollapse, from, to};
  return {};
}

Verdict Check::check_edge(OpId to, const Outline::Input& input) const {
  const OpId from = input.producer;
  const Outline::OpFacts& producer = facts(from);
  const Outline::OpFacts& reader = facts(to);
  if (const Verdict ready = check_ready(to, input); !ready.legal()) return ready;
  if (phases_->rows.empty()) return {};
  const bool permutes =
      reader.access == Access::kPermute || producer.access == Access::kPermute || input.reordered;
  if (permutes && reader.op_class != OpClass::kContract) {
    return {Obstacle::kPermutesRows, from, to};
  }
  if (phase_of(to) == 0 && phases_->ready_in[resolved_->index_of(from)] == 0) return {};
  // From here on the value comes out of a reduction, directly or not.
  const Access access = reader.access;
  const bool picks_score = reader.op_class == OpClass::kNormalise && access == Access::kGather;
  if (picks_score) {
    // From the rows that were reduced before, or from the results of rows.
    const RowLayout& layout = phases_->rows;
    const bool whole_rows =
        layout.reduces_innermost() && layout.rows() == reader.work &&
        (input.elements == layout.rows() * layout.row_length() || input.elements == layout.rows());
    return whole_rows ? Verdict{} : Verdict{Obstacle::kRows, from, to};
  }
  // What a scatter writes may be made here, what it writes into may not.
  const bool written_into =
      access == Access::kScatter && graph_.value_of(op(to).operands[0].tensor).producer == from;
  if ((access != Access::kSame && access != Access::kScatter) || written_into) {
    return {Obstacle::kMovesRows, from, to};
  }
  if (reader.moves() && access == Access::kSame && !aligned(input, to)) {
    return {Obstacle::kMisaligned, from, to};
  }
  return {};
}

// Whether a result of rows is broadcast to the elements of its own row.
bool Check::aligned(const Outline::Input& input, OpId reader) const {
  const Outline::Result& result = outline_.results_of(reader).front();
  if (input.elements == result.elements || input.elements == 1) return true;
  const Shape& wide = graph_.tensors[result.tensor].type.shape;
  const Shape& narrow = graph_.tensors[input.tensor].type.shape;
  const std::size_t offset = wide.size() - narrow.size();
  std::vector<bool> repeated(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) repeated[i] = i < offset || narrow[i - offset] == 1;
  return row_layout(wide, repeated) == phases_->rows;
}

// All that is written must come out of one loop.
Verdict Check::check_spaces() const {
  std::optional<OpId> widest;  // of those that work for the outside
  std::optional<OpId> first_rows;
  for (const OpId id : kernel_) {
    const bool inside_only = phases_->written[resolved_->index_of(id)] == 0 && feeds_inside(id);
    if (!inside_only && (!widest || facts(id).work > facts(*widest).work)) widest = id;
    if (!facts(id).reduces()) continue;
    const bool picks = facts(id).access == Access::kGather && phase_of(id) > 0;
    if (first_rows && !picks && facts(id).rows != facts(*first_rows).rows) {
      return {Obstacle::kRows, *first_rows, id};
    }
    if (!first_rows && !picks) first_rows = id;
  }
  const OpId leader = first_rows.value_or(widest.value_or(kernel_.front()));
  const std::uint64_t space = facts(leader).work;
  for (const OpId id : kernel_) {
    if (facts(id).work == space) continue;
    const bool normalises =
        facts(id).op_class == OpClass::kNormalise && op(id).row->family != OpFamily::kLoss;
    const bool of_rows = phase_of(id) > 0 && facts(id).work <= phases_->rows.rows();
    const bool for_inside = feeds_inside(id) && (facts(id).work < space ||
                                                 phases_->written[resolved_->index_of(id)] == 0);
    const bool other_rows = phase_of(id) > 0 && normalises;
    if (other_rows || (!of_rows && !for_inside)) return {Obstacle::kSpaces, leader, id};
  }
  return check_grid();
}

// A single row that fills the tensor is reduced by all blocks together; no block can read
// it again before all are done.
Verdict Check::check_grid() const {
  if (phases_->rows.empty() || phases_->rows.rows() > 1) return {};
  if (!phases_->never_fits && phases_->held_bytes <= rules_.on_chip_bytes) return {};
  for (const OpId id : kernel_) {
    if (phase_of(id) > 0 && facts(id).work == phases_->rows.row_length()) {
      return {Obstacle::kWholeTensor, id};
    }
  }
  return {};
}

// Whether an op needs, directly or not, what an earlier one of this kernel makes.
bool Check::works_on(OpId id, OpId earlier) const {
  std::bitset<kMostOps> needed;
  needed[resolved_->index_of(id)] = true;
  for (std::size_t i = resolved_->index_of(id); i > resolved_->index_of(earlier); --i) {
    if (!needed[i]) continue;
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (edge.inside()) needed[edge.maker] = true;
    }
  }
  return needed[resolved_->index_of(earlier)];
}

// What the main loops of contractions read and what is made of their results.
Verdict Check::check_contractions() const {
  const std::vector<OpId>& contractions = contractions_;
  if (contractions.empty()) return {};
  for (const OpId id : kernel_) {
    for (const Edge& edge : edges_of(id)) {
      if (!edge.inside()) continue;
      if (const Verdict ready = check_ready(id, *edge.input); !ready.legal()) return ready;
    }
  }
  for (std::size_t i = 1; i < contractions.size(); ++i) {
    if (!works_on(contractions[i], contractions[i - 1])) {
      return {Obstacle::kSideContraction, contractions[i - 1], contractions[i]};
    }
  }
  if (contractions.size() > 2) {
    const bool attention = softmax_between(contractions[0], contractions[1]);
    return {Obstacle::kSecondContraction, contractions[attention ? 1 : 0],
            contractions[attention ? 2 : 1]};
  }
  if (contractions.size() == 2) {
    const Verdict verdict = check_attention(*resolved_, kernel_, contractions[0], contractions[1]);
    if (!verdict.legal()) return verdict;
    if (rules_.epilogues) return {};
    const OpId other = apart_from(contractions[1]);
    if (other == kNone) return {};
    return {Obstacle::kLibraryContraction, contractions[1], other};
  }
  if (!rules_.epilogues) {
    const OpId other = kernel_.front() == contractions[0] ? kernel_.back() : kernel_.front();
    return {Obstacle::kLibraryContraction, contractions[0], other};
  }
  return check_epilogue(contractions[0]);
}

// An op of the kernel that `last` does not need, or kNone.
OpId Check::apart_from(OpId last) const {
  std::bitset<kMostOps> needed;
  needed[resolved_->index_of(last)] = true;
  for (std::size_t i = kernel_.size(); i-- > 0;) {
    if (!needed[i]) return kernel_[i];
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (edge.inside()) needed[edge.maker] = true;
    }
  }
  return kNone;
}

bool Check::softmax_between(OpId first, OpId second) const {
  return std::ranges::any_of(kernel_, [&](OpId id) {
    const SoftmaxPart part = op(id).row->softmax;
    return id > first && id < second && (part == SoftmaxPart::kWhole || part == SoftmaxPart::kSum);
  });
}

// Of the kernel's ops, by their places: those that work on the contraction's result, and those that
// such ones need.
void Check::find_epilogue(OpId contraction, std::bitset<kMostOps>& follows,
                          std::bitset<kMostOps>& serves) const {
  follows[resolved_->index_of(contraction)] = true;
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (edge.inside() && follows[edge.maker]) follows[i] = true;
    }
  }
  for (std::size_t i = kernel_.size(); i-- > 0;) {
    if (!follows[i] && !serves[i]) continue;
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (edge.inside() && !follows[edge.maker]) serves[edge.maker] = true;
    }
  }
}

Verdict Check::check_epilogue(OpId contraction) const {
  for (const Edge& edge : edges_of(contraction)) {
    if (edge.inside()) return {Obstacle::kPrologue, edge.input->producer, contraction};
  }
  std::bitset<kMostOps> follows;
  std::bitset<kMostOps> serves;
  find_epilogue(contraction, follows, serves);
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    const OpId id = kernel_[i];
    if (id == contraction) continue;
    const bool side = !follows[i] && (!serves[i] || facts(id).reduces());
    if (side) return {Obstacle::kEpilogueSide, contraction, id};
    const bool picks = facts(id).op_class == OpClass::kNormalise && follows[i];
    if (facts(id).access != Access::kSame && !picks) {
      return {Obstacle::kEpilogueMovement, contraction, id};
    }
    const bool reordered = std::ranges::any_of(outline_.inputs_of(id), &Outline::Input::reordered);
    if (reordered && !picks) {
      return {Obstacle::kEpilogueOrder, contraction, id};
    }
    // Rows of single elements have no state that an epilogue could keep.
    const bool single =
        facts(id).op_class != OpClass::kPointwise && op(id).rows.empty() &&
        (op(id).row->accumulator != Accumulator::kNone || op(id).row->family == OpFamily::kLoss);
    if (single) return {Obstacle::kEpilogueAccumulator, contraction, id};
  }
  return {};
}

Verdict Check::check_epilogue_spaces(OpId contraction) const {
  const std::uint64_t space = outline_.results_of(contraction).front().elements;
  for (const OpId id : kernel_) {
    if (id == contraction) continue;
    const bool of_rows = phase_of(id) > 0 && facts(id).work <= phases_->rows.rows();
    const bool written = phases_->written[resolved_->index_of(id)] > 0;
    const bool for_inside = facts(id).work < space && feeds_inside(id) && !written;
    if (facts(id).work != space && !of_rows && !for_inside) {
      return {Obstacle::kSpaces, contraction, id};
    }
  }
  return check_epilogue_rows(contraction);
}

Verdict Check::check_epilogue_rows(OpId contraction) const {
  if (phases_->rows.empty()) return {};
  const Op& product = op(contraction);
  OpId reduction = contraction;
  for (const OpId id : kernel_) {
    if (!facts(id).reduces()) continue;
    if (phases_->mixed_rows) return {Obstacle::kRows, reduction, id};
    const bool reduces =
        facts(id).op_class != OpClass::kReduce || row_of(op(id).row->accumulator).merges_tiles;
    if (!reduces) return {Obstacle::kEpilogueAccumulator, contraction, id};
    const bool picks = facts(id).access == Access::kGather && phase_of(id) > 0;
    if (picks) return {Obstacle::kEpilogueMovement, contraction, id};
    if (reduction != contraction) return {Obstacle::kEpilogueSecond, contraction, id};
    if (!is_narrow_float(product.outputs[0]) || !is_narrow_float(op(id).operands[0].tensor) ||
        !is_narrow_float(op(id).outputs[0])) {
      return {Obstacle::kEpilogueTypes, contraction, id};
    }
    reduction = id;
  }
  const RowLayout& rows = phases_->rows;
  const auto reduced_axes = std::ranges::count_if(
      rows.axes, [](const RowLayout::MergedAxis& axis) { return axis.reduced; });
  const std::uint64_t columns = product.matrix.columns;
  const bool is_matrix = is_matrix_product(product.row->family);
  const std::uint64_t space = graph_.tensors[product.outputs[0]].elements;
  // Columns that are reduced lie in one matrix.
  const bool in_matrix = rows.reduces_innermost() || rows.row_length() == 0 ||
                         product.matrix.rows % rows.row_length() == 0;
  const bool fits_tiles = is_matrix && reduced_axes == 1 && rows.axes.back().extent == columns &&
                          rows.rows() * rows.row_length() == space && in_matrix;
  if (!fits_tiles) return {Obstacle::kEpilogueRows, contraction, reduction};
  // Whole rows are streamed tile by tile; a second pass must find them on chip.
  std::uint64_t tile = kTileRows * kAccumulatorBytes;
  const bool held =
      rows.reduces_innermost() && checked_multiply(tile, columns) && tile <= rules_.on_chip_bytes;
  if (held) return {};
  for (const OpId id : kernel_) {
    const bool reads_again = facts(id).passes > 1 || (phase_of(id) > 0 && facts(id).work == space);
    if (reads_again) return {Obstacle::kEpilogueHolds, contraction, id};
  }
  return {};
}

}  // namespace

Verdict check_kernel(PhaseFinder& phases, const Kernel& kernel, const Rules& rules) {
  return Check(phases, kernel, rules).run();
}

Verdict check_launch(PhaseFinder& phases, const Kernel& kernel, std::uint64_t on_chip_bytes) {
  const Rules rules{.on_chip_bytes = on_chip_bytes};
  return Check(phases, kernel, rules).run_launch();
}

}  // namespace fusecalc
