#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/paths.hpp"

namespace fusecalc {

// A kernel that another kernel might be fused with.
struct FusionCandidate {
  KernelId kernel = 0;
  std::uint64_t saving = 0;  // estimated bytes that fusing the two saves
  bool feeds = false;        // one of the two reads what the other produces
  bool contracts = false;    // as an operand of a contraction that takes no prologue
  bool prologue = false;     // of one that takes one
};

// Finds kernels that share tensors. The kernels may change between calls.
class CandidateFinder {
 public:
  // `owner` tells the kernel of each op.
  CandidateFinder(const OpGraph& graph, const std::vector<Kernel>& kernels,
                  const std::vector<KernelId>& owner);

  // The kernels that share a tensor with this one: producers and readers of its tensors, and
  // neighbouring readers of the same tensor. In the kernels' order.
  std::vector<FusionCandidate> of(KernelId k);

 private:
  // A value that two kernels share.
  struct Shared {
    KernelId kernel = 0;
    TensorId value = 0;
    std::uint64_t bytes = 0;
    bool feeds = false;
    bool contracts = false;
    bool prologue = false;

    auto operator<=>(const Shared&) const = default;
  };

  std::span<const OpId> readers_of(TensorId value);
  void add_maker(KernelId k, const Outline::Input& input, OpId op);
  void add_siblings(KernelId k, const Outline::Input& input, OpId op);
  void add_readers(KernelId k, const Outline::Result& result);
  bool contracts(OpId op) const { return outline_[op].contracts() && !takes_prologue_[op]; }
  bool is_other(OpId op, KernelId k) const { return owner_[op] != kNone && owner_[op] != k; }

  const OpGraph& graph_;
  const Outline& outline_;
  const std::vector<Kernel>& kernels_;
  const std::vector<KernelId>& owner_;
  std::vector<bool> takes_prologue_;               // of each op
  std::vector<std::vector<OpId>> ranked_readers_;  // of values with many, once they are asked for
  std::vector<Shared> shared_;
};

}  // namespace fusecalc
