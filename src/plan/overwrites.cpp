#include "plan/overwrites.hpp"

#include <algorithm>
#include <vector>

#include "plan/row_order.hpp"

namespace fusecalc {
namespace {

using Edge = ResolvedKernel::Edge;

// The last phase in which the op at this place reads its operands.
std::uint8_t last_reads_in(const ResolvedKernel& resolved, const Kernel& kernel,
                           std::size_t place) {
  const Outline::OpFacts& facts = resolved.graph().outline[kernel[place]];
  const Phases& phases = resolved.phases();
  const bool twice = facts.reduces() && facts.passes > 1;
  return twice ? phases.ready_in[place] : phases.runs_in[place];
}

// One result of the kernel that is stored in memory which existed before.
class OverwriteCheck {
 public:
  OverwriteCheck(const ResolvedKernel& resolved, const Kernel& kernel, std::size_t place,
                 const Outline::Result& result)
      : resolved_(resolved),
        outline_(resolved.graph().outline),
        kernel_(kernel),
        phases_(resolved.phases()),
        place_(place),
        result_(result),
        stored_in_(stored_in(resolved, kernel, place, result)),
        order_(row_order(resolved, kernel)) {}

  Verdict run() const {
    return facts(place_).access == Access::kScatter ? check_scatter() : check_in_place();
  }

 private:
  const Outline::OpFacts& facts(std::size_t place) const { return outline_[kernel_[place]]; }

  bool reads_memory(const Edge& edge) const {
    return !edge.inside() && edge.input->storage == result_.storage && edge.input->touched > 0;
  }

  // Which rows it writes is known only when it runs: nothing else may use the memory.
  Verdict check_scatter() const {
    const Edge& table = resolved_.edges_of(place_).front();
    if (table.inside()) return {Obstacle::kBeforeScatter, kernel_[table.maker], kernel_[place_]};
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      // What a scatter combines with its updates it reads and writes at once.
      if (std::ranges::any_of(resolved_.edges_of(i), [&](const Edge& edge) {
            return &edge != &table && reads_memory(edge);
          })) {
        return {Obstacle::kOverwritten, kernel_[i], kernel_[place_]};
      }
    }
    return {};
  }

  Verdict check_in_place() const {
    // Whether each op computes elements out of those that it reads from the memory.
    std::vector<bool> follows(kernel_.size());
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      for (const Edge& edge : resolved_.edges_of(i)) {
        const bool through = edge.inside() && follows[edge.maker];
        if (!through && !reads_memory(edge)) continue;
        if (!in_step(i, edge)) return {Obstacle::kOverwritten, kernel_[i], kernel_[place_]};
        // Results of rows are known after all threads of the row have read it.
        follows[i] = !facts(i).reduces() || facts(i).op_class == OpClass::kNormalise;
      }
      const bool other = follows[i] && i != place_ && phases_.written[i] > 0;
      if (other && (!is_full() || phases_.ready_in[i] > stored_in_)) {
        return {Obstacle::kOverwritten, kernel_[i], kernel_[place_]};
      }
    }
    return {};
  }

  // Whether the op at this place reads each element where it computes the same element, before the
  // result is written.
  bool in_step(std::size_t place, const Edge& edge) const {
    const Outline::OpFacts& reader = facts(place);
    const bool same_place = reader.access == Access::kSame && !reader.contracts() &&
                            edge.input->view == Access::kSame &&
                            edge.input->elements == result_.elements &&
                            (reader.reduces() || reader.work == result_.elements);
    return same_place && order_.same(place, place_) &&
           last_reads_in(resolved_, kernel_, place) <= stored_in_;
  }

  // Results of this size are stored together, once all of them are computed.
  bool is_full() const {
    std::uint64_t most = phases_.rows.rows() * phases_.rows.row_length();
    for (std::size_t i = 0; i < kernel_.size(); ++i) {
      if (phases_.rows.empty() && phases_.written[i] > 0) most = std::max(most, facts(i).work);
    }
    return result_.elements >= most;
  }

  const ResolvedKernel& resolved_;
  const Outline& outline_;
  const Kernel& kernel_;
  const Phases& phases_;
  const std::size_t place_;
  const Outline::Result& result_;
  const std::uint8_t stored_in_;
  const RowOrder order_;
};

// The first op of a part that reads or writes this memory, or kNone.
OpId user_of(const Outline& outline, const Kernel& part, TensorId storage) {
  const auto uses = [&](OpId id) {
    return std::ranges::any_of(outline.inputs_of(id),
                               [&](const Outline::Input& input) {
                                 return input.storage == storage && input.touched > 0;
                               }) ||
           std::ranges::any_of(outline.results_of(id), [&](const Outline::Result& result) {
             return result.storage == storage;
           });
  };
  const auto found = std::ranges::find_if(part, uses);
  return found == part.end() ? kNone : *found;
}

}  // namespace

std::uint8_t stored_in(const ResolvedKernel& resolved, const Kernel& kernel, std::size_t place,
                       const Outline::Result& result) {
  const Phases& phases = resolved.phases();
  std::uint8_t phase = phases.ready_in[place];
  if (result.storage == result.tensor || phases.contracts || phases.crossed) return phase;
  for (std::size_t i = place + 1; i < kernel.size(); ++i) {
    for (const Edge& edge : resolved.edges_of(i)) {
      if (edge.maker == place && edge.input->value == result.tensor) {
        phase = std::max(phase, last_reads_in(resolved, kernel, i));
      }
    }
  }
  return phase;
}

Verdict check_overwrites_between(const OpGraph& graph, const std::vector<Kernel>& parts) {
  const Outline& outline = graph.outline;
  for (const Kernel& writing : parts) {
    for (const OpId id : writing) {
      for (const Outline::Result& result : outline.results_of(id)) {
        if (result.storage == result.tensor) continue;
        for (const Kernel& part : parts) {
          const OpId user = &part == &writing ? kNone : user_of(outline, part, result.storage);
          if (user != kNone) return {Obstacle::kOverwritten, user, id};
        }
      }
    }
  }
  return {};
}

Verdict check_overwrites(const ResolvedKernel& resolved, const Kernel& kernel) {
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    for (const Outline::Result& result : resolved.graph().outline.results_of(kernel[i])) {
      if (result.storage == result.tensor || !resolved.needed_outside(i, result)) continue;
      const Verdict verdict = OverwriteCheck(resolved, kernel, i, result).run();
      if (!verdict.legal()) return verdict;
    }
  }
  return {};
}

}  // namespace fusecalc
