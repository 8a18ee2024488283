#include "analysis/limit_shares.hpp"

#include <algorithm>
#include <unordered_map>

namespace fusecalc {
namespace {

using Entries = std::vector<KernelTraffic::Entry>;
using Left = std::unordered_map<TensorId, std::uint64_t>;

Left bytes_of(const Entries& entries) {
  Left left;
  for (const KernelTraffic::Entry& entry : entries) left[entry.tensor] += entry.bytes;
  return left;
}

// Takes what the entries move from what is left of it.
std::uint64_t take(const Entries& entries, Left& left) {
  std::uint64_t taken = 0;
  for (const KernelTraffic::Entry& entry : entries) {
    const auto found = left.find(entry.tensor);
    if (found == left.end()) continue;
    const std::uint64_t part = std::min(entry.bytes, found->second);
    found->second -= part;
    taken += part;
  }
  return taken;
}

}  // namespace

std::vector<std::uint64_t> limit_shares(const GraphAnalysis& analysis, const PlanAnalysis& plan) {
  const PlanAnalysis& limit = analysis.plan(PlanKind::kLimit);
  std::vector<std::uint64_t> shares;
  if (limit.kernels.empty()) return shares;
  Left reads = bytes_of(limit.kernels.front().traffic.reads);
  Left writes = bytes_of(limit.kernels.front().traffic.writes);
  for (const KernelAnalysis& kernel : plan.kernels) {
    const std::uint64_t read = take(kernel.traffic.reads, reads);
    shares.push_back(read + take(kernel.traffic.writes, writes));
  }
  return shares;
}

}  // namespace fusecalc
