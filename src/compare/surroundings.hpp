#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compare/document.hpp"

namespace fusecalc {

// How far the surroundings of an op reach, in ops. Weights, which tell layers apart, are nearer.
inline constexpr std::size_t kReach = 4;

// An op of a document by what it moves and what surrounds it, whatever its name and those of the
// tensors between ops. Hashes are equal where these are: those at d are of the op and of all ops
// up to d away, `from` along its operands and `to` along the uses of its results. Both count an op
// as the bytes of its tensors and the names of the graph inputs among them.
struct OpInGraph {
  std::string_view name;
  const KernelFigures* alone = nullptr;  // the kernel that has no other op; null if there is none
  std::array<std::uint64_t, kReach + 1> from{};
  std::array<std::uint64_t, kReach + 1> to{};
  bool has_operands = false;  // among the document's ops or the inputs of both documents
  bool has_uses = false;
};

// In the order in which the plans of `document` name them. Inputs that `other` lacks have no name:
// there they may have another one.
std::vector<OpInGraph> ops_of(const ResultDocument& document, const ResultDocument& other);

// The number of its ops and the bytes of its tensors, largest first, whatever their names; empty if
// its bytes are unknown.
std::string structure_of(const KernelFigures& kernel);

}  // namespace fusecalc
