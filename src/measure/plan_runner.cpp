#include "measure/plan_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "core/interrupt.hpp"
#include "measure/device_buffer.hpp"
#include "measure/explain.hpp"
#include "measure/timing.hpp"

namespace fusecalc {
namespace {

// The counters are the whole chip's: the median of a few readings is what the work alone moves.
Bytes count_steadily(GpuBackend& gpu, const Work& work) {
  constexpr std::size_t kReadings = 3;
  std::array<std::uint64_t, kReadings> read{};
  std::array<std::uint64_t, kReadings> write{};
  for (std::size_t i = 0; i < kReadings; ++i) {
    stop_if_interrupted();
    const Bytes counted = gpu.count(work);
    read[i] = counted.read;
    write[i] = counted.write;
  }
  std::ranges::sort(read);
  std::ranges::sort(write);
  return {.read = read[kReadings / 2], .write = write[kReadings / 2]};
}

Work kernel_work(GpuBackend& gpu, const PreparedKernel& kernel) {
  return [&gpu, &kernel] { gpu.launch(kernel.launch); };
}

Work plan_work(GpuBackend& gpu, const PreparedPlan& plan) {
  return [&gpu, &plan] {
    for (const PreparedKernel& kernel : plan.kernels) gpu.launch(kernel.launch);
  };
}

PlanMeasurement describe(GpuBackend& gpu, const PreparedPlan& plan) {
  PlanMeasurement result{.key = plan.key, .analytic = plan.analytic};
  for (const PreparedKernel& kernel : plan.kernels) {
    KernelMeasurement& measured = result.kernels.emplace_back();
    measured.name = kernel.name;
    measured.operations = kernel.operations;
    measured.analytic = kernel.analytic;
    measured.resources = kernel.launch.kernel.resources;
    measured.occupancy = gpu.occupancy(kernel.launch);
    measured.compile_seconds = kernel.launch.kernel.compile_seconds;
    measured.cached = kernel.launch.kernel.cached;
  }
  return result;
}

// The kernels' figures added up. A sum has no samples of its own: it stands on the fewest.
Observed sum_of(const std::vector<KernelMeasurement>& kernels) {
  Observed sum = kernels.front().observed;
  for (const KernelMeasurement& kernel : std::span(kernels).subspan(1)) {
    const Observed& one = kernel.observed;
    if (sum.dram && one.dram) {
      sum.dram->read += one.dram->read;
      sum.dram->write += one.dram->write;
    }
    if (sum.time && one.time) {
      sum.time->median += one.time->median;
      sum.time->min += one.time->min;
      sum.time->p10 += one.time->p10;
      sum.time->p90 += one.time->p90;
      sum.time->samples = std::min(sum.time->samples, one.time->samples);
      sum.time->throttled = std::max(sum.time->throttled, one.time->throttled);
    }
  }
  return sum;
}

// One pass over all that is to be observed: every kernel alone, every plan back to back. A plan of
// one kernel is observed once. `observe` fills its part in.
void visit(GpuBackend& gpu, std::span<const PreparedPlan> plans,
           std::vector<PlanMeasurement>& results, const MeasureOptions& options,
           const Progress& progress, std::string_view doing,
           const std::function<void(Observed&, const Work&)>& observe) {
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const PreparedPlan& plan = plans[p];
    PlanMeasurement& result = results[p];
    const bool single = plan.kernels.size() == 1;
    for (std::size_t k = 0; k < plan.kernels.size() && (options.isolated || single); ++k) {
      progress(fmt::format("{} {}, kernel {} of {}", doing, plan.key, k + 1, plan.kernels.size()));
      observe(result.kernels[k].observed, kernel_work(gpu, plan.kernels[k]));
    }
    if (options.pipeline && !single) {
      progress(fmt::format("{} {}, back to back", doing, plan.key));
      observe(result.pipeline, plan_work(gpu, plan));
    }
  }
}

std::size_t count_of_visits(std::span<const PreparedPlan> plans, const MeasureOptions& options) {
  std::size_t visits = 0;
  for (const PreparedPlan& plan : plans) {
    const bool single = plan.kernels.size() == 1;
    if (options.isolated || single) visits += plan.kernels.size();
    if (options.pipeline && !single) ++visits;
  }
  return visits;
}

StoppingRule stopping_rule(const MeasureOptions& options, std::size_t parts) {
  StoppingRule rule{.budget_s = options.time_budget_s / static_cast<double>(parts)};
  if (options.runs) rule.min_samples = rule.max_samples = *options.runs;
  return rule;
}

// Adds up what was observed and says why the rest was not.
void complete(PlanMeasurement& result, const PreparedPlan& plan, const MeasureOptions& options,
              const DeviceInfo& device) {
  const std::string no_counters = options.counters ? "" : "not counted: --timing-only";
  for (KernelMeasurement& kernel : result.kernels) kernel.observed.reason = no_counters;
  result.pipeline.reason = no_counters;
  result.isolated = sum_of(result.kernels);
  if (result.kernels.size() == 1) result.pipeline = result.isolated;
  if (!options.isolated) {
    const Observed not_observed{.dram = {}, .time = {}, .reason = "not measured: --cache pipeline"};
    for (KernelMeasurement& kernel : result.kernels) kernel.observed = not_observed;
    result.isolated = not_observed;
  }
  if (!options.pipeline)
    result.pipeline = {.dram = {}, .time = {}, .reason = "not measured: --cache isolated"};
  result.notes = explain_gaps(result, plan.largest_intermediate, device);
}

}  // namespace

std::vector<PlanMeasurement> run_plans(GpuBackend& gpu, std::span<const PreparedPlan> plans,
                                       const MeasureOptions& options, const Progress& progress) {
  std::vector<PlanMeasurement> results;
  for (const PreparedPlan& plan : plans) {
    assert(!plan.kernels.empty());
    results.push_back(describe(gpu, plan));
  }
  if (options.counters) {
    visit(gpu, plans, results, options, progress, "counting",
          [&](Observed& observed, const Work& work) { observed.dram = count_steadily(gpu, work); });
  }
  const StoppingRule rule = stopping_rule(options, count_of_visits(plans, options));
  visit(gpu, plans, results, options, progress, "timing",
        [&](Observed& observed, const Work& work) { observed.time = time_work(gpu, work, rule); });
  for (std::size_t p = 0; p < plans.size(); ++p) {
    complete(results[p], plans[p], options, gpu.device());
  }
  return results;
}

std::optional<double> copy_ceiling(GpuBackend& gpu) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 26U;
  const std::uint64_t bytes = std::min(kMost, gpu.free_bytes() / 4) / kLeast * kLeast;
  if (bytes < std::max(kLeast, 2 * gpu.device().l2_bytes)) return std::nullopt;
  const DeviceBuffer from(gpu, bytes);
  const DeviceBuffer to(gpu, bytes);
  gpu.fill(from, {.dtype = {}, .seed = bytes});
  const TimeSpread time = time_work(gpu, [&] { gpu.copy(to.at(0), from.at(0), bytes); },
                                    {.max_samples = 100, .budget_s = 0.1});
  return bytes_per_second({.read = bytes, .write = bytes}, time);
}

}  // namespace fusecalc
