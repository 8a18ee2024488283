#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emitter.hpp"
#include "codegen/generate.hpp"

namespace fusecalc {

// Results that the kernel writes, by how they lie to its loop.
struct Roots {
  std::vector<TensorId> full;   // an element for each of the loop's
  std::vector<TensorId> rows;   // one for each row
  std::vector<TensorId> small;  // fewer, but no rows: the loop's first elements write them
  std::vector<OpId> losses;     // one number, out of all rows
};

Roots find_roots(const Emitter& emitter, PhaseFinder& finder, std::uint64_t space);

// Elements that a thread moves together: 16 bytes of the widest type that is moved in full.
unsigned group_width(const Emitter& emitter, const Roots& roots, std::uint64_t space);

// Stores `tensor` where the loop's element number, `e` in the code, is one of its own.
void store_small(Emitter& emitter, TensorId tensor, const std::string& e);
// Stores full-size results; all are computed before the first is stored.
void store_full(Emitter& emitter, const std::vector<TensorId>& tensors, const Index& e,
                std::string_view guard);

// A member function of a struct that holds the kernel's pointers: the tensor's element number
// `index`, in `type`. `signature` is its name and parameters.
std::string element_function(Emitter& emitter, std::string_view signature, TensorId tensor,
                             const std::string& index, ComputeType type);

// The text before the first line of a kernel: building blocks, and the type of indices.
std::string preamble(const OpGraph& graph, std::uint64_t space);

GeneratedKernel generate_map(Emitter& emitter, PhaseFinder& finder);
GeneratedKernel generate_rows(Emitter& emitter, PhaseFinder& finder, bool rows_fit,
                              const Target& target);
// The kernel's only contraction is a matmul or a linear.
GeneratedKernel generate_contraction(Emitter& emitter, PhaseFinder& finder, OpId contraction,
                                     const Target& target);
// Its contractions are an attention op, or the two products of the pattern that the planner fuses.
GeneratedKernel generate_attention(Emitter& emitter, PhaseFinder& finder,
                                   const std::vector<OpId>& contractions, const Target& target);

}  // namespace fusecalc
