#pragma once

#include <cstdint>
#include <optional>

#include "graph/op_graph.hpp"

namespace fusecalc {

// How kernels/norm_backward.cuh spreads the gradients of a layer_norm or an rms_norm over threads:
// a team of threads takes one row after another, and each of its threads keeps the sums of its
// columns in registers.
struct NormBackwardTiling {
  std::uint64_t rows = 1;
  std::uint64_t length = 1;  // of a row
  unsigned width = 1;        // elements that a thread takes together
  unsigned rounds = 1;       // how often it does in a row
  unsigned team = 1;         // threads of a row: a part of a warp that divides it, or whole warps
  unsigned teams = 1;        // of a block
  unsigned stages = 1;  // rows that a team has on chip: one that it works on, others on the way
  std::uint64_t shared_bytes = 0;
  // The gradients that the op lists as its outputs.
  bool rows_wanted = false;  // dx
  bool dw_wanted = false;
  bool db_wanted = false;

  unsigned threads() const { return team * teams; }
  unsigned column_sums() const { return (dw_wanted ? 1U : 0U) + (db_wanted ? 1U : 0U); }
};

// Where an operand holds its elements in memory as the kernel copies them: in order, and as floats
// of whole bytes. Other operands are read element by element.
bool copied_as_stored(const OpGraph& graph, const Operand& operand);

// Whether the kernel computes in 64 bits.
bool computes_in_f64(const OpGraph& graph, const Op& op);

// None where a block has not enough registers or shared memory for a row. `op` has a first input
// that is not empty.
std::optional<NormBackwardTiling> norm_backward_tiling(const OpGraph& graph, const Op& op,
                                                       std::uint64_t on_chip_bytes);

}  // namespace fusecalc
