#include "plan/code_size.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace fusecalc {
namespace {

using Edge = ResolvedKernel::Edge;
// An index at which elements are evaluated; 0 is the loop's own.
using IndexId = std::uint32_t;

// Whether an op reads its operand at another index than that of its result.
bool changes_index(const Outline::OpFacts& reader, const Outline::Result& result,
                   const Outline::Input& input) {
  if (reader.reduces() && reader.op_class == OpClass::kReduce) return false;
  return reader.access != Access::kSame || input.view != Access::kSame ||
         input.size != result.elements;
}

// Finds the indices at which a kernel evaluates each of its ops, as the code generator does: values
// are computed once for each index. Stops at kMostOps.
class Evaluations {
 public:
  Evaluations(const ResolvedKernel& resolved, const Kernel& kernel)
      : resolved_(resolved),
        kernel_(kernel),
        outline_(resolved.graph().outline),
        phases_(resolved.phases()) {}

  bool within_limit() {
    if (!any_index_changes()) return total_if_each_once() <= kMostOps;
    if (most_evaluated() <= kMostOps) return true;
    find_roots();
    std::uint64_t total = 0;
    for (std::size_t i = kernel_.size(); i-- > 0;) {
      std::vector<IndexId>& indices = indices_[i];
      std::ranges::sort(indices);
      indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
      total += std::max<std::size_t>(1, indices.size()) * phases_.computed[i];
      if (total > kMostOps) return false;
      for (const Edge& edge : resolved_.edges_of(i)) {
        if (edge.inside() && !of_rows(edge)) read(i, edge);
      }
    }
    return true;
  }

 private:
  // Results of rows are computed once for each row, ahead of the loop that uses them.
  bool of_rows(const Edge& edge) const {
    return phases_.ready_in[edge.maker] > 0 && edge.input->elements <= phases_.rows.rows();
  }

  bool any_index_changes() const {
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      const Outline::Result& result = outline_.results_of(kernel_[i]).front();
      for (const Edge& edge : resolved_.edges_of(i)) {
        const bool changes = edge.inside() && !of_rows(edge) &&
                             changes_index(outline_[kernel_[i]], result, *edge.input);
        if (changes) return true;
      }
    }
    return false;
  }

  std::uint64_t total_if_each_once() const {
    std::uint64_t total = 0;
    for (const std::uint8_t phases : phases_.computed) total += phases;
    return total;
  }

  // As many as there are if no two readers share an index: most kernels need no closer look.
  std::uint64_t most_evaluated() const {
    std::vector<std::uint64_t> indices(kernel_.size());
    std::uint64_t total = 0;
    for (std::size_t i = kernel_.size(); i-- > 0 && total <= kMostOps;) {
      const Outline::OpFacts& facts = outline_[kernel_[i]];
      if (phases_.written[i] != 0) ++indices[i];
      indices[i] = std::clamp<std::uint64_t>(indices[i], 1, kMostOps + 1);
      total += indices[i] * phases_.computed[i];
      const bool both = resolved_.graph().ops[kernel_[i]].row->family == OpFamily::kRotary;
      for (const Edge& edge : resolved_.edges_of(i)) {
        if (!edge.inside() || of_rows(edge)) continue;
        if (facts.reduces()) ++indices[edge.maker];
        if (facts.op_class == OpClass::kReduce) continue;
        indices[edge.maker] += both ? 2 * indices[i] : indices[i];
      }
    }
    return total;
  }

  // Results as large as the largest are stored by one loop; smaller ones by one each.
  void find_roots() {
    indices_.resize(kernel_.size());
    std::uint64_t space = 0;
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      if (phases_.written[i] == 0) continue;
      space = std::max(space, outline_.results_of(kernel_[i]).front().elements);
    }
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      if (phases_.written[i] == 0) continue;
      const bool full = outline_.results_of(kernel_[i]).front().elements == space;
      indices_[i].push_back(full ? 0 : next_++);
    }
  }

  void read(std::size_t reader, const Edge& edge) {
    const Outline::OpFacts& facts = outline_[kernel_[reader]];
    const Outline::Result& result = outline_.results_of(kernel_[reader]).front();
    std::vector<IndexId>& of_maker = indices_[edge.maker];
    if (facts.reduces()) of_maker.push_back(0);
    if (facts.op_class == OpClass::kReduce) return;
    if (!changes_index(facts, result, *edge.input)) {
      of_maker.insert(of_maker.end(), indices_[reader].begin(), indices_[reader].end());
      return;
    }
    // A broadcast leads to the same index whoever reads, other changes are an op's own.
    const bool broadcast = facts.access == Access::kSame && edge.input->view == Access::kSame;
    for (const IndexId from : indices_[reader]) {
      const auto [to, added] =
          known_.try_emplace({from, edge.input->tensor, broadcast ? result.elements : 0,
                              broadcast ? 0 : static_cast<std::uint32_t>(reader) + 1},
                             next_);
      if (added) ++next_;
      of_maker.push_back(to->second);
      // An element and its partner.
      const bool both = resolved_.graph().ops[kernel_[reader]].row->family == OpFamily::kRotary;
      if (both) of_maker.push_back(from);
    }
  }

  const ResolvedKernel& resolved_;
  const Kernel& kernel_;
  const Outline& outline_;
  const Phases& phases_;
  std::vector<std::vector<IndexId>> indices_;  // of each op
  std::map<std::tuple<IndexId, TensorId, std::uint64_t, std::uint32_t>, IndexId> known_;
  IndexId next_ = 1;
};

// The most values that are there at once if the ops run in the kernel's order, in words of 32 bits.
std::uint64_t most_words(const ResolvedKernel& resolved, const Kernel& kernel) {
  const Outline& outline = resolved.graph().outline;
  const auto words_of = [&](std::size_t i) {
    return bytes_of(outline.results_of(kernel[i]).front().dtype, 2) > 8 ? 2U : 1U;
  };
  std::vector<std::uint32_t> last_reader(kernel.size(), 0);
  for (std::uint32_t i = 0; i < kernel.size(); ++i) {
    for (const Edge& edge : resolved.edges_of(i)) {
      if (edge.inside()) last_reader[edge.maker] = i;
    }
  }
  std::vector<std::uint32_t> ends(kernel.size(), 0);  // words that are last read by an op
  std::uint64_t live = 0;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    live -= ends[i];
    if (last_reader[i] == 0) continue;
    live += words_of(i);
    ends[last_reader[i]] += words_of(i);
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

Verdict check_code(const ResolvedKernel& resolved, const Kernel& kernel) {
  const Phases& phases = resolved.phases();
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const bool waits = phases.runs_in[i] >= kLastPhase;
    if (waits && resolved.graph().outline[kernel[i]].reduces()) {
      return {Obstacle::kTooManyPasses, kernel[i]};
    }
  }
  if (!Evaluations(resolved, kernel).within_limit()) return {Obstacle::kTooManyOps};
  // Few ops cannot make too many values.
  if (kernel.size() <= kMostWords / 2) return {};
  return most_words(resolved, kernel) > kMostWords ? Verdict{Obstacle::kTooManyValues} : Verdict{};
}

}  // namespace fusecalc
