#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/row_schedule.hpp"
#include "codegen/schedule.hpp"

namespace fusecalc {

// Writes a kernel with reductions: the loops of its phases (row_loops.cpp), how threads and blocks
// merge accumulators and store results of rows (row_merges.cpp), and the kernel around them.
class RowWriter {
 public:
  RowWriter(const KernelView& kernel, bool rows_fit, const Device& device);

  GeneratedKernel write();

 private:
  // A range of a phase's rounds, and where their held values are.
  struct Stretch {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool in_registers = false;
  };

  // A round of a phase's loop: its text, and what goes ahead of the loop.
  struct Round {
    std::string text{};
    std::string row_results{};
    std::string copies{};  // the text of a round that copies held values on chip
    // The same for one element of a row's ends, where groups are shifted.
    std::string ends{};
    std::string end_copies{};
  };

  // What an accumulator takes of several rounds at once.
  struct Gathered {
    std::string type;
    std::string group;  // its name
    std::string state;
  };

  void plan(bool rows_fit, const Device& device);
  void find_passes(const Device& device);
  std::string_view block_number() const;
  // Whether rows follow each other in memory, in every tensor as large as they are.
  bool rows_follow() const;
  bool may_shift() const;
  // Memories that hold rows one after another, and no op accesses in another way; empty where there
  // are other memories of rows.
  std::vector<TensorId> runs() const;
  std::uint64_t run_bytes() const;
  // RowSchedule::lines, if blocks may have whole lines.
  unsigned lines_as_one() const;
  bool works_in(std::uint8_t phase) const;
  bool loops_after(std::uint8_t phase) const;
  unsigned lanes() const { return schedule_.columns && !apart_ ? schedule_.width : 1; }
  // The rows that the code at this point has.
  const RowLayout& layout() const { return apart_ ? rows_ : walked_; }
  // The number of a row, or of the first of a group of columns.
  Index row_index() const;
  // From the number of a row to its first element, and from that of an element of a row to its
  // place.
  IndexTransform row_map(bool reduced) const;

  // The loop at this point of the code; `element` is its own index, where it runs over elements.
  Loop loop(const Index& element = {}) const;

  void write_phase(std::uint8_t phase);
  void write_pivots(std::uint8_t phase);
  void write_loops(const Round& round, std::uint8_t phase);
  void write_loop(const Stretch& stretch, const std::string& text, bool light,
                  bool skipped_first = false);
  void write_rounds(const Stretch& stretch, std::uint64_t unrolled, bool guarded,
                    const std::string& text);
  void write_gathered(const Stretch& stretch, const std::string& text);
  // Whether accumulators of columns take several rounds at once.
  bool gathers_columns(std::uint8_t phase) const;
  void write_column_rounds(const Stretch& stretch, const std::string& text);
  void write_gathered_rounds(const Stretch& stretch, std::uint64_t together, bool guarded,
                             const std::string& text);
  Round write_round(std::uint8_t phase);
  Round write_groups(std::uint8_t phase, unsigned width);
  void write_ends(const std::string& text);
  void accumulate(const Scope& scope, std::uint8_t phase);
  std::string small_results(const Index& base, const Index& offset, unsigned width);
  std::string with_places(std::string text, bool in_registers) const;
  std::uint64_t first_beyond() const;
  std::uint64_t row_step() const;
  std::uint64_t whole_rounds() const;
  std::uint64_t rounds_together() const;

  void merge_states(std::uint8_t phase);
  void merge_blocks(const std::vector<OpId>& ops, bool more_loops);
  // From here on the columns of whole lines are merged, and one thread has each.
  void merge_lines(std::uint8_t phase, const std::vector<OpId>& ops);
  std::string team_merge(const std::string& state) const;
  // Reads the scores that losses pick out of each row.
  void write_picks();
  void write_row_results();
  void write_losses();
  std::string write_loss(OpId id);

  // Fails to compile if an accumulator takes more room than it is given.
  std::string state_asserts() const;
  std::string prologue() const;
  std::string held_declarations() const;
  std::string scratch_declaration() const;
  std::string row_loop(const std::string& inside) const;
  std::string through_runs(const std::string& inside);
  std::uint64_t held_group_bytes(const HeldValue& held) const;
  std::uint64_t place_begin(std::size_t place) const;
  // Blocks that different rows need, and blocks that are launched.
  std::uint64_t blocks_across() const;
  std::uint64_t blocks() const;

  const KernelView& kernel_;
  KernelCode code_;
  const RowLayout rows_;
  RowLayout walked_;  // by the loops: the same, or that of lines that are taken as one
  std::uint64_t space_;
  Roots roots_;
  std::uint64_t state_bytes_ = 0;  // of the largest accumulator, at most
  RowSchedule schedule_;
  std::optional<RepeatedRead> passes_{};  // that blocks take side by side
  std::uint8_t last_ = 0;
  std::string totals_;  // declared before the first row, used after the last
  std::string state_declarations_;
  std::string body_;
  std::string ending_;
  std::vector<std::string> scratch_users_;
  std::vector<HeldValue> held_;
  std::vector<Gathered> gathered_;   // in the phase that is written
  std::map<OpId, Value> picked_;     // scores that were read for losses
  std::uint64_t partial_bytes_ = 0;  // in the workspace, after the gates
  bool waits_ = false;               // for all blocks, in between
  bool windows_ = false;             // has_windows()
  bool done_ = false;                // only one block of each row goes on
  bool apart_ = false;               // after merge_lines()
};

}  // namespace fusecalc
