#include "measure/plan_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "backend/device_buffer.hpp"
#include "core/error.hpp"
#include "core/interrupt.hpp"
#include "measure/gap_notes.hpp"
#include "measure/timing.hpp"

namespace fusecalc {
namespace {

// Whether two readings are so close that a third is not needed.
bool agree(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kNoise = std::uint64_t{1} << 14U;
  const std::uint64_t apart = std::max(a, b) - std::min(a, b);
  return apart <= std::max(kNoise, a / 4000);
}

std::uint64_t median(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

Work kernel_work(GpuBackend& gpu, const PreparedKernel& kernel) {
  return [&gpu, &kernel] { enqueue(gpu, kernel.steps); };
}

Work plan_work(GpuBackend& gpu, const PreparedPlan& plan) {
  return [&gpu, &plan] {
    for (const PreparedKernel& kernel : plan.kernels) enqueue(gpu, kernel.steps);
  };
}

PlanMeasurement describe(GpuBackend& gpu, const PreparedPlan& plan) {
  PlanMeasurement result{.key = plan.key, .analytic = plan.analytic};
  for (const PreparedKernel& kernel : plan.kernels) {
    KernelMeasurement& measured = result.kernels.emplace_back();
    measured.name = kernel.name;
    measured.operations = kernel.operations;
    measured.analytic = kernel.analytic;
    measured.gaps = kernel.gaps;
    measured.schedule = kernel.schedule;
    measured.choice = kernel.choice;
    if (kernel.steps.empty()) continue;
    const Launch* const launch = std::get_if<Launch>(&kernel.steps[kernel.main]);
    if (launch == nullptr) continue;
    measured.resources = launch->kernel.resources;
    measured.occupancy = gpu.occupancy(*launch);
    measured.module = launch->kernel.module;
    measured.compile_seconds = launch->kernel.compile_seconds;
    measured.cached = launch->kernel.cached;
  }
  return result;
}

// The sum over the kernels; empty if one of them has no figure. Its sample count is the smallest of
// the kernels'.
Observed sum_of(const std::vector<KernelMeasurement>& kernels) {
  Observed sum = kernels.front().observed;
  for (const KernelMeasurement& kernel : std::span(kernels).subspan(1)) {
    const Observed& one = kernel.observed;
    if (!one.dram) sum.dram.reset();
    if (!one.time) sum.time.reset();
    if (sum.dram) {
      sum.dram->read += one.dram->read;
      sum.dram->write += one.dram->write;
    }
    if (sum.time) {
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

std::size_t launches_left_out(const PreparedPlan& plan) {
  return static_cast<std::size_t>(std::ranges::count_if(
      plan.kernels, [](const PreparedKernel& kernel) { return kernel.steps.empty(); }));
}

// Work to measure, and where the result goes.
struct Subject {
  std::string name;  // for progress messages
  Work work;
  Observed* observed;
};

// Every kernel alone, every plan back to back. A plan of one kernel is measured once.
std::vector<Subject> subjects_of(GpuBackend& gpu, std::span<const PreparedPlan> plans,
                                 std::vector<PlanMeasurement>& results,
                                 const MeasureOptions& options) {
  std::vector<Subject> subjects;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const PreparedPlan& plan = plans[p];
    const bool single = plan.kernels.size() == 1;
    for (std::size_t k = 0; k < plan.kernels.size() && (options.isolated || single); ++k) {
      if (plan.kernels[k].steps.empty()) continue;
      subjects.push_back({fmt::format("{}, kernel {} of {}", plan.key, k + 1, plan.kernels.size()),
                          kernel_work(gpu, plan.kernels[k]), &results[p].kernels[k].observed});
    }
    if (options.pipeline && !single && launches_left_out(plan) == 0) {
      subjects.push_back(
          {fmt::format("{}, back to back", plan.key), plan_work(gpu, plan), &results[p].pipeline});
    }
  }
  return subjects;
}

// The counters are chip-wide, so a reading may include other activity: if two readings agree, the
// first is used, otherwise the median of three.
void count_together(GpuBackend& gpu, std::span<const Subject> subjects, const Progress& progress) {
  const auto reading_of = [&](const Subject& subject) {
    return [&] {
      stop_if_interrupted();
      progress("counting " + subject.name);
      subject.work();
    };
  };
  std::vector<Work> twice;
  for (const Subject& subject : subjects) twice.insert(twice.end(), 2, reading_of(subject));
  const std::vector<Bytes> read = gpu.count_all(twice);
  std::vector<Work> again;
  std::vector<std::size_t> doubtful;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const Bytes& first = read[2 * i];
    const Bytes& second = read[2 * i + 1];
    if (agree(first.read, second.read) && agree(first.write, second.write)) {
      subjects[i].observed->dram = first;
    } else {
      doubtful.push_back(i);
      again.emplace_back(reading_of(subjects[i]));
    }
  }
  if (again.empty()) return;
  const std::vector<Bytes> third = gpu.count_all(again);
  for (std::size_t k = 0; k < doubtful.size(); ++k) {
    const std::size_t i = doubtful[k];
    subjects[i].observed->dram =
        Bytes{.read = median(read[2 * i].read, read[2 * i + 1].read, third[k].read),
              .write = median(read[2 * i].write, read[2 * i + 1].write, third[k].write)};
  }
}

// In batches, so that an interrupt loses little.
void count_each(GpuBackend& gpu, std::span<const Subject> subjects, const Progress& progress) {
  constexpr std::size_t kTogether = 32;
  for (; !subjects.empty(); subjects = subjects.subspan(std::min(kTogether, subjects.size()))) {
    count_together(gpu, subjects.first(std::min(kTogether, subjects.size())), progress);
  }
}

StoppingRule stopping_rule(const MeasureOptions& options, std::size_t parts) {
  StoppingRule rule{.budget_s = options.time_budget_s / static_cast<double>(parts)};
  if (options.runs) rule.min_samples = rule.max_samples = *options.runs;
  return rule;
}

void time_all(GpuBackend& gpu, std::span<const Subject> subjects, const MeasureOptions& options,
              const Progress& progress) {
  if (subjects.empty()) return;
  std::vector<Work> works;
  for (const Subject& subject : subjects) works.push_back(subject.work);
  const auto times = time_alternating(
      gpu, works, stopping_rule(options, works.size()),
      [&](std::size_t turn) { progress(fmt::format("timing, round {}", turn + 1)); });
  for (std::size_t i = 0; i < subjects.size(); ++i) subjects[i].observed->time = times[i];
}

// Why figures of a plan are missing.
std::string reason_for(const PreparedPlan& plan, const MeasureOptions& options) {
  if (const std::size_t left_out = launches_left_out(plan); left_out > 0) {
    return fmt::format("not measured: no code for {} of its {} kernels", left_out,
                       plan.kernels.size());
  }
  if (interrupted()) return "not measured: interrupted";
  return options.counters ? "" : "not counted: --timing-only";
}

// Sums up the figures of a plan and records why others are missing.
void complete(PlanMeasurement& result, const PreparedPlan& plan, const MeasureOptions& options,
              const Device& device) {
  const std::string missing = reason_for(plan, options);
  const auto say = [](Observed& observed, const std::string& reason) {
    if (!observed.dram || !observed.time) observed.reason = reason;
  };
  result.isolated = sum_of(result.kernels);
  say(result.isolated, missing);
  say(result.pipeline, missing);
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const bool launched = !plan.kernels[k].steps.empty();
    const std::string untouched = interrupted()      ? "not measured: interrupted"
                                  : options.counters ? ""
                                                     : "not counted: --timing-only";
    say(result.kernels[k].observed,
        launched ? untouched : "not measured: " + plan.kernels[k].reason);
  }
  if (result.kernels.size() == 1) result.pipeline = result.isolated;
  if (!options.isolated) {
    const Observed not_observed{.dram = {}, .time = {}, .reason = "not measured: --cache pipeline"};
    for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
      if (!plan.kernels[k].steps.empty()) result.kernels[k].observed = not_observed;
    }
    result.isolated = not_observed;
  }
  if (!options.pipeline)
    result.pipeline = {.dram = {}, .time = {}, .reason = "not measured: --cache isolated"};
  result.notes = gap_notes(result, plan.largest_intermediate, device);
}

}  // namespace

void enqueue(GpuBackend& gpu, const std::vector<PreparedStep>& steps) {
  for (const PreparedStep& step : steps) {
    if (const Launch* const launch = std::get_if<Launch>(&step)) {
      gpu.launch(*launch);
    } else {
      gpu.multiply(std::get<PreparedMatmul>(step));
    }
  }
}

std::vector<PlanMeasurement> run_plans(GpuBackend& gpu, std::span<const PreparedPlan> plans,
                                       const MeasureOptions& options, const Progress& progress) {
  std::vector<PlanMeasurement> results;
  for (const PreparedPlan& plan : plans) {
    assert(!plan.kernels.empty());
    results.push_back(describe(gpu, plan));
  }
  const std::vector<Subject> subjects = subjects_of(gpu, plans, results, options);
  try {
    if (options.counters) count_each(gpu, subjects, progress);
    time_all(gpu, subjects, options, progress);
  } catch (const Error& error) {
    // Keep what was measured until then.
    if (error.fault() != Fault::kInterrupted) throw;
  }
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
  const std::array<Work, 1> copy{[&] { gpu.copy(to.at(0), from.at(0), bytes); }};
  const std::optional<TimeSpread> time =
      time_alternating(gpu, copy, {.max_samples = 100, .budget_s = 0.1}).front();
  if (!time) return std::nullopt;
  return bytes_per_second({.read = bytes, .write = bytes}, *time);
}

}  // namespace fusecalc
