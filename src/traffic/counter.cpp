#include "traffic/counter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/ceil_div.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "plan/tiling.hpp"

namespace fusecalc {

TrafficCounter::TrafficCounter(const OpGraph& graph, const Device& device)
    : device_(device), phases_(graph) {}

bool TrafficCounter::rows_fit(const Phases& phases) const {
  if (phases.contracts) return true;
  // A block keeps the sums of columns of all its rows to itself.
  const unsigned blocks = phases.crossed ? 1 : row_cluster(phases.rows, device_.capability);
  return !phases.never_fits && ceil_div(phases.held_bytes, blocks) <= device_.on_chip_bytes;
}

void TrafficCounter::add(std::uint64_t& total, std::uint64_t bytes, const Kernel& kernel) const {
  std::uint64_t sum = traffic_.bytes.total();
  if (!checked_add(sum, bytes)) {
    throw Error(Fault::kBadInput,
                fmt::format("{}: /ops/{}: the kernel of {} moves more than {} bytes",
                            graph().document, graph().ops[kernel.front()].position,
                            in_quotes(graph().ops[kernel.front()].name), kMaxCount));
  }
  total += bytes;
}

const KernelTraffic& TrafficCounter::count(const Kernel& kernel) {
  bytes(kernel);
  traffic_.flops = 0;
  for (const OpId id : kernel) {
    if (!checked_add(traffic_.flops, graph().ops[id].flops)) traffic_.flops = kMaxCount;
  }
  return traffic_;
}

Bytes TrafficCounter::bytes(const Kernel& kernel) {
  traffic_.bytes = {};
  traffic_.reads.clear();
  traffic_.writes.clear();
  count_reads(kernel);
  count_writes(kernel);
  return traffic_.bytes;
}

void TrafficCounter::count_reads(const Kernel& kernel) {
  const Phases& phases = phases_.resolve(kernel).phases();
  const bool once = rows_fit(phases);
  for (const Phases::Use& use : phases.reads) {
    const std::uint32_t passes = once ? 1 : use.passes;
    std::uint64_t bytes = bytes_of(use.dtype, use.elements);
    if (!checked_multiply(bytes, passes)) bytes = kMaxCount;
    add(traffic_.bytes.read, bytes, kernel);
    traffic_.reads.push_back({.tensor = use.value, .bytes = bytes, .passes = passes});
  }
}

void TrafficCounter::count_writes(const Kernel& kernel) {
  const OpGraph& graph = this->graph();
  const ResolvedKernel resolved = phases_.resolve(kernel);
  const Phases& phases = resolved.phases();
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (phases.written[i] == 0) continue;
    for (const Outline::Result& result : graph.outline.results_of(kernel[i])) {
      if (!resolved.needed_outside(i, result)) continue;
      const std::uint64_t bytes = bytes_of(result.dtype, result.writes);
      // Several versions of the same memory: the last one is kept, the largest write counts.
      KernelTraffic::Entry* earlier = nullptr;
      if (result.storage != result.tensor) {
        for (KernelTraffic::Entry& entry : traffic_.writes) {
          if (graph.tensors[entry.tensor].storage == result.storage) earlier = &entry;
        }
      }
      if (earlier == nullptr) {
        add(traffic_.bytes.write, bytes, kernel);
        traffic_.writes.push_back({.tensor = result.tensor, .bytes = bytes});
      } else {
        const std::uint64_t more = bytes > earlier->bytes ? bytes - earlier->bytes : 0;
        add(traffic_.bytes.write, more, kernel);
        earlier->tensor = result.tensor;
        earlier->bytes += more;
      }
    }
  }
}

KernelTraffic count_limit(const OpGraph& graph, const Device& device) {
  Kernel all(graph.ops.size());
  std::iota(all.begin(), all.end(), OpId{0});
  // Everything stays on chip, so nothing is read twice.
  const Device boundless{.name = device.name, .on_chip_bytes = kMaxCount};
  if (all.empty()) return {};
  TrafficCounter counter(graph, boundless);
  KernelTraffic traffic = counter.count(all);
  for (KernelTraffic::Entry& entry : traffic.reads) {
    entry.bytes /= entry.passes;
    traffic.bytes.read -= entry.bytes * (entry.passes - 1);
    entry.passes = 1;
  }
  return traffic;
}

}  // namespace fusecalc
