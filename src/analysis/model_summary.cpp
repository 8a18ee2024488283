#include "analysis/model_summary.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/checked.hpp"
#include "traffic/counter.hpp"

namespace fusecalc {
namespace {

// Sums beyond kMaxCount are refused where plans are counted.
void add(std::uint64_t& total, std::uint64_t bytes) {
  if (!checked_add(total, bytes)) total = kMaxCount;
}

}  // namespace

ModelSummary summarise(const ModelOrigin& origin, const OpGraph& graph, const Device& device,
                       std::string model) {
  ModelSummary summary{.model = std::move(model),
                       .nodes = origin.nodes,
                       .exact = origin.exact,
                       .views = origin.views,
                       .folded = origin.folded,
                       .opaque = origin.opaque,
                       .unstated = origin.unstated};
  std::map<std::size_t, std::string_view> target_at;
  for (const ModelOrigin::Missing& missing : origin.missing) {
    target_at.emplace(missing.position, missing.target);
  }
  std::map<std::string_view, ModelSummary::Missing> by_target;
  TrafficCounter counter(graph, device);
  for (OpId id = 0; id < graph.ops.size(); ++id) {
    const std::uint64_t bytes = counter.bytes({id}).total();
    add(summary.bytes, bytes);
    const auto found = target_at.find(graph.ops[id].position);
    if (found == target_at.end()) continue;
    add(summary.opaque_bytes, bytes);
    ModelSummary::Missing& missing = by_target[found->second];
    ++missing.nodes;
    add(missing.bytes, bytes);
  }
  for (auto& [target, missing] : by_target) {
    missing.op = target;
    summary.missing.push_back(std::move(missing));
  }
  std::ranges::stable_sort(summary.missing, std::greater<>(), &ModelSummary::Missing::bytes);
  return summary;
}

}  // namespace fusecalc
