#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compare/document.hpp"

namespace fusecalc {

// What became of a kernel, a plan or a spec.
enum class Change : std::uint8_t {
  kSame,
  kRenamed,    // it computes what another one did, under another name
  kAltered,    // it took ops in, or gave some up
  kSplit,      // its ops are in several kernels now
  kMerged,     // it holds the ops of several
  kRegrouped,  // several exchanged ops
  kAdded,
  kRemoved,
};

std::string_view name_of(Change change);

// Kernels before and after that compute the same together, by their places in their plans.
struct KernelMatch {
  Change change = Change::kSame;
  std::vector<std::size_t> before;
  std::vector<std::size_t> after;
};

// Pairs the ops of two documents: by name, and where a name is gone (or was only a number) by the
// tensors that the op reads and writes when it is alone (or its bytes, where they are all that is
// told).
class OpMatcher {
 public:
  OpMatcher(const ResultDocument& before, const ResultDocument& after);

  // Every kernel of both plans is in exactly one match; those with kernels of both sides come
  // first, in the order of `before`.
  std::vector<KernelMatch> match(const PlanFigures& before, const PlanFigures& after) const;

 private:
  // The op of `before` that an op of `after` is.
  std::map<std::string, std::string, std::less<>> origin_;
};

}  // namespace fusecalc
