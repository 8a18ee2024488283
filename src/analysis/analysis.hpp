#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.hpp"
#include "device/device.hpp"
#include "graph/op_graph.hpp"
#include "plan/kernel.hpp"
#include "plan/plan_kind.hpp"
#include "plan/verdict.hpp"
#include "predict/prediction.hpp"
#include "traffic/kernel_traffic.hpp"
#include "traffic/savings.hpp"

namespace fusecalc {

inline constexpr std::string_view kAnalysisSchema = "fusecalc.analysis/1";

struct KernelAnalysis {
  std::string name;  // no other kernel of the plan has it
  Kernel ops;
  KernelTraffic traffic;
  Verdict launch;  // why our runner cannot launch it, if so
  std::optional<Split> split;
  Prediction predicted;  // alone, from a cold L2
};

// What an obstacle to fusing two kernels lies in.
enum class ObstacleIn : std::uint8_t {
  kBoth,   // an op of one and an op of the other, or a single op
  kUnion,  // all ops of both in one kernel, though none of one and one of the other
  kEither  // the ops of one of them: a group of an explicit plan that cannot be launched
};

// Two kernels of a plan that share a tensor, and why they are not fused.
struct Boundary {
  KernelId with = 0;  // the other kernel's index in the plan
  TensorId tensor = kNone;
  bool feeds = false;  // this kernel writes the tensor, the other reads it
  Verdict verdict;     // the obstacle to fusing them
  ObstacleIn in = ObstacleIn::kBoth;
  // An op of this kernel and an op of the other one that are two of the verdict's; else none.
  OpId here = kNone;
  OpId there = kNone;
  std::int64_t bytes_saved = 0;  // by fusing them, if there is no obstacle
};

// The boundaries of a plan, grouped by kernel: there may be several hundred thousand.
struct Boundaries {
  std::vector<Boundary> all;
  std::vector<std::size_t> first;  // of each kernel, and the end

  std::span<const Boundary> of(KernelId kernel) const {
    return std::span(all).subspan(first[kernel], first[kernel + 1] - first[kernel]);
  }
};

struct PlanAnalysis {
  PlanKind kind = PlanKind::kUnfused;
  Bytes bytes{};
  std::uint64_t flops = 0;
  std::vector<KernelAnalysis> kernels{};
  Prediction predicted{};                  // its kernels back to back, from a cold L2
  std::optional<Boundaries> boundaries{};  // set by find_boundaries()
  // Where ops stand in several kernels: the plan in terms of its own graph.
  std::optional<FusionPlan> recomputed{};

  // The graph that can tell them apart, and the kernels in terms of it.
  const OpGraph& graph_or(const OpGraph& document) const {
    return recomputed ? recomputed->graph_or(document) : document;
  }
  std::vector<Kernel> planned_kernels() const;
};

struct GraphAnalysis {
  OpGraph graph;
  Device device;
  std::vector<PlanAnalysis> plans;  // in the order of PlanKind

  const PlanAnalysis& plan(PlanKind kind) const;
};

// The result of `analyze`: the one model behind every output format.
struct Analysis {
  std::string name;
  PlanKind plan = PlanKind::kAuto;  // the headline: its bytes are compared with the unfused ones
  std::uint64_t operations = 0;
  Bytes unfused;
  Bytes fused;
  std::uint64_t dtype_bytes = 0;       // the sizes form
  std::optional<GraphAnalysis> graph;  // the graph form

  Savings savings() const { return {unfused.total(), fused.total()}; }
  // Not even a view.
  bool lists_nothing() const;
  // By predicted time, unfused over the headline plan; empty where nothing is predicted.
  std::optional<double> predicted_speedup() const;
};

// The name of a kernel: the names of its first three ops, and how many more there are.
std::string kernel_name(const OpGraph& graph, const Kernel& kernel);
// Gives each kernel of a plan its name: kernel_name(), and where several kernels would have the
// same one, the first op that only this one of them holds: "a+b+c+2 more (with d)". Kernels that
// this does not tell apart are numbered in the order of the plan: "a #2".
void name_kernels(const OpGraph& graph, std::vector<KernelAnalysis>& kernels);

// A tensor of which a plan moves fewer bytes than the unfused plan, or more.
struct SavedTensor {
  TensorId tensor = kNone;
  std::uint64_t bytes = 0;  // the difference
  bool moved_more = false;
  bool never_in_memory = false;

  // "never in memory", "moved more" or nothing.
  std::string_view note() const {
    return never_in_memory ? "never in memory" : moved_more ? "moved more" : "";
  }
};

// The largest difference first. Together they are what the plan saves.
std::vector<SavedTensor> saved_tensors(const GraphAnalysis& analysis, const PlanAnalysis& plan);

}  // namespace fusecalc
