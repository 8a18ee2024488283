#include "measure/repeated_rows.hpp"

#include <algorithm>
#include <optional>

#include "graph/axis.hpp"
#include "reference/element.hpp"

namespace fusecalc {
namespace {

class PeriodFinder {
 public:
  PeriodFinder(const OpGraph& graph, const GraphPart& part) : graph_(graph), part_(part) {}

  Periods run() {
    for (const Op& op : graph_.ops) {
      if (op.row->family == OpFamily::kScatter && !add_scatter(op)) return {};
    }
    return std::move(periods_);
  }

 private:
  // Whether the data of the scatter and of those before it can repeat, or need not.
  bool add_scatter(const Op& op) {
    const Tensor& table = graph_.tensor(op.operands[0].tensor);
    const Tensor& indices = graph_.value_of(op.operands[1].tensor);
    const Shape& shape = table.type.shape;
    const std::size_t axis = axis_of(op, shape.size());
    const auto highest = static_cast<std::uint64_t>(precision_of(indices.type.dtype).highest);
    const std::uint64_t rows = shape[axis];
    if (table.elements == 0 || rows < 2 || rows > highest || indices.elements < rows) return true;
    // Few are left alone: the bytes that are counted on the device stay close to the prediction.
    const std::uint64_t named = rows - std::max<std::uint64_t>(1, rows / 256);
    // The updates of two indices are this far apart, whatever comes before the axis.
    const std::uint64_t inner = elements_between(shape, axis + 1, shape.size());
    return add_given(op.operands[1].tensor, named) &&
           add_updates(op.operands[2].tensor, named * inner);
  }

  bool in_order(TensorId id) const { return graph_.tensor(id).window == graph_.tensor(id).value; }

  bool is_given(TensorId value) const {
    return std::ranges::find(part_.given, value) != part_.given.end();
  }

  bool add_given(TensorId id, std::uint64_t period) {
    const TensorId value = graph_.tensor(id).value;
    return is_given(value) && in_order(id) &&
           periods_.try_emplace(value, period).first->second == period;
  }

  // Follows ops that compute each element from the same element of their operands.
  bool add_updates(TensorId id, std::uint64_t period) {
    const Tensor& value = graph_.value_of(id);
    if (is_given(graph_.tensor(id).value)) return add_given(id, period);
    if (value.producer == kNone || !in_order(id)) return false;
    const Op& op = graph_.ops[value.producer];
    const bool by_element =
        op.op_class == OpClass::kPointwise && op.row->family != OpFamily::kDropout;
    return by_element && std::ranges::all_of(op.operands, [&](const Operand& operand) {
             if (operand.tensor == kNone) return true;
             return graph_.tensor(operand.tensor).type.shape == value.type.shape &&
                    add_updates(operand.tensor, period);
           });
  }

  const OpGraph& graph_;
  const GraphPart& part_;
  Periods periods_;
};

}  // namespace

Periods find_periods(const OpGraph& graph, const GraphPart& part) {
  return PeriodFinder(graph, part).run();
}

}  // namespace fusecalc
