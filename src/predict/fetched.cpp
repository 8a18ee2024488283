#include "predict/fetched.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "plan/operand_places.hpp"

namespace fusecalc {
namespace {

// Runs of memory, all in bytes.
struct Runs {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  std::uint64_t pitch = 0;  // from one to the next
  std::uint64_t count = 0;
};

// Those that have any of the runs, or of the first ones, after which all repeats.
double pieces_of(const Runs& runs, std::uint64_t piece) {
  if (runs.count == 0) return 0;
  const std::uint64_t some = std::min(runs.count, piece);
  std::uint64_t pieces = 0;
  std::uint64_t beyond = 0;  // the last run's last piece
  for (std::uint64_t i = 0; i < some; ++i) {
    const std::uint64_t begin = runs.begin + i * runs.pitch;
    const std::uint64_t first = std::max(begin / piece, beyond);
    const std::uint64_t end = (begin + runs.length - 1) / piece + 1;
    pieces += end - std::min(first, end);
    beyond = end;
  }
  return static_cast<double>(pieces) * static_cast<double>(runs.count) / static_cast<double>(some);
}

}  // namespace

double fetched_bytes(const StridedMap& part, std::uint64_t element_bytes, std::uint64_t piece) {
  std::vector<StridedMap::Axis> axes;
  for (const StridedMap::Axis& axis : part.axes) {
    if (axis.stride > 0) axes.push_back(axis);
  }
  std::ranges::sort(axes, {}, &StridedMap::Axis::stride);
  std::uint64_t run = 1;
  std::size_t at = 0;
  while (at < axes.size() && axes[at].stride == run) run *= axes[at++].extent;
  Runs runs{.begin = part.offset * element_bytes, .length = run * element_bytes, .count = 1};
  if (at < axes.size()) {
    runs.pitch = axes[at].stride * element_bytes;
    runs.count = axes[at++].extent;
  }
  double pieces = pieces_of(runs, piece);
  for (; at < axes.size(); ++at) pieces *= static_cast<double>(axes[at].extent);
  return pieces * static_cast<double>(piece);
}

double fetched_bytes_of_run(std::uint64_t bytes, std::uint64_t piece) {
  if (bytes == 0) return 0;
  double pieces = 0;
  for (std::uint64_t i = 0; i < piece; ++i) {
    pieces += pieces_of({.begin = i * bytes, .length = bytes, .count = 1}, piece);
  }
  return pieces;  // of `piece` runs, so many bytes each
}

double bytes_beside(const OpGraph& graph, const Kernel& kernel, const KernelTraffic::Entry& read,
                    const Device& device) {
  const Tensor& value = graph.tensors[read.tensor];
  const bool whole = read.bytes >= value.bytes || read.passes > 1;
  if (whole || value.elements == 0 || is_packed(value.type.dtype)) return 0;
  std::vector<StridedMap> parts;
  double fetched = 0;
  for (const OpId id : kernel) {
    for (const Outline::Input& input : graph.outline.inputs_of(id)) {
      if (input.value != read.tensor) continue;
      std::optional<StridedMap> part = part_taken_by(graph, graph.ops[id], input);
      if (!part) return 0;  // which elements it takes is not known
      if (std::ranges::find(parts, *part) != parts.end()) continue;
      fetched += fetched_bytes(*part, bytes_of(value.type.dtype, 1), piece_bytes(device));
      parts.push_back(std::move(*part));
    }
  }
  const double most = static_cast<double>(value.bytes);
  return std::max(0.0, std::min(fetched, most) - static_cast<double>(read.bytes));
}

}  // namespace fusecalc
