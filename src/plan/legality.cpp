#include "plan/legality.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "plan/attention.hpp"
#include "plan/capability.hpp"
#include "plan/code_size.hpp"
#include "plan/epilogue.hpp"
#include "plan/halves.hpp"
#include "plan/overwrites.hpp"
#include "plan/reordering.hpp"
#include "plan/row_order.hpp"
#include "plan/rows_and_columns.hpp"
#include "plan/scans.hpp"
#include "plan/siblings.hpp"

namespace fusecalc {
namespace {

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
    if (const Verdict ops = check_ops(Purpose::kPlan); !ops.legal()) return ops;
    if (const Verdict fused = check_fusion(); !fused.legal()) return fused;
    if (const Verdict safe = check_overwrites(*resolved_, kernel_); !safe.legal()) return safe;
    if (!rules_.launchable) return {};
    const Verdict limits = check_limits(*resolved_, kernel_, rules_.on_chip_bytes);
    return limits.legal() ? check_arithmetic() : limits;
  }

  Verdict run_launch() {
    if (const Verdict ops = check_ops(Purpose::kLaunch); !ops.legal()) return ops;
    resolved_ = finder_.resolve(kernel_);
    const Verdict limits = check_limits(*resolved_, kernel_, rules_.on_chip_bytes);
    if (!limits.legal()) return limits;
    if (const Verdict safe = check_overwrites(*resolved_, kernel_); !safe.legal()) return safe;
    // A single op breaks no rule of fusion.
    if (const Verdict fused = kernel_.size() < 2 ? Verdict{} : check_fusion(); !fused.legal()) {
      return fused;
    }
    return check_arithmetic();
  }

 private:
  enum class Purpose : std::uint8_t { kPlan, kLaunch };

  const Op& op(OpId id) const { return graph_.ops[id]; }
  const Outline::OpFacts& facts(OpId id) const { return outline_[id]; }
  std::uint8_t phase_of(OpId id) const { return phases_->runs_in[resolved_->index_of(id)]; }

  std::span<const Edge> edges_of(OpId id) const {
    return resolved_->edges_of(resolved_->index_of(id));
  }

  bool feeds_inside(OpId id) const { return resolved_->feeds_inside(resolved_->index_of(id)); }

  bool too_many_tensors() const;

  Verdict check_ops(Purpose purpose);
  Verdict check_fusion();
  OpId unconnected() const;
  bool one_reads_too_much() const;
  Verdict check_edges() const;
  Verdict check_ready(OpId to, const Outline::Input& input) const;
  Verdict check_edge(OpId to, const Outline::Input& input) const;
  bool keeps_rows(OpId to, const Outline::Input& input) const;
  bool aligned(const Outline::Input& input, OpId reader) const;
  Verdict check_spaces() const;
  Verdict check_grid() const;
  bool works_on(OpId id, OpId earlier) const;
  OpId first_reduction() const;
  OpId reduction_before(OpId id) const;
  Verdict check_siblings() const;
  Verdict check_halves(const Kernel& part) const;
  Verdict check_contractions() const;
  Verdict check_arithmetic() const;
  OpId apart_from(OpId last) const;
  bool stores_reordered(OpId id) const { return ::fusecalc::stores_reordered(*resolved_, id); }
  bool softmax_between(OpId first, OpId second) const;

  PhaseFinder& finder_;
  // Not before it is known that the kernel is small enough: searches ask about large ones.
  std::optional<ResolvedKernel> resolved_;
  const OpGraph& graph_;
  const Outline& outline_;
  const Kernel& kernel_;
  const Rules& rules_;
  const Phases* phases_ = nullptr;
  std::vector<OpId> contractions_;
  OpId scan_ = kNone;
  bool halves_ = false;        // whether two of them make the halves that an epilogue takes
  std::vector<Kernel> parts_;  // where they are siblings, each with its own epilogue
};

// Finds the contractions and the scan on the way.
Verdict Check::check_ops(Purpose purpose) {
  for (const OpId id : kernel_) {
    // A compiler that has the code of a pointwise op puts it wherever one of the table may be.
    const bool known = facts(id).op_class == OpClass::kPointwise && !rules_.launchable;
    if (facts(id).opaque && !known) {
      const Verdict verdict = check_op(graph_, id);
      if (!verdict.legal()) return verdict;
      const bool scans = facts(id).has_kernel && op(id).row->family == OpFamily::kScan;
      if (kernel_.size() > 1 && !scans) return {Obstacle::kOwnKernel, id};
      if (scan_ != kNone) return {Obstacle::kSecondScan, scan_, id};
      if (scans) scan_ = id;
    }
    if (rules_.launchable && !facts(id).has_kernel) {
      const Verdict verdict = check_op(graph_, id);
      // What is too large for a launch is so in a kernel of its own, too.
      const bool as_alone = purpose == Purpose::kPlan && verdict.obstacle == Obstacle::kTooLarge;
      if (!as_alone) return verdict;
    }
    if (!facts(id).contracts()) continue;
    if (contractions_.empty()) contractions_.reserve(kMostSiblings);
    contractions_.push_back(id);
  }
  return {};
}

// Whether an op reads too many tensors by itself, even if the others make as many of them as they
// have results: a concat of thousands need not be resolved for each of its neighbours.
bool Check::one_reads_too_much() const {
  const bool many = std::ranges::any_of(
      kernel_, [&](OpId id) { return outline_.inputs_of(id).size() > kMostTensors; });
  if (!many) return false;
  std::size_t most = kMostTensors;
  for (const OpId id : kernel_) most += outline_.results_of(id).size();
  return std::ranges::any_of(kernel_, [&](OpId id) {
    const std::span<const Outline::Input> inputs = outline_.inputs_of(id);
    if (inputs.size() <= most) return false;
    std::set<TensorId> read;
    for (auto input = inputs.begin(); input != inputs.end() && read.size() <= most; ++input) {
      read.insert(input->storage);
    }
    return read.size() > most;
  });
}

Verdict Check::check_fusion() {
  if (kernel_.size() > kMostOps) return {Obstacle::kTooManyOps};
  if (one_reads_too_much()) return {Obstacle::kTooManyTensors};
  if (rules_.epilogues && contractions_.size() > 1) parts_ = sibling_parts(graph_, kernel_);
  for (const Kernel& part : parts_) {
    const Verdict own = Check(finder_, part, rules_).run();
    if (!own.legal()) return own;
    if (const Verdict halves = check_halves(part); !halves.legal()) return halves;
  }
  resolved_ = finder_.resolve(kernel_);
  halves_ = contractions_.size() == 2 && halves_of(graph_, kernel_, contractions_[0]);
  // What can be told from who feeds whom comes first: searches ask about many kernels that fail.
  if (const Verdict order = check_contractions(); !order.legal()) return order;
  if (too_many_tensors()) return {Obstacle::kTooManyTensors};
  if (const OpId apart = unconnected(); apart != kNone) {
    return {Obstacle::kUnrelated, kernel_.front(), apart};
  }
  phases_ = &resolved_->phases();
  if (const Verdict code = check_code(*resolved_, kernel_); !code.legal()) return code;
  if (scan_ != kNone) return check_scan(*resolved_, kernel_, scan_);
  if (const Verdict edges = check_edges(); !edges.legal()) return edges;
  if (const Verdict order = row_order(*resolved_, kernel_).verdict; !order.legal()) return order;
  if (contractions_.empty()) return check_spaces();
  if (!parts_.empty()) {
    return phases_->rows.empty() ? check_overwrites_between(graph_, parts_)
                                 : Verdict{Obstacle::kSiblingReduction, contractions_[0],
                                           first_reduction(), contractions_[1]};
  }
  if (contractions_.size() == 1 || halves_) {
    return check_epilogue_tiles(*resolved_, kernel_, contractions_[0], rules_.on_chip_bytes);
  }
  return rules_.launchable
             ? check_heads(graph_, contractions_[0], contractions_[1], rules_.on_chip_bytes)
             : Verdict{};
}

// Of a part of several, which has tiles of its product's whole result.
Verdict Check::check_halves(const Kernel& part) const {
  const OpId product = contraction_of(graph_, part);
  const std::optional<Halves> halves = halves_of(graph_, part, product);
  if (!halves) return {};
  const OpId reader = *std::ranges::find_if(part, [&](OpId id) {
    return std::ranges::any_of(outline_.inputs_of(id), [&](const Outline::Input& input) {
      return input.window == halves->second;
    });
  });
  const OpId beside = product == contractions_[0] ? contractions_[1] : contractions_[0];
  return {Obstacle::kSiblingHalves, product, reader, beside};
}

// Counts those that the kernel reads from memory or writes to it.
bool Check::too_many_tensors() const {
  std::size_t tensors = resolved_->reads();
  if (tensors + resolved_->results() <= kMostTensors) return false;
  for (std::size_t i = 0; i < kernel_.size() && tensors <= kMostTensors; ++i) {
    for (const Outline::Result& result : outline_.results_of(kernel_[i])) {
      if (resolved_->needed_outside(i, result)) ++tensors;
    }
  }
  return tensors > kMostTensors;
}

// An op that shares no tensor with the first, directly or not: merging what has nothing in common
// saves no traffic.
OpId Check::unconnected() const {
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
    if (parts == 1) return kNone;
  }
  std::size_t apart = 0;
  while (find(apart) == find(0)) ++apart;
  return kernel_[apart];
}

Verdict Check::check_edges() const {
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (!edge.inside()) continue;
      const Verdict verdict = check_edge(kernel_[i], *edge.input);
      if (!verdict.legal()) return verdict;
    }
  }
  return {};
}

// Whether a block can have what its own kernel makes before all blocks are done.
Verdict Check::check_ready(OpId to, const Outline::Input& input) const {
  const OpId from = input.producer;
  if (facts(from).access == Access::kScatter) return {Obstacle::kAfterScatter, from, to};
  if (facts(to).access == Access::kWindow) return {Obstacle::kBeforeWindow, from, to};
  if (input.elements <= 1 && op(from).collapses) return {Obstacle::kAfterCollapse, from, to};
  return {};
}

Verdict Check::check_edge(OpId to, const Outline::Input& input) const {
  const OpId from = input.producer;
  const Outline::OpFacts& producer = facts(from);
  const Outline::OpFacts& reader = facts(to);
  if (const Verdict ready = check_ready(to, input); !ready.legal()) return ready;
  if (phases_->rows.empty()) return {};
  const bool permutes = reader.access == Access::kPermute || producer.access == Access::kPermute ||
                        input.view == Access::kPermute;
  const bool reduced = phases_->ready_in[resolved_->index_of(from)] > 0;
  const auto keeps = [&] { return reduced && keeps_rows(to, input); };
  if (permutes && reader.op_class != OpClass::kContract) {
    if (!keeps()) {
      return {Obstacle::kPermutesRows, from, to, reader.reduces() ? to : first_reduction()};
    }
    // A general compiler keeps to one order of rows.
    return rules_.epilogues ? Verdict{}
                            : Verdict{Obstacle::kCompilerOrder, from, to, first_reduction()};
  }
  if (phase_of(to) == 0 && !reduced) return {};
  // From here on the value comes out of a reduction, directly or not.
  const Access access = reader.access;
  const bool picks_score = reader.op_class == OpClass::kNormalise && access == Access::kGather;
  if (picks_score) {
    // From the rows that were reduced before, or from the results of rows.
    const RowLayout& layout = phases_->rows;
    const bool whole_rows =
        layout.reduces_innermost() && layout.rows() == reader.work && input.view == Access::kSame &&
        (input.elements == layout.rows() * layout.row_length() || input.elements == layout.rows());
    return whole_rows ? Verdict{} : Verdict{Obstacle::kRows, from, to, reduction_before(from)};
  }
  // What a scatter writes may be made here, what it writes into may not.
  const bool written_into =
      access == Access::kScatter && graph_.value_of(op(to).operands[0].tensor).producer == from;
  const bool moves = (access != Access::kSame && access != Access::kScatter) ||
                     (input.view != Access::kSame && !(reader.moves() && access == Access::kSame));
  if (moves || written_into) {
    if (rules_.epilogues && keeps()) return {};
    // The rows that are not finished may be those of another operand.
    return {Obstacle::kMovesRows, from, to, reduction_before(reduced ? from : to)};
  }
  if (reader.moves() && access == Access::kSame && !aligned(input, to)) {
    if (rules_.epilogues && keeps()) return {};
    const auto leads = [&](OpId id) { return op(id).rows == phases_->rows; };
    const auto leader = std::ranges::find_if(kernel_, leads);
    return {Obstacle::kMisaligned, from, to, leader == kernel_.end() ? from : *leader};
  }
  return {};
}

// Whether each row of the reader is made of one row of what was reduced, from which it may read any
// element: a thread has the results of the row, and computes the others out of them again.
bool Check::keeps_rows(OpId to, const Outline::Input& input) const {
  if (!facts(to).moves() || phases_->crossed || phases_->contracts) return false;
  const OpId from = input.producer;
  const RowLayout& layout = op(facts(from).reduces() ? from : reduction_before(from)).rows;
  return layout.whole_rows() && rows_taken(graph_, to, input, layout.rows());
}

// Whether each element reads the same element, or that of its own row's result.
bool Check::aligned(const Outline::Input& input, OpId reader) const {
  const Outline::Result& result = outline_.results_of(reader).front();
  const bool whole = input.view == Access::kSame;
  if (input.elements == 1 || (whole && input.elements == result.elements)) return true;
  const Tensor& narrow = graph_.tensors[input.tensor];
  std::optional<StridedMap> map =
      broadcast_map(narrow.type.shape, graph_.tensors[result.tensor].type.shape);
  for (const StridedMap& next : narrow.maps) map = map ? joined(*map, next) : map;
  // Repeated along the reduced axes, and in order along the others.
  if (!map || map->offset != 0 || map->distinct() != input.elements || map->permutes())
    return false;
  RowLayout repeated;
  for (const StridedMap::Axis& axis : map->axes) repeated.append(axis.extent, axis.stride == 0);
  return repeated == phases_->rows;
}

// All that is written must come out of one loop.
Verdict Check::check_spaces() const {
  // A general compiler keeps to one order of rows.
  if (phases_->crossed && rules_.epilogues) {
    return check_rows_and_columns(*resolved_, kernel_, rules_.on_chip_bytes);
  }
  std::optional<OpId> widest;  // of those that work for the outside
  std::optional<OpId> first_rows;
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    const OpId id = kernel_[i];
    const bool inside_only = phases_->written[i] == 0 && resolved_->feeds_inside(i);
    if (!inside_only && (!widest || facts(id).work > facts(*widest).work)) widest = id;
    if (!facts(id).reduces()) continue;
    const bool picks = facts(id).access == Access::kGather && phases_->runs_in[i] > 0;
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
    // What a part of the rows is made of once they are reduced is not stored.
    const bool early = phase_of(id) == 0 && facts(id).work < space;
    const bool for_inside =
        feeds_inside(id) && (early || phases_->written[resolved_->index_of(id)] == 0);
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

// Products by ordinary arithmetic, where there are no kernels on tensor cores for them.
Verdict Check::check_arithmetic() const {
  if (rules_.tensor_cores || contractions_.empty()) return {};
  const OpId first = contractions_.front();
  const OpId last = contractions_.back();
  if (!parts_.empty() || halves_of(graph_, kernel_, first)) {
    return {Obstacle::kTensorCores, first, last};
  }
  for (const Edge& edge : edges_of(first)) {
    if (edge.inside()) return {Obstacle::kTensorCores, edge.input->producer, first};
  }
  const bool attends = contractions_.size() > 1 || op(first).row->family == OpFamily::kAttention;
  return attends ? check_heads(graph_, first, last, rules_.on_chip_bytes, false) : Verdict{};
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

OpId Check::first_reduction() const {
  const auto found = std::ranges::find_if(kernel_, [&](OpId id) { return facts(id).reduces(); });
  return found == kernel_.end() ? kNone : *found;
}

// The last reduction whose result the op needs; kNone if it reduces, too.
OpId Check::reduction_before(OpId id) const {
  if (facts(id).reduces()) return kNone;
  std::bitset<kMostOps> needed;
  needed[resolved_->index_of(id)] = true;
  for (std::size_t i = resolved_->index_of(id) + 1; i-- > 0;) {
    if (!needed[i]) continue;
    if (facts(kernel_[i]).reduces()) return kernel_[i];
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (edge.inside()) needed[edge.maker] = true;
    }
  }
  return kNone;
}

// Why there are no parts, where all contractions are siblings.
Verdict Check::check_siblings() const {
  const std::vector<OpId>& contractions = contractions_;
  const bool siblings = contractions.size() > 1 && rules_.epilogues &&
                        std::ranges::all_of(contractions, [&](OpId id) {
                          return are_siblings(graph_, contractions[0], id);
                        });
  if (!siblings) return {};
  for (const OpId id : contractions) {
    for (const Edge& edge : edges_of(id)) {
      if (!edge.inside()) continue;
      const OpId maker = edge.input->producer;
      const OpId beside = contractions[id == contractions[0] ? 1 : 0];
      return {facts(maker).moves() ? Obstacle::kProloguePair : Obstacle::kPrologueRows, maker, id,
              beside};
    }
  }
  for (const OpId id : kernel_) {
    const bool alone = !feeds_inside(id) && std::ranges::none_of(contractions, [&](OpId first) {
      return works_on(id, first);
    });
    if (alone) return {Obstacle::kEpilogueSide, contractions[0], id};
  }
  return {Obstacle::kSideContraction, contractions.end()[-2], contractions.back()};
}

// What the main loops of contractions read and what is made of their results.
Verdict Check::check_contractions() const {
  const std::vector<OpId>& contractions = contractions_;
  if (contractions.empty()) return {};
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    for (const Edge& edge : resolved_->edges_of(i)) {
      if (!edge.inside()) continue;
      const Verdict ready = check_ready(kernel_[i], *edge.input);
      if (!ready.legal()) return ready;
    }
  }
  if (!parts_.empty()) return {};
  if (halves_ && rules_.epilogues) return check_epilogue(*resolved_, kernel_, contractions[0]);
  if (const Verdict siblings = check_siblings(); !siblings.legal()) return siblings;
  for (std::size_t i = 1; i < contractions.size(); ++i) {
    if (works_on(contractions[i], contractions[i - 1])) continue;
    // Those that a kernel may have side by side do not explain why another one is not in it.
    const bool may_be =
        rules_.epilogues && are_siblings(graph_, contractions[i - 1], contractions[i]);
    if (!may_be) return {Obstacle::kSideContraction, contractions[i - 1], contractions[i]};
  }
  if (contractions.size() > 2) {
    std::size_t last = softmax_between(contractions[0], contractions[1]) ? 2 : 1;
    while (last + 1 < contractions.size() &&
           !works_on(contractions[last], contractions[last - 1])) {
      ++last;
    }
    const bool attends = op(contractions[last]).row->family == OpFamily::kAttention;
    return attends
               ? check_attention(*resolved_, kernel_, contractions[last - 1], contractions[last])
               : Verdict{Obstacle::kSecondContraction, contractions[last - 1], contractions[last]};
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
    const bool attends = op(contractions[0]).row->family == OpFamily::kAttention;
    if (!attends || kernel_.size() > 2 || !stores_reordered(other)) {
      return {Obstacle::kLibraryContraction, contractions[0], other};
    }
  }
  return check_epilogue(*resolved_, kernel_, contractions[0]);
}

// An op of the kernel that `last` does not need, or kNone. General compilers' attention kernels
// store their result in any order.
OpId Check::apart_from(OpId last) const {
  std::bitset<kMostOps> needed;
  needed[resolved_->index_of(last)] = true;
  for (std::size_t i = kernel_.size(); i-- > 0;) {
    if (!needed[i] && stores_reordered(kernel_[i])) continue;
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

}  // namespace

Verdict check_kernel(PhaseFinder& phases, const Kernel& kernel, const Rules& rules) {
  return Check(phases, kernel, rules).run();
}

Verdict check_launch(PhaseFinder& phases, const Kernel& kernel, const Rules& rules) {
  return Check(phases, kernel, rules).run_launch();
}

Rules runner_rules(const Device& device) {
  return {.tensor_cores = device.capability >= kFirstWithCopies,
          .on_chip_bytes = device.on_chip_bytes};
}

Rules compiler_rules(const Device& device) {
  return {.epilogues = false, .launchable = false, .on_chip_bytes = device.on_chip_bytes};
}

}  // namespace fusecalc
