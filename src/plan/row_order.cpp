#include "plan/row_order.hpp"

#include <algorithm>
#include <utility>

#include "graph/axis.hpp"
#include "graph/operand_map.hpp"

namespace fusecalc {
namespace {

using Edge = ResolvedKernel::Edge;

// Whether each of the numbers is that of one element.
bool is_permutation(const StridedMap& map, std::uint64_t elements) {
  std::vector<StridedMap::Axis> axes = map.axes;
  std::ranges::sort(axes, {}, &StridedMap::Axis::stride);
  std::uint64_t inner = 1;
  for (const StridedMap::Axis& axis : axes) {
    if (axis.stride != inner) return false;
    inner *= axis.extent;
  }
  return map.offset == 0 && inner == elements;
}

// The same map for whole rows: nothing where one leads to parts of several. Rows have `from`
// elements here, and `to` where the map leads.
std::optional<StridedMap> map_of_rows(const StridedMap& map, std::uint64_t from, std::uint64_t to) {
  std::vector<StridedMap::Axis> across;  // innermost first
  std::uint64_t last = map.offset;       // the farthest element of the first row
  for (std::size_t i = map.axes.size(); i-- > 0;) {
    const StridedMap::Axis& axis = map.axes[i];
    const std::uint64_t along = std::min(axis.extent, from);
    if (axis.extent % along != 0 || from % along != 0) return std::nullopt;
    from /= along;
    last += (along - 1) * axis.stride;
    if (axis.extent == along) continue;
    if (axis.stride * along % to != 0) return std::nullopt;
    across.push_back({axis.extent / along, axis.stride * along / to});
  }
  if (from != 1 || last >= to) return std::nullopt;
  StridedMap rows;
  for (std::size_t i = across.size(); i-- > 0;) rows.append(across[i].extent, across[i].stride);
  return rows;
}

// In how many runs an op's elements are if it takes those of a run from one run of the operand, in
// whatever order; nothing for other ops and operands.
std::optional<std::uint64_t> runs_of(const OpGraph& graph, const Op& op, TensorId operand) {
  const Shape& shape = graph.tensors[op.outputs[0]].type.shape;
  const bool first = operand == op.operands[0].tensor;
  switch (op.row->family) {
    case OpFamily::kRotary:
      if (!first) return std::nullopt;
      return elements_between(shape, 0, shape.size() - 1);
    case OpFamily::kConcat: return elements_between(shape, 0, axis_of(op, shape.size()));
    case OpFamily::kGatherElements: {
      // There may be fewer indices than the operand has elements along any axis.
      const std::size_t axis = axis_of(op, shape.size());
      const std::uint64_t runs = elements_between(shape, 0, axis);
      const bool all = runs == elements_between(graph.tensors[operand].type.shape, 0, axis);
      return first && all ? std::optional(runs) : std::nullopt;
    }
    default: return op.rows.empty() ? std::nullopt : std::optional(op.rows.rows());
  }
}

// What the elements of an op's rows, in order, take of an operand.
struct Taken {
  std::uint64_t elements = 0;
  StridedMap map;
};

std::optional<Taken> elements_taken(const OpGraph& graph, const Op& op, TensorId operand,
                                    std::uint64_t rows) {
  const Tensor& tensor = graph.tensors[operand];
  const Tensor& result = graph.tensors[op.outputs[0]];
  if (const auto runs = runs_of(graph, op, operand)) {
    if (*runs % rows != 0) return std::nullopt;
    return Taken{tensor.elements, StridedMap::of(tensor.elements)};
  }
  const auto place = std::ranges::find(op.operands, operand, &Operand::tensor);
  std::optional<StridedMap> map =
      operand_map(graph, op, static_cast<std::size_t>(place - op.operands.begin()));
  return map ? std::optional(Taken{result.elements, std::move(*map)}) : std::nullopt;
}

class OrderFinder {
 public:
  OrderFinder(const ResolvedKernel& resolved, const Kernel& kernel)
      : resolved_(resolved),
        graph_(resolved.graph()),
        kernel_(kernel),
        phases_(resolved.phases()),
        rows_(phases_.rows.rows()),
        kept_(StridedMap::of(rows_)) {}

  RowOrder run() {
    found_.of.assign(kernel_.size(), kept_);
    for (std::size_t i = 0; i < kernel_.size() && found_.verdict.legal(); ++i) follow(i);
    if (found_.verdict.legal()) check_reads();
    return std::move(found_);
  }

 private:
  // As large as the rows.
  bool is_full(const Edge& edge) const {
    return edge.input->elements == rows_ * phases_.rows.row_length();
  }

  void refuse(OpId first, OpId second) {
    const auto reduces = [&](OpId id) { return graph_.outline[id].reduces(); };
    found_.verdict = {Obstacle::kPermutesRows, first, second,
                      *std::ranges::find_if(kernel_, reduces)};
  }

  // An op that works on what was reduced has the order of the rows that it takes.
  void follow(std::size_t i) {
    const Outline::OpFacts& facts = graph_.outline[kernel_[i]];
    bool known = facts.reduces();
    for (const Edge& edge : resolved_.edges_of(i)) {
      if (!edge.inside() || phases_.ready_in[edge.maker] == 0) continue;
      const auto rows =
          facts.moves() ? rows_taken(graph_, kernel_[i], *edge.input, rows_) : std::nullopt;
      const auto order = joined(rows.value_or(kept_), found_.of[edge.maker]);
      const bool agrees = order && (!known || *order == found_.of[i]);
      // What has one element for each row is computed in the order of the kernel.
      const bool keeps = rows && facts.work > rows_;
      if (!agrees || (!keeps && *order != kept_)) return refuse(kernel_[edge.maker], kernel_[i]);
      found_.of[i] = *order;
      known = true;
    }
    if (found_.of[i] == kept_) return;
    // So is what the kernel makes before it reduces: not again in this order.
    for (const Edge& edge : resolved_.edges_of(i)) {
      const bool early = edge.inside() && phases_.ready_in[edge.maker] == 0;
      if (early && is_full(edge)) return refuse(kernel_[edge.maker], kernel_[i]);
    }
  }

  // What blocks read from memory in several orders they would read again.
  void check_reads() {
    struct Read {
      std::size_t by;
      StridedMap order;  // from the number of the kernel's row to that of the row in memory
    };
    std::vector<std::optional<Read>> reads(resolved_.reads());
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      for (const Edge& edge : resolved_.edges_of(i)) {
        if (edge.inside() || !is_full(edge)) continue;
        const auto rows = rows_taken(graph_, kernel_[i], *edge.input, rows_);
        const auto order = rows ? joined(inverse(found_.of[i]), *rows) : std::nullopt;
        if (!order) continue;
        std::optional<Read>& first = reads[edge.value];
        if (!first) first = {i, *order};
        if (first->order != *order) return refuse(kernel_[first->by], kernel_[i]);
      }
    }
  }

  const ResolvedKernel& resolved_;
  const OpGraph& graph_;
  const Kernel& kernel_;
  const Phases& phases_;
  const std::uint64_t rows_;
  const StridedMap kept_;
  RowOrder found_;
};

bool permutes(const OpGraph& graph, OpId reader, const Edge& edge) {
  return edge.inside() &&
         (graph.outline[reader].access == Access::kPermute || edge.input->view == Access::kPermute);
}

}  // namespace

std::optional<StridedMap> rows_taken(const OpGraph& graph, OpId reader, const Outline::Input& input,
                                     std::uint64_t rows) {
  if (rows == 0 || input.elements == 0) return std::nullopt;
  const Tensor& tensor = graph.tensors[input.tensor];
  std::optional<Taken> taken = elements_taken(graph, graph.ops[reader], input.tensor, rows);
  if (!taken || taken->elements == 0) return std::nullopt;
  if (taken->elements % rows != 0 || input.elements % rows != 0) return std::nullopt;
  std::optional<StridedMap> map = std::move(taken->map);
  for (const StridedMap& next : tensor.maps) map = map ? joined(*map, next) : map;
  if (map) map = map_of_rows(*map, taken->elements / rows, input.elements / rows);
  return map && is_permutation(*map, rows) ? map : std::nullopt;
}

RowOrder row_order(const ResolvedKernel& resolved, const Kernel& kernel) {
  const Phases& phases = resolved.phases();
  if (!phases.rows.whole_rows() || phases.mixed_rows || phases.contracts) return {};
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    for (const Edge& edge : resolved.edges_of(i)) {
      if (permutes(resolved.graph(), kernel[i], edge)) return OrderFinder(resolved, kernel).run();
    }
  }
  return {};
}

}  // namespace fusecalc
