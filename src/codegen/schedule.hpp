#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/generate.hpp"
#include "codegen/scope.hpp"
#include "plan/legality.hpp"
#include "plan/repeated_reads.hpp"

namespace fusecalc {

inline constexpr unsigned kWarp = 32;
// Of a block, where nothing asks for more or fewer.
inline constexpr unsigned kLoopThreads = 256;

// Results that the kernel writes, by how their elements relate to those of its loop.
struct Roots {
  std::vector<TensorId> full;   // one element for each of the loop's
  std::vector<TensorId> rows;   // one for each row
  std::vector<TensorId> small;  // fewer, but no rows: the loop's first elements write them
  std::vector<OpId> losses;     // one number, out of all rows
};

Roots find_roots(const KernelView& kernel, std::uint64_t space);

// Whether an op of the kernel walks over windows: each lane of a thread keeps its place and its
// bounds, so that few lanes fit in registers.
bool has_windows(const KernelView& kernel);

// Elements that a thread moves together: 16 bytes of the widest type that is moved in full.
unsigned group_width(const KernelView& kernel, const Roots& roots, std::uint64_t space);

// Stores `tensor` where the index of the loop's element, `e` in the code, is one of its own.
void store_small(const Scope& scope, TensorId tensor, const std::string& e);
// Stores full-size results; all are computed before the first is stored.
// The index is the loop's own. `guard`: a condition to store at all.
void store_full(const Scope& scope, const std::vector<TensorId>& tensors,
                std::string_view guard = "");

// A member function of a struct that holds the kernel's pointers: the tensor's element number
// `index`, in `type`. `signature` is its name and parameters.
std::string element_function(KernelCode& code, std::string_view signature, TensorId tensor,
                             const std::string& index, ComputeType type);

// The text before the first line of a kernel: building blocks, and the type of indices.
std::string preamble(const OpGraph& graph, std::uint64_t space);

// Tells that the kernel has no code, in the words of the verdict.
[[noreturn]] void refuse(const OpGraph& graph, const Verdict& verdict);

// The index of the first element of a thread's group.
inline Index group_index() { return {.name = "i", .pattern = LanePattern::kUnit, .aligned = true}; }

// The passes of a kernel that its blocks take side by side (plan/repeated_reads.hpp), if any; and
// where the chunk of a block is then, in code: of so many of each pass, of so many elements each.
std::optional<RepeatedRead> passes_side_by_side(const KernelView& kernel, const Device& device,
                                                const LoopSpace& space);
std::string in_passes(std::string_view block, const RepeatedRead& passes, std::uint64_t of_pass,
                      std::uint64_t of_chunk);

GeneratedKernel generate_map(const KernelView& kernel, const Device& device);
// The same where tiles of what it reads are transposed on chip; nothing where they would not help.
// `block`: the loop's body, without tiles.
std::optional<GeneratedKernel> generate_transposition(const KernelView& kernel, const Roots& roots,
                                                      const CodeBlock& block, std::uint64_t space);
// `rows_fit`: what later passes over the rows need again may be held on chip.
GeneratedKernel generate_rows(const KernelView& kernel, bool rows_fit, const Device& device);
// The kernel has a scan, and pointwise ops.
GeneratedKernel generate_scan(const KernelView& kernel, OpId scan);
// The kernel is a single op: a sort, or the first places of one.
GeneratedKernel generate_sort(const KernelView& kernel, const Device& device);
// The kernel is a single op: the gradients of a layer_norm or an rms_norm.
GeneratedKernel generate_norm_backward(const KernelView& kernel, const Device& device);
// Its reductions are those of rows of a matrix and of its columns.
GeneratedKernel generate_rows_and_columns(const KernelView& kernel, const ResolvedKernel& resolved,
                                          const Device& device);
// The kernel's only contraction is a matmul or a linear.
GeneratedKernel generate_contraction(const KernelView& kernel, OpId contraction,
                                     const Device& device);
// The parts of a kernel whose contractions are siblings (plan/siblings.hpp).
GeneratedKernel generate_siblings(std::span<const KernelView> parts, const Device& device);
// Its contractions are an attention op, or the two products of the pattern that the planner fuses.
GeneratedKernel generate_attention(const KernelView& kernel, const std::vector<OpId>& contractions,
                                   const Device& device);

}  // namespace fusecalc
