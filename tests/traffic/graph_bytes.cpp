#include "traffic/graph_bytes.hpp"

#include <algorithm>
#include <numeric>

#include "graph/graph_text.hpp"
#include "traffic/counter.hpp"

namespace fusecalc::testing {
namespace {

Kernel kernel_of(const OpGraph& graph, const std::vector<std::string>& ops) {
  Kernel kernel;
  for (const std::string& name : ops) kernel.push_back(op_called(graph, name));
  if (ops.empty()) {
    kernel.resize(graph.ops.size());
    std::iota(kernel.begin(), kernel.end(), OpId{0});
  }
  std::ranges::sort(kernel);
  return kernel;
}

std::uint64_t bytes_in(const OpGraph& graph, const std::vector<KernelTraffic::Entry>& entries,
                       std::string_view tensor) {
  for (const KernelTraffic::Entry& entry : entries) {
    if (graph.tensors[entry.tensor].name == tensor) return entry.bytes;
  }
  return 0;
}

}  // namespace

Bytes kernel_bytes(const OpGraph& graph, const std::vector<std::string>& ops) {
  TrafficCounter counter(graph, known_devices().front());
  return counter.bytes(kernel_of(graph, ops));
}

Bytes unfused_bytes(const OpGraph& graph) {
  TrafficCounter counter(graph, known_devices().front());
  Bytes total;
  for (const Kernel& kernel : unfused_plan(graph).kernels) {
    const Bytes bytes = counter.bytes(kernel);
    total.read += bytes.read;
    total.write += bytes.write;
  }
  return total;
}

Bytes limit_bytes(const OpGraph& graph) {
  return count_limit(graph, known_devices().front()).bytes;
}

std::uint64_t bytes_read(const OpGraph& graph, const std::vector<std::string>& ops,
                         std::string_view tensor) {
  TrafficCounter counter(graph, known_devices().front());
  return bytes_in(graph, counter.count(kernel_of(graph, ops)).reads, tensor);
}

std::uint64_t bytes_written(const OpGraph& graph, const std::vector<std::string>& ops,
                            std::string_view tensor) {
  TrafficCounter counter(graph, known_devices().front());
  return bytes_in(graph, counter.count(kernel_of(graph, ops)).writes, tensor);
}

}  // namespace fusecalc::testing
