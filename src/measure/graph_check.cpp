#include "measure/graph_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <utility>
#include <vector>

#include "core/interrupt.hpp"
#include "measure/verify.hpp"

namespace fusecalc {
namespace {

bool launches(const PreparedKernel& kernel) { return !kernel.steps.empty(); }

bool whole(const PreparedPlan& plan) { return std::ranges::all_of(plan.kernels, launches); }

class PlanCheck {
 public:
  PlanCheck(GpuBackend& gpu, const OpGraph& graph, GraphMemory& memory, const Progress& progress)
      : gpu_(gpu), graph_(graph), memory_(memory), progress_(progress) {}

  // Checks two plans all of whose kernels have code.
  std::pair<Verification, Verification> check(const RunnablePlan& unfused,
                                              const RunnablePlan& fused);
  // Checks each kernel that has code, with its own input data.
  Verification check_kernels(const RunnablePlan& runnable);

 private:
  BufferAt at(TensorId id) const { return memory_.at(id); }
  // Each kernel once, none of which waits for another. A profiler may count those of one run.
  enum class Counted { kNo, kYes };
  void run(const PreparedPlan& plan, Counted counted = Counted::kNo) const;
  void compute_references(const RunnablePlan& runnable);

  GpuBackend& gpu_;
  const OpGraph& graph_;
  GraphMemory& memory_;
  const Progress& progress_;
  // By graph and ops; the reference is computed once for both plans.
  std::map<std::pair<const OpGraph*, Kernel>, PartVerifier> parts_;
};

void PlanCheck::run(const PreparedPlan& plan, Counted counted) const {
  stop_if_interrupted();
  progress_(fmt::format("checking {}", plan.key));
  memory_.fill_inputs();
  if (counted == Counted::kYes) gpu_.profile(true);
  for (const PreparedKernel& kernel : plan.kernels) enqueue(gpu_, kernel.steps);
  gpu_.finish();
  if (counted == Counted::kYes) gpu_.profile(false);
}

std::pair<Verification, Verification> PlanCheck::check(const RunnablePlan& unfused,
                                                       const RunnablePlan& fused) {
  const auto in_place = [&](TensorId id) { return at(id); };
  progress_("computing the reference");
  const std::vector<TensorId> outputs = results_of(graph_);
  const Verifier verifier(graph_, memory_.inputs(), outputs, memory_.seed());
  run(fused.plan, Counted::kYes);
  Verification of_fused = verifier.check(gpu_, in_place);
  std::map<TensorId, DeviceBuffer> kept;
  for (const TensorId id : outputs) {
    const DeviceBuffer& copy = kept.try_emplace(id, gpu_, graph_.tensors[id].bytes).first->second;
    gpu_.copy(copy.at(0), at(id), graph_.tensors[id].bytes);
  }
  run(unfused.plan);
  Verification of_unfused = verifier.check(gpu_, in_place);
  const bool complete = of_unfused.complete;
  if (!complete) {
    // The whole graph is too much work for the reference; its kernels are not.
    of_unfused.unchecked.clear();
    of_fused.unchecked.clear();
  }
  of_fused = worse_of(std::move(of_fused),
                      verifier.compare(
                          gpu_, [&](TensorId id) { return kept.at(id).at(0); }, in_place));
  if (!complete) {
    of_unfused = worse_of(std::move(of_unfused), check_kernels(unfused));
    of_fused = worse_of(std::move(of_fused), check_kernels(fused));
    run(unfused.plan);
  }
  return {std::move(of_unfused), std::move(of_fused)};
}

// Computes the reference of each kernel. They are independent of each other and of the GPU.
void PlanCheck::compute_references(const RunnablePlan& runnable) {
  constexpr std::size_t kTogether = 8;  // some 100 MB each, at most
  std::vector<const Kernel*> open;
  for (std::size_t k = 0; k < runnable.kernels.size(); ++k) {
    if (launches(runnable.plan.kernels[k]) &&
        !parts_.contains({&runnable.graph, runnable.kernels[k]})) {
      open.push_back(&runnable.kernels[k]);
    }
  }
  for (std::size_t begin = 0; begin < open.size(); begin += kTogether) {
    stop_if_interrupted();
    progress_(fmt::format("computing the reference, {} of {} kernels", begin, open.size()));
    const std::size_t end = std::min(begin + kTogether, open.size());
    std::vector<std::future<PartVerifier>> parts;
    for (std::size_t i = begin; i < end; ++i) {
      parts.push_back(std::async(std::launch::async, [this, &runnable, &ops = *open[i]] {
        return PartVerifier(runnable.graph, part_of(runnable.graph, ops), memory_.seed());
      }));
    }
    for (std::size_t i = begin; i < end; ++i) {
      parts_.emplace(std::pair(&runnable.graph, *open[i]), parts[i - begin].get());
    }
  }
}

Verification PlanCheck::check_kernels(const RunnablePlan& runnable) {
  compute_references(runnable);
  const PreparedPlan& plan = runnable.plan;
  Verification all;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    if (!launches(plan.kernels[k])) continue;
    stop_if_interrupted();
    progress_(fmt::format("checking {}, kernel {} of {}", plan.key, k + 1, plan.kernels.size()));
    const PartVerifier& part = parts_.at({&runnable.graph, runnable.kernels[k]});
    all = worse_of(std::move(all), part.check(
                                       gpu_, [&](TensorId id) { return at(id); },
                                       [&](const GraphInput& input) { memory_.place(input); },
                                       [&] { enqueue(gpu_, plan.kernels[k].steps); }));
  }
  return all;
}

void record(const PreparedPlan& plan, const Verification& found, PlanMeasurement& result) {
  if (found.checked == 0) {
    const bool runs = std::ranges::any_of(plan.kernels, launches);
    result.verified_reason = !runs                     ? "no code for any of its kernels"
                             : found.unchecked.empty() ? "it has no results"
                                                       : found.unchecked.front();
    return;
  }
  result.verified = Verified{.max_rel_err = found.max_rel_err,
                             .tolerance = found.tolerance,
                             .ok = found.ok,
                             .worst = found.worst,
                             .unchecked = found.unchecked};
}

}  // namespace

std::vector<TensorId> results_of(const OpGraph& graph) {
  std::vector<TensorId> found;
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    const Tensor& tensor = graph.tensors[id];
    if (tensor.output && tensor.value == id && tensor.producer != kNone) found.push_back(id);
  }
  return found;
}

void check_plans(GpuBackend& gpu, const OpGraph& graph, GraphMemory& memory,
                 const RunnablePlan& unfused, const RunnablePlan& fused,
                 std::span<PlanMeasurement> results, const Progress& progress) {
  PlanCheck check(gpu, graph, memory, progress);
  if (whole(unfused.plan) && whole(fused.plan)) {
    const auto [of_unfused, of_fused] = check.check(unfused, fused);
    record(unfused.plan, of_unfused, results[0]);
    record(fused.plan, of_fused, results[1]);
    return;
  }
  record(unfused.plan, check.check_kernels(unfused), results[0]);
  record(fused.plan, check.check_kernels(fused), results[1]);
  memory.fill_all();
}

}  // namespace fusecalc
