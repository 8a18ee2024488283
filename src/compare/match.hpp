#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compare/document.hpp"

namespace fusecalc {

// The change of a kernel, a plan or a spec.
enum class Change : std::uint8_t {
  kSame,
  kRenamed,    // it has the same ops under another name
  kAltered,    // it gained or lost ops
  kSplit,      // its ops are now in several kernels
  kMerged,     // it has the ops of several
  kRegrouped,  // several exchanged ops
  kAdded,
  kRemoved,
};

std::string_view name_of(Change change);

// Kernels before and after that together have the same ops, by their indices in their plans.
struct KernelMatch {
  Change change = Change::kSame;
  std::vector<std::size_t> before;
  std::vector<std::size_t> after;
};

// The op of the earlier document that an op of the new one is, by their names.
using OpNames = std::map<std::string, std::string, std::less<>>;

// Pairs the ops of two documents: by what they move and what surrounds them in the graph, where
// several are alike first those of one name; the others by name, or if a name is missing (or was
// only a number) by the tensors that the op reads and writes when it is unfused (or by its bytes,
// if the document lists no tensors).
class OpMatcher {
 public:
  OpMatcher(const ResultDocument& before, const ResultDocument& after);

  // Kernels are matched by their ops; those of which no op is known, by the bytes of their tensors
  // and their order. Every kernel of both plans is in exactly one match; those with kernels of both
  // sides come first, in the order of `before`.
  std::vector<KernelMatch> match(const PlanFigures& before, const PlanFigures& after) const;

 private:
  OpNames origin_;
};

}  // namespace fusecalc
