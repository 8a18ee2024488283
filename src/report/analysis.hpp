#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.hpp"
#include "graph/size_chain.hpp"
#include "planner/plans.hpp"
#include "traffic/savings.hpp"

namespace fusecalc {

inline constexpr std::string_view kAnalysisSchema = "fusecalc.analysis/1";

struct KernelReport {
  std::string name;
  Kernel ops;
  KernelTraffic traffic;
  Verdict launch;  // why our runner could not launch it
  std::optional<Split> split;
};

struct PlanReport {
  PlanKind kind = PlanKind::kUnfused;
  Bytes bytes{};
  std::uint64_t flops = 0;
  std::vector<KernelReport> kernels{};
};

struct GraphAnalysis {
  OpGraph graph;
  Device device;
  std::vector<PlanReport> plans;  // in the order of PlanKind

  const PlanReport& plan(PlanKind kind) const;
};

// What `analyze` found out: the one model behind every output format.
struct Analysis {
  std::string name;
  PlanKind plan = PlanKind::kAuto;  // whose bytes are set against the unfused ones
  std::uint64_t operations = 0;
  Bytes unfused;
  Bytes fused;
  std::uint64_t dtype_bytes = 0;       // the sizes form
  std::optional<GraphAnalysis> graph;  // the graph form

  Savings savings() const { return {unfused.total(), fused.total()}; }
};

Analysis analyze_chain(const SizeChain& chain, std::string name, const std::string& document);

// `plan` is the headline's; by default the graph's own where it has one, else auto.
Analysis analyze_graph(OpGraph graph, std::string name, const Device& device,
                       std::optional<PlanKind> plan);

// What a kernel is called: its ops, the first three by name.
std::string kernel_name(const OpGraph& graph, const Kernel& kernel);

}  // namespace fusecalc
