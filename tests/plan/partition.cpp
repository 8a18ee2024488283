#include "plan/partition.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace fusecalc::testing {

std::vector<std::pair<OpId, OpId>> orders_of(const OpGraph& graph) {
  std::vector<std::pair<OpId, OpId>> orders;
  // Every op that reads each value, and the one that makes it.
  std::map<TensorId, std::vector<OpId>> readers;
  std::map<TensorId, OpId> maker;
  for (OpId id = 0; id < graph.ops.size(); ++id) {
    for (const TensorId output : graph.ops[id].outputs) maker[output] = id;
    for (const Operand& operand : graph.ops[id].operands) {
      if (operand.tensor != kNone) readers[graph.tensors[operand.tensor].value].push_back(id);
    }
  }
  for (const auto& [value, ops] : readers) {
    const auto found = maker.find(value);
    if (found == maker.end()) continue;
    for (const OpId op : ops) orders.emplace_back(found->second, op);
  }
  for (OpId id = 0; id < graph.ops.size(); ++id) {
    for (const TensorId output : graph.ops[id].outputs) {
      const TensorId storage = graph.tensors[output].storage;
      if (storage == output) continue;
      for (const Operand& operand : graph.ops[id].operands) {
        if (operand.tensor == kNone) continue;
        const TensorId value = graph.tensors[operand.tensor].value;
        if (graph.tensors[value].storage != storage) continue;
        for (const OpId reader : readers[value]) {
          if (reader != id) orders.emplace_back(reader, id);
        }
      }
    }
  }
  return orders;
}

bool is_partition(const OpGraph& graph, const std::vector<Kernel>& kernels) {
  std::vector<int> times(graph.ops.size(), 0);
  for (const Kernel& kernel : kernels) {
    if (kernel.empty() || !std::ranges::is_sorted(kernel)) return false;
    for (const OpId op : kernel) ++times.at(op);
  }
  return std::ranges::all_of(times, [](int n) { return n == 1; });
}

bool can_run(const std::vector<std::pair<OpId, OpId>>& orders, const std::vector<Kernel>& kernels) {
  std::map<OpId, std::size_t> owner;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    for (const OpId op : kernels[k]) owner[op] = k;
  }
  std::vector<std::set<std::size_t>> later(kernels.size());
  std::vector<std::size_t> waits(kernels.size(), 0);
  for (const auto& [first, second] : orders) {
    const std::size_t a = owner.at(first);
    const std::size_t b = owner.at(second);
    if (a != b && later[a].insert(b).second) ++waits[b];
  }
  std::vector<std::size_t> ready;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (waits[k] == 0) ready.push_back(k);
  }
  std::size_t done = 0;
  while (!ready.empty()) {
    const std::size_t k = ready.back();
    ready.pop_back();
    ++done;
    for (const std::size_t next : later[k]) {
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
  return done == kernels.size();
}

}  // namespace fusecalc::testing
