#include "plan/repeated_reads.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "graph/operand_map.hpp"
#include "graph/strided_map.hpp"

namespace fusecalc {
namespace {

constexpr std::uint64_t kMostSideBySide = 32;
// The most elements, or rows, of a block.
constexpr std::uint64_t kMostOfBlock = 4096;
constexpr std::uint64_t kMostRows = 64;
// Longer ones are those of several blocks.
constexpr std::uint64_t kLongestRow = 16384;

void add_reads(std::vector<RepeatedRead>& reads, const StridedMap& map, std::uint64_t space,
               DType dtype) {
  std::uint64_t outer = 1;
  for (std::size_t i = 0; i < map.axes.size(); ++i) {
    const StridedMap::Axis& axis = map.axes[i];
    const StridedMap inner{
        .axes = {map.axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, map.axes.end()}};
    if (axis.stride == 0 && inner.distinct() > 1) {
      reads.push_back({.outer = outer,
                       .passes = axis.extent,
                       .pass = space / outer / axis.extent,
                       .bytes = static_cast<double>(bytes_of(dtype, inner.distinct()))});
    }
    outer *= axis.extent;
  }
}

// Whether it reads fewer elements of anything than its loop has: only these can be repeated.
bool reads_smaller(const OpGraph& graph, const Kernel& kernel, std::uint64_t space) {
  return std::ranges::any_of(kernel, [&](OpId op) {
    return std::ranges::any_of(graph.outline.inputs_of(op), [&](const Outline::Input& input) {
      const bool inside =
          input.producer != kNone && std::ranges::binary_search(kernel, input.producer);
      return !inside && input.touched < space;
    });
  });
}

// From the loop's elements to those of what ops of the kernel read, from the last op on.
std::vector<RepeatedRead> reads_of_loop(const OpGraph& graph, const Kernel& kernel,
                                        std::uint64_t space) {
  std::vector<RepeatedRead> reads;
  std::map<TensorId, StridedMap> maps;  // of what the kernel makes, and of what it has read
  for (std::size_t k = kernel.size(); k-- > 0;) {
    const Op& op = graph.ops[kernel[k]];
    if (graph.tensors[op.outputs[0]].elements == space) {
      maps.try_emplace(op.outputs[0], StridedMap::of(space));
    }
    const auto of_result = maps.find(op.outputs[0]);
    if (of_result == maps.end()) continue;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i].tensor == kNone) continue;
      const Tensor& tensor = graph.tensors[op.operands[i].tensor];
      const std::optional<StridedMap> map = map_to_value(of_result->second, graph, op, i);
      if (!map) continue;
      const auto [place, added] = maps.try_emplace(tensor.value, *map);
      const OpId producer = graph.tensors[tensor.value].producer;
      const bool inside = producer != kNone && std::ranges::binary_search(kernel, producer);
      if (added && !inside) add_reads(reads, *map, space, tensor.type.dtype);
    }
  }
  return reads;
}

}  // namespace

double lost_by_stream(double distance, std::uint64_t l2_bytes) {
  // Measured: sums of [8, n, 4096] and [n, 4096], products of [16, 1, 4096] and [n, 4096].
  static constexpr std::array<std::pair<double, double>, 10> kMeasured = {{{0.14, 0},
                                                                           {0.32, 0.06},
                                                                           {0.48, 0.11},
                                                                           {0.6, 0.2},
                                                                           {0.64, 0.31},
                                                                           {0.72, 0.41},
                                                                           {0.8, 0.76},
                                                                           {0.84, 0.8},
                                                                           {0.96, 0.96},
                                                                           {1.2, 1}}};
  const double share = distance / static_cast<double>(l2_bytes);
  if (share <= kMeasured.front().first) return 0;
  for (std::size_t i = 1; i < kMeasured.size(); ++i) {
    const auto& [from, lost] = kMeasured[i - 1];
    const auto& [to, more] = kMeasured[i];
    if (share < to) return lost + (more - lost) * (share - from) / (to - from);
  }
  return 1;
}

double RepeatedReads::distance(const RepeatedRead& read, double moved) const {
  return moved * static_cast<double>(read.pass) / static_cast<double>(space.elements) + read.bytes;
}

LoopSpace LoopSpace::of_results(std::uint64_t elements) {
  return {.elements = elements, .unit = kMostOfBlock};
}

std::optional<LoopSpace> LoopSpace::of_rows(const RowLayout& rows) {
  if (!rows.whole_rows()) return std::nullopt;
  return LoopSpace{.elements = rows.rows() * rows.row_length(),
                   .unit = rows.row_length() > kLongestRow ? 0 : kMostRows * rows.row_length(),
                   .rows = true};
}

RepeatedReads repeated_reads(const OpGraph& graph, const Kernel& kernel, const LoopSpace& space,
                             double moved, std::uint64_t l2_bytes) {
  // Nothing is lost between two reads, each in its half of the loop.
  const bool stays = lost_by_stream(1.5 * moved, l2_bytes) == 0;
  if (space.elements == 0 || stays || !reads_smaller(graph, kernel, space.elements)) return {};
  RepeatedReads repeated{.space = space, .reads = reads_of_loop(graph, kernel, space.elements)};
  const bool permutes = std::ranges::any_of(
      kernel, [&](OpId id) { return graph.ops[id].row->access == Access::kPermute; });
  if (permutes || space.unit == 0) return repeated;
  // As much as is worth an order of its own.
  constexpr double kLeastShare = 0.02;
  double most = kLeastShare * moved;
  for (const RepeatedRead& read : repeated.reads) {
    std::uint64_t together = std::min(read.passes, kMostSideBySide);
    while (read.passes % together != 0) --together;
    const bool parts = space.rows || read.outer * (read.passes / together) > 1;
    if (parts && read.pass % space.unit != 0) continue;
    double lost = 0;  // in each pass
    for (const RepeatedRead& other : repeated.reads) {
      const bool along = other.pass == read.pass && other.passes == read.passes;
      if (along) lost += other.bytes * lost_by_stream(repeated.distance(other, moved), l2_bytes);
    }
    const double saved =
        static_cast<double>(read.outer * (read.passes - read.passes / together)) * lost;
    if (saved <= most) continue;
    most = saved;
    repeated.side_by_side = read;
    repeated.side_by_side->outer *= read.passes / together;
    repeated.side_by_side->passes = together;
  }
  return repeated;
}

}  // namespace fusecalc
