#include "graph/operand_map.hpp"

#include "graph/axis.hpp"

namespace fusecalc {
namespace {

// From an element of a tensor of this shape to a place along some of its axes.
StridedMap place_along(const Shape& shape, std::size_t first, std::size_t last) {
  StridedMap map;
  map.append(elements_between(shape, 0, first), 0);
  map.append(elements_between(shape, first, last), 1);
  map.append(elements_between(shape, last, shape.size()), 0);
  return map;
}

}  // namespace

std::optional<StridedMap> operand_map(const OpGraph& graph, const Op& op, std::size_t operand) {
  const Shape& of = graph.tensors[op.operands[operand].tensor].type.shape;
  const Shape& result = graph.tensors[op.outputs[0]].type.shape;
  const bool first = operand == 0;
  if (first && op.source) return op.source;
  switch (op.row->family) {
    case OpFamily::kPointwise:
    case OpFamily::kWhere:
    case OpFamily::kCast:
    case OpFamily::kTriangle:
    case OpFamily::kDropout: return broadcast_map(of, result);
    case OpFamily::kBatchNorm:
      if (op.op_class != OpClass::kPointwise) return std::nullopt;
      return first ? StridedMap::of(graph.tensors[op.outputs[0]].elements)
                   : place_along(result, 1, 2);
    case OpFamily::kGather:
    case OpFamily::kEmbedding: {
      const auto type_of = [&](std::size_t i) -> const TensorType& {
        return graph.tensors[op.operands[i].tensor].type;
      };
      const std::size_t table = table_input(graph, op);
      if (operand == table) return std::nullopt;
      const std::size_t axis = axis_of(op, type_of(table).shape.size());
      return place_along(result, axis, axis + of.size());
    }
    case OpFamily::kGatherElements:
      return first ? std::nullopt
                   : std::optional(StridedMap::of(graph.tensors[op.outputs[0]].elements));
    default: return std::nullopt;
  }
}

std::optional<StridedMap> map_to_value(const StridedMap& map, const Tensor& tensor) {
  if (tensor.maps.size() > 1) return std::nullopt;
  return tensor.maps.empty() ? map : joined(map, tensor.maps.front());
}

std::optional<StridedMap> map_to_value(const StridedMap& map, const OpGraph& graph, const Op& op,
                                       std::size_t operand) {
  const std::optional<StridedMap> of_op = operand_map(graph, op, operand);
  const std::optional<StridedMap> there = of_op ? joined(map, *of_op) : std::nullopt;
  return there ? map_to_value(*there, graph.tensors[op.operands[operand].tensor]) : std::nullopt;
}

}  // namespace fusecalc
