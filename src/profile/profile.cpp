#include "profile/profile.hpp"

#include <algorithm>
#include <cassert>

namespace fusecalc {
namespace {

constexpr std::array<std::pair<LaunchKind, std::string_view>, 4> kKinds = {{
    {LaunchKind::kKernel, "kernel"},
    {LaunchKind::kCopy, "copy"},
    {LaunchKind::kFill, "fill"},
    {LaunchKind::kGraph, "graph"},
}};

}  // namespace

std::string_view name_of(LaunchKind kind) {
  return std::ranges::find(kKinds, kind, [](const auto& row) { return row.first; })->second;
}

LaunchKind launch_kind_named(std::string_view name) {
  const auto* row = std::ranges::find(kKinds, name, [](const auto& kind) { return kind.second; });
  return row == kKinds.end() ? LaunchKind::kKernel : row->first;
}

std::optional<double> ProfiledKernel::bytes_per_second() const {
  if (timed == 0 || counted == 0 || seconds <= 0) return std::nullopt;
  return static_cast<double>(timed_bytes) / seconds;
}

std::string_view bound_of(const ProfiledKernel& kernel, double peak_bytes_per_s) {
  const std::optional<double> rate = kernel.bytes_per_second();
  if (!rate || peak_bytes_per_s <= 0) return "";
  constexpr double kNearPeak = 0.6;     // copies reach 0.8 to 0.9 of the data sheet's rate
  constexpr double kLaunchOnly = 5e-6;  // little more than an empty kernel takes
  if (*rate >= kNearPeak * peak_bytes_per_s) return "memory";
  if (kernel.seconds / static_cast<double>(kernel.timed) < kLaunchOnly) return "launch";
  return "other";
}

Bytes Profile::totals() const {
  Bytes sum;
  for (const ProfiledProcess& process : processes) {
    sum.read += process.totals.read;
    sum.write += process.totals.write;
  }
  return sum;
}

std::uint64_t Profile::launches() const {
  std::uint64_t sum = 0;
  for (const ProfiledProcess& process : processes) sum += process.launches.size();
  return sum;
}

std::uint64_t Profile::counted() const {
  std::uint64_t sum = 0;
  for (const ProfiledProcess& process : processes) {
    for (const ProfiledKernel& kernel : process.kernels) sum += kernel.counted;
  }
  return sum;
}

}  // namespace fusecalc
