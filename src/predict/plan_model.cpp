#include "predict/plan_model.hpp"

#include <algorithm>

namespace fusecalc {
namespace {

void widen(Interval& sum, const Interval& part) {
  sum.low += part.low;
  sum.high += part.high;
}

}  // namespace

PlanModel::PlanModel(const OpGraph& graph, const Device& device, std::size_t kernels)
    : graph_(graph), device_(device), l2_(streaming_l2(device.l2_bytes)) {
  constexpr std::size_t kFew = 16;
  if (kernels * kFew >= graph.ops.size()) touches_.resize(graph.tensors.size());
}

PlanModel::Touch& PlanModel::touch_of(TensorId tensor) {
  return touches_.empty() ? few_touches_[tensor] : touches_[tensor];
}

std::pair<double, PlanModel::Touch> PlanModel::last_touch(TensorId tensor) {
  const TensorId storage = graph_.storage_of(tensor);
  const TensorId window = graph_.tensors[tensor].window;
  const TensorId known = touch_of(window).moved_after < 0 ? storage : window;
  const Touch& touch = touch_of(known);
  const std::uint64_t bytes = std::min(graph_.tensors[known].bytes, graph_.tensors[storage].bytes);
  return {bytes > 0 ? std::min(1.0, touch.covered / static_cast<double>(bytes)) : 1, touch};
}

void PlanModel::touch(const KernelTraffic::Entry& entry, double kernel_bytes) {
  const TensorId storage = graph_.storage_of(entry.tensor);
  const TensorId window = graph_.tensors[entry.tensor].window;
  const double bytes = static_cast<double>(entry.bytes) / std::max(1U, entry.passes);
  const auto add = [&](TensorId id) {
    Touch& last = touch_of(id);
    last = {moved_, kernel_bytes, last.covered + bytes};
  };
  add(storage);
  if (window != storage) add(window);
}

KernelWork PlanModel::after_others(const KernelTraffic& traffic, const KernelWork& alone) {
  KernelWork work = alone;
  const auto bytes = static_cast<double>(traffic.bytes.total());
  double served = 0;
  for (const KernelTraffic::Entry& entry : traffic.reads) {
    const auto [share, last] = last_touch(entry.tensor);
    if (last.moved_after < 0) continue;
    // From an element's last touch to this one: the rest of that kernel, those in between, and
    // the part of this one before it.
    const double between = moved_ - last.moved_after;
    const double miss = l2_.mean_miss(last.kernel_bytes + between, between + bytes);
    const double once = static_cast<double>(entry.bytes) / std::max(1U, entry.passes);
    served += once * share * (1 - miss);
  }
  served = std::min(served, work.dram_read);
  work.dram_read -= served;
  work.l2_bytes += served;
  moved_ += bytes;
  for (const auto* entries : {&traffic.reads, &traffic.writes}) {
    for (const KernelTraffic::Entry& entry : *entries) touch(entry, bytes);
  }
  return work;
}

void PlanModel::add(const KernelTraffic& traffic, const KernelWork& alone) {
  const Prediction kernel = predict(after_others(traffic, alone), device_, kernels_ > 0);
  ++kernels_;
  plan_.dram_read += kernel.dram_read;
  plan_.dram_write += kernel.dram_write;
  plan_.time_us += kernel.time_us;
  bound_us_[static_cast<std::size_t>(kernel.bound)] += kernel.time_us;
  widen(plan_.read_range, kernel.read_range);
  widen(plan_.write_range, kernel.write_range);
  widen(plan_.time_range, kernel.time_range);
}

Prediction PlanModel::prediction() const {
  // Errors of several kernels cancel in part.
  constexpr double kTogether = 0.7;
  const bool several = kernels_ > 1;
  const double share = several ? kTogether : 1;
  // The L2 between kernels is in doubt by a few percent of what it may serve.
  const double l2_doubt = several ? 0.04 * plan_.dram_read + 65536 : 0;
  const auto around = [](double value, const Interval& sum, double factor, double least) {
    return Interval{std::max(0.0, value - factor * (value - sum.low) - least),
                    value + factor * (sum.high - value) + least};
  };
  // Back to back, the GPU is warmer than for a kernel alone, and its neighbours' ends show.
  constexpr double kBackToBack = 1.15;
  Prediction plan = plan_;
  plan.read_range = around(plan.dram_read, plan_.read_range, share, l2_doubt);
  plan.write_range = around(plan.dram_write, plan_.write_range, share, 0);
  plan.time_range = around(plan.time_us, plan_.time_range, share * kBackToBack, 0);
  plan.bound = static_cast<Bound>(std::ranges::max_element(bound_us_) - bound_us_.begin());
  return plan;
}

}  // namespace fusecalc
