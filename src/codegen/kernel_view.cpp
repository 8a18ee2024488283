#include "codegen/kernel_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "plan/overwrites.hpp"

namespace fusecalc {

void cannot_generate(const Op& op, std::string_view why) {
  throw NoCode{fmt::format("{} ({}): {}", in_quotes(op.name), op.row->name, why)};
}

KernelView::KernelView(const OpGraph& graph, PhaseFinder& finder, const Kernel& kernel)
    : graph_(graph), kernel_(kernel), phases_(finder.resolve(kernel).phases()) {
  const ResolvedKernel resolved = finder.resolve(kernel);
  for (std::size_t i = 0; i < kernel_.size(); ++i) {
    for (const Outline::Result& result : graph.outline.results_of(kernel_[i])) {
      if (!resolved.needed_outside(i, result)) continue;
      stored_in_.emplace(result.tensor, fusecalc::stored_in(resolved, kernel_, i, result));
    }
  }
  const RowOrder order = row_order(resolved, kernel_);
  for (std::size_t i = 0; i < order.of.size(); ++i) {
    if (order.of[i].identity()) continue;
    StridedMap elements;
    for (const StridedMap::Axis& axis : order.of[i].axes) {
      elements.append(axis.extent, axis.stride * phases_.rows.row_length());
    }
    elements.append(phases_.rows.row_length(), 1);
    orders_.emplace(kernel_[i], std::move(elements));
  }
}

const StridedMap* KernelView::order_of(OpId id) const {
  const auto found = orders_.find(id);
  return found == orders_.end() ? nullptr : &found->second;
}

std::size_t KernelView::place_of(OpId id) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(kernel_, id) - kernel_.begin());
}

bool KernelView::contains(OpId id) const { return std::ranges::binary_search(kernel_, id); }

bool KernelView::makes(TensorId id) const {
  const OpId producer = tensor(tensor(id).value).producer;
  return producer != kNone && contains(producer);
}

bool KernelView::of_rows(OpId id) const {
  const Op& op = this->op(id);
  if (phases_.rows.empty() || ready_in(id) == 0) return false;
  if (phases_.crossed && phases_.columns[place_of(id)] != 0) return false;
  if (op.op_class == OpClass::kReduce || op.row->family == OpFamily::kLoss) return true;
  if (op.op_class == OpClass::kNormalise) return false;
  return op.work <= phases_.rows.rows() &&
         (phases_.rows.row_length() > 1 || op.work < phases_.rows.rows());
}

bool KernelView::is_row_result(TensorId tensor) const {
  const OpId producer = this->tensor(tensor).producer;
  if (of_rows(producer)) return true;
  // The mean and the variance that a normalisation hands out.
  const Op& op = this->op(producer);
  return op.op_class == OpClass::kNormalise && !op.rows.empty() && tensor != op.outputs[0];
}

bool KernelView::takes_rows(OpId id) const {
  const Op& op = this->op(id);
  return !op.rows.empty() && op.rows == phases_.rows &&
         !(op.row->access == Access::kGather && runs_in(id) > 0);
}

bool KernelView::ends_in_loss(OpId id) const {
  const Op& op = this->op(id);
  return op.collapses && (op.row->accumulator != Accumulator::kNone || !takes_rows(id));
}

}  // namespace fusecalc
