#include "plan/rows_and_columns.hpp"

#include <algorithm>

namespace fusecalc {
namespace {

// What a value has one of.
enum class Each : std::uint8_t { kElement, kRow, kColumn, kMatrix };

bool is_sum(const Op& op) {
  return op.op_class == OpClass::kReduce && op.row->accumulator == Accumulator::kSum &&
         op.row->device_taken.empty();
}

class RowColumnFinder {
 public:
  RowColumnFinder(const ResolvedKernel& resolved, const Kernel& kernel)
      : resolved_(resolved),
        graph_(resolved.graph()),
        kernel_(kernel),
        phases_(resolved.phases()),
        rows_(phases_.rows.rows()),
        length_(phases_.rows.row_length()) {}

  std::optional<RowsAndColumns> find(std::uint64_t on_chip_bytes) {
    if (!std::ranges::all_of(kernel_, [&](OpId id) { return is_known(id); })) return std::nullopt;
    // What one op tells of its operands and results tells more of others, wherever they stand.
    bool complete = false;
    for (std::size_t known = each_.size() + 1; known != each_.size();) {
      known = each_.size();
      // Readers come first: what large ops use of small values tells what those are.
      for (auto id = kernel_.rbegin(); id != kernel_.rend(); ++id) {
        if (!find_operands(*id)) return std::nullopt;
      }
      found_ = {};
      complete = true;
      for (const OpId id : kernel_) complete = find_results(id) && complete;
    }
    if (!complete) return std::nullopt;
    list_reads();
    // Rows are copied to the chip: there must be some.
    if (found_.elements.empty()) return std::nullopt;
    const auto tiling = column_tiling(work(), on_chip_bytes);
    if (!tiling) return std::nullopt;
    found_.tiling = *tiling;
    return found_;
  }

 private:
  const Op& op(OpId id) const { return graph_.ops[id]; }
  std::uint8_t phase_of(OpId id) const { return phases_.runs_in[resolved_.index_of(id)]; }
  bool sums_columns(OpId id) const { return !op(id).rows.empty() && op(id).rows != phases_.rows; }
  std::uint64_t bytes_of_element(TensorId id) const {
    return bytes_of(graph_.tensors[id].type.dtype, 1);
  }

  bool is_known(OpId id) const;
  bool is_plain(TensorId id) const;
  std::optional<Each> each_of_operand(const Op& reader, const Operand& operand) const;
  bool assign(TensorId tensor, Each each);
  bool find_operands(OpId id);
  bool find_results(OpId id);
  void list_reads();
  ColumnWork work() const;

  const ResolvedKernel& resolved_;
  const OpGraph& graph_;
  const Kernel& kernel_;
  const Phases& phases_;
  std::uint64_t rows_;
  std::uint64_t length_;
  std::map<TensorId, Each> each_;
  RowsAndColumns found_;
};

// In memory of its own, where elements have addresses, and in their order.
bool RowColumnFinder::is_plain(TensorId id) const {
  const Tensor& tensor = graph_.tensors[id];
  return tensor.window == tensor.value && !is_packed(tensor.type.dtype) &&
         graph_.value_of(id).storage == tensor.value;
}

bool RowColumnFinder::is_known(OpId id) const {
  const Op& op = this->op(id);
  const bool plain =
      std::ranges::all_of(op.outputs, [&](TensorId output) { return is_plain(output); }) &&
      std::ranges::all_of(op.operands, [&](const Operand& operand) {
        return operand.tensor == kNone || is_plain(operand.tensor);
      });
  const bool of_columns = phases_.columns[resolved_.index_of(id)] != 0;
  if (!plain || (phase_of(id) > 1 && !of_columns)) return false;
  if (op.op_class == OpClass::kPointwise) return op.row->access == Access::kSame;
  // Sums in 32-bit floats; those of rows of what is there in the first pass.
  const auto computed = [&](TensorId tensor) {
    const DType dtype = graph_.tensors[tensor].type.dtype;
    return is_float(dtype) && dtype != DType::kF64;
  };
  const bool in_time = sums_columns(id) || phase_of(id) == 0;
  return is_sum(op) && !op.rows.empty() && in_time && computed(op.operands[0].tensor) &&
         computed(op.outputs[0]);
}

// How a result of the op depends on the operand's place. None: in another way.
std::optional<Each> RowColumnFinder::each_of_operand(const Op& reader,
                                                     const Operand& operand) const {
  const Tensor& tensor = graph_.tensors[operand.tensor];
  if (tensor.elements == 1) return Each::kMatrix;
  std::optional<StridedMap> map =
      broadcast_map(tensor.type.shape, graph_.tensors[reader.outputs[0]].type.shape);
  for (const StridedMap& next : tensor.maps) map = map ? joined(*map, next) : map;
  if (!map) return std::nullopt;
  if (map->identity()) return Each::kElement;
  if (map->offset != 0 || map->permutes()) return std::nullopt;
  RowLayout repeated;
  for (const StridedMap::Axis& axis : map->axes) repeated.append(axis.extent, axis.stride == 0);
  if (repeated == phases_.rows && tensor.elements == rows_) return Each::kRow;
  return crosses(phases_.rows, repeated) && tensor.elements == length_
             ? std::optional(Each::kColumn)
             : std::nullopt;
}

bool RowColumnFinder::assign(TensorId tensor, Each each) {
  return each_.emplace(graph_.tensors[tensor].value, each).first->second == each;
}

// What the operands of an op are, given what its result is.
bool RowColumnFinder::find_operands(OpId id) {
  const Op& op = this->op(id);
  const bool whole = !op.rows.empty() || op.work == rows_ * length_;
  const auto known = each_.find(graph_.tensors[op.outputs[0]].value);
  for (const Operand& operand : op.operands) {
    if (operand.tensor == kNone) continue;
    if (!op.rows.empty()) {
      if (!assign(operand.tensor, Each::kElement)) return false;
      continue;
    }
    const std::optional<Each> each = each_of_operand(op, operand);
    if (!each) return false;
    if (*each == Each::kMatrix) continue;
    if (whole && !assign(operand.tensor, *each)) return false;
    // One of a small op's own elements.
    if (!whole && *each != Each::kElement) return false;
    if (!whole && known != each_.end() && !assign(operand.tensor, known->second)) return false;
  }
  return true;
}

bool RowColumnFinder::find_results(OpId id) {
  const Op& op = this->op(id);
  if (!op.rows.empty()) {
    const bool columns = sums_columns(id);
    (columns ? found_.column_sums : found_.row_sums).push_back(id);
    if (columns) found_.column_sum_of[op.outputs[0]] = id;
    return assign(op.outputs[0], columns ? Each::kColumn : Each::kRow);
  }
  std::optional<Each> each;
  if (op.work == rows_ * length_) each = Each::kElement;
  std::optional<OpId> sum;
  for (const Operand& operand : op.operands) {
    if (operand.tensor == kNone || graph_.tensors[operand.tensor].elements == 1) continue;
    const TensorId value = graph_.tensors[operand.tensor].value;
    const auto made_of = found_.column_sum_of.find(value);
    if (made_of != found_.column_sum_of.end()) {
      // Sums of columns are known one by one, and after all rows.
      if (each == Each::kElement || sum.value_or(made_of->second) != made_of->second) return false;
      sum = made_of->second;
    }
    const auto known = each_.find(value);
    if (!each && known != each_.end()) each = known->second;
  }
  if (!each) return false;
  for (const Operand& operand : op.operands) {
    const bool small = *each != Each::kElement && operand.tensor != kNone &&
                       graph_.tensors[operand.tensor].elements > 1;
    if (small && !assign(operand.tensor, *each)) return false;
  }
  for (const TensorId output : op.outputs) {
    if (!assign(output, *each)) return false;
    if (sum) found_.column_sum_of[output] = *sum;
    // What is made of operands of rows or of columns alone has no loop that would store it.
    const bool stored = resolved_.needed_outside(output);
    if (stored && *each == Each::kColumn && !sum) return false;
    if (stored && *each == Each::kRow && phase_of(id) == 0) return false;
  }
  return true;
}

void RowColumnFinder::list_reads() {
  for (const Phases::Use& use : phases_.reads) {
    const auto each = each_.find(use.value);
    if (each == each_.end()) continue;
    (each->second == Each::kElement ? found_.elements
     : each->second == Each::kRow   ? found_.of_rows
                                    : found_.of_columns)
        .push_back(use.value);
  }
}

ColumnWork RowColumnFinder::work() const {
  ColumnWork work{.rows = rows_, .length = length_, .shifts = true};
  work.sums = found_.column_sums.size();
  work.row_sums = found_.row_sums.size();
  for (const TensorId id : found_.elements) {
    work.element_bytes += bytes_of_element(id);
    work.widest_bytes = std::max(work.widest_bytes, bytes_of_element(id));
  }
  for (const TensorId id : found_.of_columns) work.column_bytes += bytes_of_element(id);
  for (const OpId id : kernel_) {
    for (const TensorId output : op(id).outputs) {
      const bool stored = resolved_.needed_outside(output);
      if (!stored || graph_.tensors[output].elements != rows_ * length_) continue;
      work.widest_bytes = std::max(work.widest_bytes, bytes_of_element(output));
    }
  }
  return work;
}

}  // namespace

std::optional<RowsAndColumns> rows_and_columns(const ResolvedKernel& resolved, const Kernel& kernel,
                                               std::uint64_t on_chip_bytes) {
  return RowColumnFinder(resolved, kernel).find(on_chip_bytes);
}

Verdict check_rows_and_columns(const ResolvedKernel& resolved, const Kernel& kernel,
                               std::uint64_t on_chip_bytes) {
  if (rows_and_columns(resolved, kernel, on_chip_bytes)) return {};
  const OpGraph& graph = resolved.graph();
  Verdict verdict{Obstacle::kColumns};
  for (const OpId id : kernel) {
    const Op& op = graph.ops[id];
    if (op.rows.empty()) continue;
    if (!is_sum(op)) verdict.obstacle = Obstacle::kRows;
    if (verdict.first == kNone) {
      verdict.first = id;
    } else if (verdict.second == kNone && op.rows != graph.ops[verdict.first].rows) {
      verdict.second = id;
    }
  }
  return verdict;
}

}  // namespace fusecalc
