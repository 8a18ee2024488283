#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/row_schedule.hpp"
#include "codegen/schedule.hpp"

namespace fusecalc {

// Writes a kernel with reductions: the loops of its phases (row_loops.cpp), how threads and blocks
// put their parts together and what they store of it (row_merges.cpp), and what is around that.
class RowWriter {
 public:
  RowWriter(Emitter& emitter, PhaseFinder& finder, bool rows_fit, const Target& target);

  GeneratedKernel write();

 private:
  // A stretch of a phase's rounds, and where what they hold is.
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool in_registers = false;
  };

  void plan(bool rows_fit, const Target& target);
  bool works_in(std::uint8_t phase) const;
  bool loops_after(std::uint8_t phase) const;
  unsigned lanes() const { return schedule_.columns ? schedule_.width : 1; }
  // The number of a row, or of the first of a group of columns.
  Index row_index() const;
  // From the number of a row to its first element, and from that of an element of a row to its
  // place.
  IndexMap row_map(bool reduced) const;

  void write_phase(std::uint8_t phase);
  void write_pivots(std::uint8_t phase);
  void write_loops(const std::string& inside, const std::string& copies, std::uint8_t phase);
  void write_loop(const Stretch& stretch, const std::string& text, bool light);
  void write_rounds(const Stretch& stretch, std::uint64_t unrolled, bool guarded,
                    const std::string& text);
  // What a round of a phase does; `copies`: what is copied on chip for it.
  std::string round_text(std::uint8_t phase, std::string& copies);
  std::string small_results(const Index& base, const Index& offset);
  std::string with_places(std::string text, bool in_registers) const;
  std::uint64_t whole_rounds() const;

  void merge_states(std::uint8_t phase);
  void merge_blocks(const std::vector<OpId>& ops, bool more_loops);
  std::string team_merge(const std::string& state) const;
  // What losses pick out of each row: `scores` from memory, or the numbers of their classes.
  void write_picks(bool scores);
  void write_row_results();
  void write_losses();
  std::string write_loss(OpId id);

  std::string prologue() const;
  std::string held_declarations() const;
  std::string scratch_declaration() const;
  std::string row_loop(const std::string& inside) const;
  std::uint64_t held_group_bytes(TensorId id) const;
  std::uint32_t shared_bytes() const;
  // Blocks that different rows need, and blocks that are launched.
  std::uint64_t blocks_across() const;
  std::uint64_t blocks() const;

  Emitter& emitter_;
  const RowLayout rows_;
  std::uint64_t space_;
  Roots roots_;
  RowSchedule schedule_;
  std::uint8_t last_ = 0;
  std::string totals_;  // declared before the first row, used after the last
  std::string state_declarations_;
  std::string body_;
  std::string ending_;
  std::vector<std::string> scratch_users_;
  std::vector<TensorId> held_;
  std::uint64_t partial_bytes_ = 0;  // in the workspace, after the gates
  bool waits_ = false;               // for all blocks, in between
  bool done_ = false;                // only one block of each row goes on
};

}  // namespace fusecalc
