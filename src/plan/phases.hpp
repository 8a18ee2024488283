#pragma once

#include <cstdint>
#include <vector>

#include "plan/kernel.hpp"

namespace fusecalc {

// How often a kernel must look at its rows.
//
// What depends on the result of a reduction can only be computed once the whole row was seen: it
// runs a phase later. A full-size value that is used in a later phase than the one it was first
// there for must either be held on chip in between, or be read (or computed) again.
struct Phases {
  struct Use {
    TensorId value = kNone;
    std::uint64_t elements = 0;  // touched by the kernel's ops
    std::uint32_t looks = 1;     // phases that need it where nothing is held
  };

  RowLayout rows;                      // of its reductions; empty where there is none
  bool mixed_rows = false;             // they do not agree
  bool contracts = false;              // holds a contraction, whose rows are never looked at again
  std::vector<std::uint8_t> runs_in;   // per op of the kernel: its phase
  std::vector<std::uint8_t> ready_in;  // per op of the kernel: the phase its result is there
  std::vector<Use> reads;              // values from outside, each once per storage
  std::uint64_t held_bytes = 0;  // the most that must be on chip at once so that every look is one
  bool never_fits = false;       // an op's rows cannot be held
};

// Works out the phases of kernels of one graph. Keeps scratch memory, so one object serves many
// kernels (not at the same time).
class PhaseFinder {
 public:
  explicit PhaseFinder(const OpGraph& graph);

  const OpGraph& graph() const { return graph_; }

  // Whether the op is in the kernel given to the last find().
  bool contains(OpId op) const { return stamp_[op] == current_; }
  // Its place there.
  std::size_t index_of(OpId op) const { return index_[op]; }

  // The place in reads of an outside tensor that an op of the kernel reads.
  std::size_t read_of(TensorId tensor) const { return slot_of_storage_[graph_.storage_of(tensor)]; }

  // The result is valid until the next call; asking again for the same kernel costs nothing.
  const Phases& find(const Kernel& kernel);

  // Whether somebody outside of the kernel needs this output of one of its ops.
  bool needed_outside(TensorId output) const;

 private:
  void run_forward(const Kernel& kernel);
  void run_backward(const Kernel& kernel);
  void find_held(const Kernel& kernel);
  void list_read(TensorId value);
  void add_read(const Operand& operand, std::uint64_t touched, std::uint64_t needed_in);
  std::uint64_t kept_elements(const Op& op, std::uint64_t used_inside) const;
  bool shares_memory(TensorId a, TensorId b) const;
  bool is_full(TensorId value) const;
  std::uint64_t last_phase_of_use(OpId reader, std::size_t index) const;

  const OpGraph& graph_;
  std::vector<std::uint32_t> stamp_;
  std::vector<std::uint32_t> index_;
  std::uint32_t current_ = 0;
  Kernel kernel_;  // the last one asked for
  Phases phases_;
  std::uint64_t space_ = 0;  // elements of the rows together
  // Per op of the kernel: phases in which its result is needed, and how many of its elements.
  std::vector<std::uint64_t> needed_in_;
  std::vector<std::uint64_t> demanded_;
  std::vector<std::uint64_t> read_phases_;  // parallel to phases_.reads
  std::vector<std::uint32_t> slot_of_storage_;
  std::vector<std::uint32_t> slot_stamp_;
};

}  // namespace fusecalc
