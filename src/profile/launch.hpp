#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.hpp"

namespace fusecalc {

enum class LaunchKind { kKernel, kCopy, kFill, kGraph };

std::string_view name_of(LaunchKind kind);
LaunchKind launch_kind_named(std::string_view name);

// A kernel, copy or fill of a graph. The counters are read for a graph as a whole.
struct GraphNode {
  std::string name{};
  LaunchKind kind = LaunchKind::kKernel;
  std::array<std::uint64_t, 3> grid{};
  std::array<std::uint64_t, 3> block{};
  double seconds = 0;
};

// One launch of a kernel, copy, fill or graph by a program.
struct ProfiledLaunch {
  std::uint64_t index = 0;  // in the process
  std::string name{};       // short: without namespaces and parameters
  LaunchKind kind = LaunchKind::kKernel;
  std::uint64_t thread = 0;
  std::uint64_t device = 0;
  std::uint64_t stream = 0;  // in the order of their first launch, 0: the default stream
  std::array<std::uint64_t, 3> grid{};
  std::array<std::uint64_t, 3> block{};
  std::vector<std::string> ranges{};  // NVTX, outermost first
  std::optional<Bytes> dram{};
  std::optional<double> seconds{};
  std::vector<GraphNode> nodes{};  // of a graph, those that were timed, as they began
  std::uint64_t together = 0;      // launches before it whose bytes are in its own
};

}  // namespace fusecalc
