#include "compare/sums.hpp"

#include <fmt/format.h>

#include <numeric>
#include <string_view>
#include <unordered_set>

#include "core/checked.hpp"
#include "core/text.hpp"

namespace fusecalc {
namespace {

void add_to(std::optional<std::uint64_t>& total, const std::optional<std::uint64_t>& value) {
  if (!total || !value || !checked_add(*total, *value)) total.reset();
}

void add_to(std::optional<MeasuredTime>& total, const std::optional<MeasuredTime>& time) {
  const bool fits = total && time && checked_add(total->median, time->median) &&
                    checked_add(total->p10, time->p10) && checked_add(total->p90, time->p90);
  if (!fits) total.reset();
}

void add_to(TensorBytes& total, const TensorBytes& tensors) {
  for (const auto& [name, bytes] : tensors) {
    if (!checked_add(total[name], bytes)) total[name] = kMaxCount;
  }
}

}  // namespace

std::vector<std::size_t> all_of(const std::vector<KernelFigures>& kernels) {
  std::vector<std::size_t> all(kernels.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::size_t unlaunchable_ops(const std::vector<KernelFigures>& kernels,
                             const std::vector<std::size_t>& chosen) {
  std::size_t count = 0;
  for (const std::size_t k : chosen) {
    if (kernels[k].cannot_launch) count += kernels[k].ops.size();
  }
  return count;
}

KernelFigures sum_of(const std::vector<KernelFigures>& kernels,
                     const std::vector<std::size_t>& chosen) {
  KernelFigures sum;
  sum.bytes = 0;
  sum.lists_tensors = true;
  sum.measured.read = sum.measured.write = 0;
  sum.measured.time.emplace();
  for (const std::size_t k : chosen) {
    const KernelFigures& kernel = kernels[k];
    sum.name += (sum.name.empty() ? "" : ", ") + kernel.name;
    add_to(sum.bytes, kernel.bytes);
    sum.lists_tensors = sum.lists_tensors && kernel.lists_tensors;
    add_to(sum.reads, kernel.reads);
    add_to(sum.writes, kernel.writes);
    add_to(sum.measured.read, kernel.measured.read);
    add_to(sum.measured.write, kernel.measured.write);
    add_to(sum.measured.time, kernel.measured.time);
    sum.measured.uncounted += kernel.measured.uncounted;
    if (sum.measured.reason.empty()) sum.measured.reason = kernel.measured.reason;
    if (!sum.cannot_launch) sum.cannot_launch = kernel.cannot_launch;
  }
  return sum;
}

std::string why_not_fused(const std::vector<KernelFigures>& kernels,
                          const std::vector<std::size_t>& chosen) {
  std::unordered_set<std::string_view> names;
  for (const std::size_t k : chosen) names.insert(kernels[k].name);
  for (const std::size_t k : chosen) {
    for (const BoundaryReason& boundary : kernels[k].boundaries) {
      if (names.contains(boundary.with)) {
        return fmt::format("not fused at {}: {}", printable(boundary.tensor),
                           printable(boundary.reason));
      }
    }
  }
  return "";
}

bool adds_up(const PlanFigures& plan) {
  std::optional<std::uint64_t> sum = 0;
  for (const KernelFigures& kernel : plan.kernels) add_to(sum, kernel.bytes);
  return !plan.bytes || (sum && *sum >= *plan.bytes);
}

}  // namespace fusecalc
