#include "plan/epilogue.hpp"

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>

#include "core/checked.hpp"
#include "graph/axis.hpp"
#include "graph/product_parts.hpp"
#include "plan/attention.hpp"
#include "plan/channels_last.hpp"
#include "plan/halves.hpp"
#include "plan/paged_rows.hpp"

namespace fusecalc {
namespace {

// Rows of the smallest contraction tile, and the bytes of an accumulator.
constexpr std::uint64_t kFewestTileRows = 64;
constexpr std::uint64_t kAccumulatorBytes = 4;

using Edge = ResolvedKernel::Edge;

// Of 16 bits, with a result that has columns.
bool has_prologue_types(const OpGraph& graph, const Op& product) {
  const DType type = graph.tensors[product.operands[1].tensor].type.dtype;
  const DType made = graph.tensors[product.outputs[0]].type.dtype;
  return (type == DType::kBf16 || type == DType::kF16) &&
         graph.tensors[product.operands[0].tensor].type.dtype == type && is_float(made) &&
         made != DType::kF64 && product.matrix.columns > 1;
}

class EpilogueCheck {
 public:
  EpilogueCheck(const ResolvedKernel& resolved, const Kernel& kernel, OpId contraction)
      : resolved_(resolved),
        graph_(resolved.graph()),
        outline_(resolved.graph().outline),
        kernel_(kernel),
        contraction_(contraction) {}

  // What works on the operands, and how the result is read.
  void find_prologue();
  Verdict check_ops();
  Verdict check_spaces(std::uint64_t on_chip_bytes) const;

 private:
  const Op& op(OpId id) const { return graph_.ops[id]; }
  bool is_product(OpId id) const { return id == contraction_ || id == other_; }
  const Outline::OpFacts& facts(OpId id) const { return outline_[id]; }
  std::uint8_t phase_of(OpId id) const {
    return resolved_.phases().runs_in[resolved_.index_of(id)];
  }
  // Computed in 32-bit floats.
  bool is_narrow_float(TensorId tensor) const {
    const DType dtype = graph_.tensors[tensor].type.dtype;
    return is_float(dtype) && dtype != DType::kF64;
  }

  bool attends() const { return op(contraction_).row->family == OpFamily::kAttention; }

  Verdict check_prologue() const;
  Verdict check_operand(const Edge& edge) const;
  Verdict check_before(std::size_t place) const;
  Verdict check_shared(std::size_t place) const;
  bool reads_in_order() const;
  OpId first_reduction() const;
  OpId reader_of(std::size_t place) const;
  bool computes_elements(std::size_t place) const;
  bool gathers_rows(std::size_t place) const;
  bool is_channels_last(const Edge& edge) const;
  bool is_halved(std::size_t place) const;
  Verdict check_pages() const;
  void find_epilogue();
  Verdict check_rows(std::uint64_t on_chip_bytes) const;

  const ResolvedKernel& resolved_;
  const OpGraph& graph_;
  const Outline& outline_;
  const Kernel& kernel_;
  const OpId contraction_;
  std::optional<Halves> halves_;
  OpId other_ = kNone;  // the second product, if there are two
  // Of the kernel's ops, by their places: those that work on the contraction's result, and those
  // that such ones need.
  std::bitset<kMostOps> follows_;
  std::bitset<kMostOps> serves_;
  std::bitset<kMostOps> precedes_;  // those that the contraction needs
};

void EpilogueCheck::find_prologue() {
  halves_ = halves_of(graph_, kernel_, contraction_);
  if (halves_) other_ = halves_->other;
  for (std::size_t i = kernel_.size(); i-- > 0;) {
    if (!is_product(kernel_[i]) && !precedes_[i]) continue;
    for (const Edge& edge : resolved_.edges_of(i)) {
      if (edge.inside()) precedes_[edge.maker] = true;
    }
  }
  if (other_ == kNone && precedes_.any()) halves_.reset();
}

// Weights of few rows, or many rows; element by element, or rows of a table.
Verdict EpilogueCheck::check_prologue() const {
  if (precedes_.none()) return {};
  if (attends()) return check_pages();
  if (other_ != kNone) {
    for (const auto& [product, beside] :
         {std::pair{contraction_, other_}, std::pair{other_, contraction_}}) {
      for (const Edge& edge : resolved_.edges_of(resolved_.index_of(product))) {
        if (!edge.inside()) continue;
        const OpId maker = edge.input->producer;
        if (!facts(maker).moves()) return {Obstacle::kPrologueRows, maker, product, beside};
        return {Obstacle::kProloguePair, maker, product, beside};
      }
    }
  }
  for (const Edge& edge : resolved_.edges_of(resolved_.index_of(contraction_))) {
    if (!edge.inside()) continue;
    if (const Verdict operand = check_operand(edge); !operand.legal()) return operand;
  }
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    if (kernel_[i] == contraction_) continue;
    const Verdict verdict = precedes_[i] ? check_before(i) : check_shared(i);
    if (!verdict.legal()) return verdict;
  }
  return {};
}

// Whether it is the operand that the contraction may compute as it reads it.
Verdict EpilogueCheck::check_operand(const Edge& edge) const {
  const Op& product = op(contraction_);
  const OpId maker = edge.input->producer;
  if (!facts(maker).moves()) return {Obstacle::kPrologueRows, maker, contraction_};
  if (!is_matrix_product(product.row->family)) {
    return {Obstacle::kPrologueKind, maker, contraction_};
  }
  const bool fits_types = has_prologue_types(graph_, product) && !product.attributes->transpose_a;
  if (!fits_types) return {Obstacle::kPrologueTypes, maker, contraction_};
  const bool of_rows = computes_rows(graph_, contraction_);
  const bool of_one = of_rows || computes_weights(graph_, contraction_);
  const bool computed = of_one && edge.input->tensor == product.operands[of_rows ? 0 : 1].tensor;
  if (!computed) return {Obstacle::kPrologueOperand, maker, contraction_};
  if (const Verdict before = check_before(edge.maker); !before.legal()) return before;
  return reads_in_order() ? Verdict{} : Verdict{Obstacle::kPrologueView, maker, contraction_};
}

bool EpilogueCheck::reads_in_order() const {
  const bool of_rows = computes_rows(graph_, contraction_);
  const auto edges = resolved_.edges_of(resolved_.index_of(contraction_));
  return std::ranges::all_of(edges, [&](const Edge& edge) {
    return edge.input->view == Access::kSame || (of_rows && !edge.inside());
  });
}

// Whether the contraction can compute what the op at this place makes.
Verdict EpilogueCheck::check_before(std::size_t place) const {
  if (computes_elements(place)) return {};
  if (computes_rows(graph_, contraction_) && gathers_rows(place)) return {};
  const OpId id = kernel_[place];
  const Outline::OpFacts& maker = facts(id);
  if (!maker.moves()) return {Obstacle::kPrologueRows, id, contraction_};
  const bool in_order = maker.op_class == OpClass::kPointwise && maker.access == Access::kSame;
  return {in_order ? Obstacle::kPrologueView : Obstacle::kPrologueMovement, id, contraction_};
}

// Whether the op at this place leaves alone what the contraction computes as it reads it.
Verdict EpilogueCheck::check_shared(std::size_t place) const {
  for (const Edge& edge : resolved_.edges_of(place)) {
    if (!edge.inside() || !precedes_[edge.maker]) continue;
    return {Obstacle::kPrologueShared, edge.input->producer, contraction_, kernel_[place]};
  }
  return {};
}

// An op of the kernel that reads what the one at this place makes, or kNone.
OpId EpilogueCheck::reader_of(std::size_t place) const {
  for (std::size_t i = place + 1; i < kernel_.size(); ++i) {
    const auto edges = resolved_.edges_of(i);
    if (std::ranges::find(edges, place, &Edge::maker) != edges.end()) return kernel_[i];
  }
  return kNone;
}

OpId EpilogueCheck::first_reduction() const {
  const auto found = std::ranges::find_if(kernel_, [&](OpId id) { return facts(id).reduces(); });
  return found == kernel_.end() ? kNone : *found;
}

// Out of elements that lie in the same order.
bool EpilogueCheck::computes_elements(std::size_t place) const {
  const Outline::OpFacts& maker = facts(kernel_[place]);
  if (maker.op_class != OpClass::kPointwise || maker.access != Access::kSame) return false;
  return std::ranges::all_of(resolved_.edges_of(place), [&](const Edge& edge) {
    const bool whole = computes_rows(graph_, contraction_) && edge.input->size == maker.work;
    return edge.input->view == Access::kSame ||
           (!edge.inside() && !(whole && edge.input->view == Access::kPermute));
  });
}

// Whole lines of the operand, each out of one row of a table in memory.
bool EpilogueCheck::gathers_rows(std::size_t place) const {
  const Op& gather = op(kernel_[place]);
  const bool known =
      gather.row->family == OpFamily::kGather || gather.row->family == OpFamily::kEmbedding;
  if (!known || facts(kernel_[place]).access != Access::kGather) return false;
  const std::size_t which = table_input(graph_, gather);
  const TensorId table = gather.operands[which].tensor;
  const Shape& shape = graph_.tensors[table].type.shape;
  const std::uint64_t row =
      elements_between(shape, axis_of(gather, shape.size()) + 1, shape.size());
  return row % op(contraction_).matrix.depth == 0 &&
         std::ranges::all_of(resolved_.edges_of(place), [&](const Edge& edge) {
           return edge.input->view == Access::kSame &&
                  (edge.input->tensor != table || !edge.inside());
         });
}

// Gathers of keys and values, of which nothing else is made.
Verdict EpilogueCheck::check_pages() const {
  const Op& attention = op(contraction_);
  for (std::size_t i = 0; i < attention.operands.size(); ++i) {
    const TensorId tensor = attention.operands[i].tensor;
    const OpId maker = tensor == kNone ? kNone : graph_.value_of(tensor).producer;
    if (maker == kNone || !resolved_.contains(maker)) continue;
    const bool keys = i == 1 || i == 2;
    if (!keys) return {Obstacle::kAttentionOperand, maker, contraction_};
    if (facts(maker).access != Access::kGather) {
      return {Obstacle::kAttentionKeys, maker, contraction_};
    }
    if (!takes_pages(graph_, attention)) return {Obstacle::kPageQueries, maker, contraction_};
    if (!paged_rows(graph_, attention, i)) return {Obstacle::kPageRows, maker, contraction_};
  }
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    if (kernel_[i] == contraction_) continue;
    if (const Verdict shared = check_shared(i); !shared.legal()) return shared;
  }
  return {};
}

void EpilogueCheck::find_epilogue() {
  follows_[resolved_.index_of(contraction_)] = true;
  if (other_ != kNone) follows_[resolved_.index_of(other_)] = true;
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    for (const Edge& edge : resolved_.edges_of(i)) {
      if (edge.inside() && follows_[edge.maker]) follows_[i] = true;
    }
  }
  for (std::size_t i = kernel_.size(); i-- > 0;) {
    if (!follows_[i] && !serves_[i]) continue;
    for (const Edge& edge : resolved_.edges_of(i)) {
      if (edge.inside() && !follows_[edge.maker]) serves_[edge.maker] = true;
    }
  }
}

// Whether an operand lies in memory as the kernel stores what it makes of a convolution.
bool EpilogueCheck::is_channels_last(const Edge& edge) const {
  const Op& convolution = op(contraction_);
  const Tensor& tensor = graph_.tensors[edge.input->tensor];
  return convolution.row->family == OpFamily::kConvolution && !edge.inside() &&
         tensor.type.shape == graph_.tensors[convolution.outputs[0]].type.shape &&
         lies_channels_last(tensor) && std::ranges::any_of(kernel_, [&](OpId id) {
           return stores_reordered(resolved_, id) &&
                  stores_channels_last(graph_, op(id), convolution);
         });
}

// Whether the epilogue takes halves of what the op at this place makes.
bool EpilogueCheck::is_halved(std::size_t place) const {
  if (!halves_ || other_ != kNone || place >= kernel_.size()) return false;
  return kernel_[place] == (halves_->before.empty() ? contraction_ : halves_->before.back());
}

Verdict EpilogueCheck::check_ops() {
  find_prologue();
  if (const Verdict prologue = check_prologue(); !prologue.legal()) return prologue;
  find_epilogue();
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    const OpId id = kernel_[i];
    if (is_product(id) || precedes_[i]) continue;
    const bool side = !follows_[i] && (!serves_[i] || facts(id).reduces());
    if (side) return {Obstacle::kEpilogueSide, contraction_, id};
    const bool picks = facts(id).op_class == OpClass::kNormalise && follows_[i];
    if (stores_reordered(resolved_, id)) continue;
    if (facts(id).access != Access::kSame && !picks) {
      return {Obstacle::kEpilogueMovement, contraction_, id, reader_of(i)};
    }
    for (const Edge& edge : resolved_.edges_of(i)) {
      const bool made = edge.maker == resolved_.index_of(contraction_);
      const bool half = is_halved(edge.maker);
      if (made && edge.input->value != op(contraction_).outputs[0]) {
        return {Obstacle::kEpilogueSums, contraction_, id};
      }
      if (edge.inside() && edge.input->view == Access::kSelect && !half) {
        return {Obstacle::kEpiloguePart, edge.input->producer, id, contraction_};
      }
      if (edge.input->view == Access::kPermute && !picks && !is_channels_last(edge)) {
        return {Obstacle::kEpilogueOrder, contraction_, id};
      }
    }
    // Rows of single elements have no state that an epilogue could keep, and tiles are the rows of
    // one tensor.
    const bool single =
        facts(id).op_class != OpClass::kPointwise && op(id).rows.empty() &&
        (op(id).row->accumulator != Accumulator::kNone || op(id).row->family == OpFamily::kLoss);
    const bool several = op(id).row->family == OpFamily::kSoftmaxBackward;
    if (single || several) return {Obstacle::kEpilogueAccumulator, contraction_, id};
  }
  return {};
}

Verdict EpilogueCheck::check_spaces(std::uint64_t on_chip_bytes) const {
  const Phases& phases = resolved_.phases();
  const std::uint64_t made = outline_.results_of(contraction_).front().elements;
  const std::uint64_t space = halves_ && other_ == kNone ? made / 2 : made;
  if (halves_) {
    const auto is_written = [&](OpId id) { return phases.written[resolved_.index_of(id)] > 0; };
    const bool part = other_ == kNone && (is_written(contraction_) ||
                                          std::ranges::any_of(halves_->before, is_written));
    if (part || !phases.rows.empty()) {
      return other_ == kNone
                 ? Verdict{Obstacle::kEpiloguePart, contraction_, kernel_.back()}
                 : Verdict{Obstacle::kSiblingReduction, contraction_, first_reduction(), other_};
    }
  }
  for (const OpId id : kernel_) {
    if (is_product(id)) continue;
    if (precedes_[resolved_.index_of(id)]) {
      const bool stored = phases.written[resolved_.index_of(id)] > 0;
      if (stored) return {Obstacle::kPrologueStored, id, contraction_};
      if (!phases.rows.empty()) {
        return {Obstacle::kPrologueReduction, id, contraction_, first_reduction()};
      }
      continue;
    }
    const bool of_rows = phase_of(id) > 0 && facts(id).work <= phases.rows.rows();
    const std::size_t place = resolved_.index_of(id);
    const bool written = phases.written[place] > 0;
    const bool for_inside = facts(id).work < space && resolved_.feeds_inside(place) && !written;
    const bool of_whole =
        halves_ && std::ranges::find(halves_->before, id) != halves_->before.end();
    if (facts(id).work != space && !of_rows && !for_inside && !of_whole) {
      return {Obstacle::kSpaces, contraction_, id};
    }
  }
  if (attends() && precedes_.any() && !holds_pages(graph_, op(contraction_), on_chip_bytes)) {
    return {Obstacle::kHeads, contraction_};
  }
  return check_rows(on_chip_bytes);
}

Verdict EpilogueCheck::check_rows(std::uint64_t on_chip_bytes) const {
  const Phases& phases = resolved_.phases();
  if (phases.rows.empty()) return {};
  const Op& product = op(contraction_);
  OpId reduction = contraction_;
  for (const OpId id : kernel_) {
    if (!facts(id).reduces()) continue;
    if (phases.mixed_rows) {
      if (reduction == contraction_) reduction = id;
      if (facts(id).rows != facts(reduction).rows) return {Obstacle::kRows, reduction, id};
      continue;
    }
    const bool reduces =
        facts(id).op_class != OpClass::kReduce || row_of(op(id).row->accumulator).merges_tiles;
    if (!reduces) return {Obstacle::kEpilogueAccumulator, contraction_, id};
    const bool picks = facts(id).access == Access::kGather && phase_of(id) > 0;
    if (picks) return {Obstacle::kEpilogueMovement, contraction_, id};
    if (reduction != contraction_) return {Obstacle::kEpilogueSecond, contraction_, id, reduction};
    if (!is_narrow_float(product.outputs[0]) || !is_narrow_float(op(id).operands[0].tensor) ||
        !is_narrow_float(op(id).outputs[0])) {
      return {Obstacle::kEpilogueTypes, contraction_, id};
    }
    reduction = id;
  }
  if (phases.mixed_rows) return {Obstacle::kRows, contraction_, reduction};
  const RowLayout& rows = phases.rows;
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
  if (!fits_tiles) return {Obstacle::kEpilogueRows, contraction_, reduction};
  // Whole rows are streamed tile by tile; a second pass must find them on chip.
  std::uint64_t tile = kFewestTileRows * kAccumulatorBytes;
  const bool held =
      rows.reduces_innermost() && checked_multiply(tile, columns) && tile <= on_chip_bytes;
  if (held) return {};
  for (const OpId id : kernel_) {
    const bool reads_again = facts(id).passes > 1 || (phase_of(id) > 0 && facts(id).work == space);
    if (reads_again) return {Obstacle::kEpilogueHolds, contraction_, id};
  }
  return {};
}

}  // namespace

bool computes_weights(const OpGraph& graph, OpId contraction) {
  const Op& product = graph.ops[contraction];
  if (product.row->family != OpFamily::kLinear) return false;
  constexpr std::uint64_t kMostRows = 32;
  return has_prologue_types(graph, product) && product.matrix.depth % 8 == 0 &&
         graph.tensors[product.outputs[0]].elements <= kMostRows * product.matrix.columns;
}

bool computes_rows(const OpGraph& graph, OpId contraction) {
  const Op& product = graph.ops[contraction];
  const bool lines_along_k = is_matrix_product(product.row->family) &&
                             !product.attributes->transpose_a && scales_sums(graph, product);
  constexpr std::uint64_t kFewRows = 64;
  return lines_along_k && has_prologue_types(graph, product) && product.matrix.depth > 0 &&
         product.matrix.rows > kFewRows && product.operands[0].tensor != product.operands[1].tensor;
}

bool takes_prologue(const OpGraph& graph, OpId contraction) {
  const Op& product = graph.ops[contraction];
  if (product.row->family == OpFamily::kAttention) return takes_pages(graph, product);
  return computes_rows(graph, contraction) || computes_weights(graph, contraction);
}

Verdict check_epilogue(const ResolvedKernel& resolved, const Kernel& kernel, OpId contraction) {
  return EpilogueCheck(resolved, kernel, contraction).check_ops();
}

Verdict check_epilogue_tiles(const ResolvedKernel& resolved, const Kernel& kernel, OpId contraction,
                             std::uint64_t on_chip_bytes) {
  EpilogueCheck check(resolved, kernel, contraction);
  check.find_prologue();
  return check.check_spaces(on_chip_bytes);
}

}  // namespace fusecalc
