#include "predict/plan_model.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "predict/l2_model.hpp"

namespace fusecalc {
namespace {

// When a tensor was last read or written.
struct Touch {
  double moved_after = -1;  // bytes that all kernels up to that one moved; negative: never
  double kernel_bytes = 0;  // that one alone
};

// The last touch of each storage. A plan may have few kernels of a large graph: then nothing here
// takes more time the larger the graph is.
class LastTouches {
 public:
  LastTouches(const OpGraph& graph, std::size_t kernels) {
    constexpr std::size_t kFew = 16;
    if (kernels * kFew >= graph.ops.size()) all_.resize(graph.tensors.size());
  }

  Touch& operator[](TensorId storage) { return all_.empty() ? few_[storage] : all_[storage]; }

 private:
  std::vector<Touch> all_;
  std::unordered_map<TensorId, Touch> few_;
};

class Pipeline {
 public:
  Pipeline(const OpGraph& graph, const Device& device, std::size_t kernels)
      : graph_(graph), l2_(streaming_l2(device.l2_bytes)), last_(graph, kernels) {}

  // The kernel's work after those before it.
  KernelWork next(const PlannedWork& kernel) {
    KernelWork work = kernel.alone;
    const auto bytes = static_cast<double>(kernel.traffic->bytes.total());
    double served = 0;
    for (const KernelTraffic::Entry& entry : kernel.traffic->reads) {
      const Touch& last = last_[graph_.storage_of(entry.tensor)];
      if (last.moved_after < 0) continue;
      // From an element's last touch to this one: the rest of that kernel, those in between, and
      // the part of this one before it.
      const double between = moved_ - last.moved_after;
      const double miss = l2_.mean_miss(last.kernel_bytes + between, between + bytes);
      const double once = static_cast<double>(entry.bytes) / std::max(1U, entry.passes);
      served += once * (1 - miss);
    }
    served = std::min(served, work.dram_read);
    work.dram_read -= served;
    work.l2_bytes += served;
    moved_ += bytes;
    for (const auto* entries : {&kernel.traffic->reads, &kernel.traffic->writes}) {
      for (const KernelTraffic::Entry& entry : *entries) {
        last_[graph_.storage_of(entry.tensor)] = {moved_, bytes};
      }
    }
    return work;
  }

 private:
  const OpGraph& graph_;
  L2Model l2_;
  double moved_ = 0;
  LastTouches last_;
};

}  // namespace

Prediction predict_plan(const OpGraph& graph, const Device& device,
                        const std::vector<PlannedWork>& kernels) {
  Prediction plan;
  Pipeline pipeline(graph, device, kernels.size());
  std::array<double, 5> bound_us{};
  // Errors of several kernels cancel in part.
  constexpr double kTogether = 0.7;
  Interval read;
  Interval write;
  Interval time;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Prediction kernel = predict(pipeline.next(kernels[i]), device, i > 0);
    plan.dram_read += kernel.dram_read;
    plan.dram_write += kernel.dram_write;
    plan.time_us += kernel.time_us;
    bound_us[static_cast<std::size_t>(kernel.bound)] += kernel.time_us;
    const auto widen = [](Interval& sum, const Interval& part) {
      sum.low += part.low;
      sum.high += part.high;
    };
    widen(read, kernel.read_range);
    widen(write, kernel.write_range);
    widen(time, kernel.time_range);
  }
  const double share = kernels.size() > 1 ? kTogether : 1;
  // The L2 between kernels is in doubt by a few percent of what it may serve.
  const double l2_doubt = kernels.size() > 1 ? 0.04 * plan.dram_read + 65536 : 0;
  const auto around = [](double value, const Interval& sum, double factor, double least) {
    return Interval{std::max(0.0, value - factor * (value - sum.low) - least),
                    value + factor * (sum.high - value) + least};
  };
  // Back to back, the GPU is warmer than for a kernel alone, and its neighbours' ends show.
  constexpr double kBackToBack = 1.15;
  plan.read_range = around(plan.dram_read, read, share, l2_doubt);
  plan.write_range = around(plan.dram_write, write, share, 0);
  plan.time_range = around(plan.time_us, time, share * kBackToBack, 0);
  plan.bound = static_cast<Bound>(std::ranges::max_element(bound_us) - bound_us.begin());
  return plan;
}

}  // namespace fusecalc
