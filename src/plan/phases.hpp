#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/checked.hpp"
#include "plan/kernel.hpp"
#include "plan/operand_places.hpp"
#include "plan/taken.hpp"

namespace fusecalc {

// Phases are bits of a 64-bit set. Reductions beyond the last phase are taken to run in it.
inline constexpr std::uint8_t kLastPhase = 62;

// How many passes a kernel makes over its rows.
//
// What depends on the result of a reduction can only be computed once the whole row was seen: it
// runs a phase later. A full-size value that is used in a later phase than the one it was first
// there for must either be held on chip in between, or be read (or computed) again.
struct Phases {
  struct Use {
    TensorId value = kNone;
    DType dtype = DType::kF32;
    std::uint64_t size = 0;      // elements of the value
    std::uint64_t elements = 0;  // touched by the kernel's ops
    std::uint32_t passes = 1;    // phases that need it if nothing is held
  };

  RowLayout rows;                      // of its reductions; empty where there is none
  bool mixed_rows = false;             // they do not agree
  bool crossed = false;                // but are rows of a matrix, those here, and its columns
  std::vector<std::uint8_t> columns;   // per op, if so: whether it sums columns, or uses such sums
  bool contracts = false;              // holds a contraction, whose rows are never read again
  std::vector<std::uint8_t> runs_in;   // per op of the kernel: its phase
  std::vector<std::uint8_t> ready_in;  // per op of the kernel: the phase its result is there
  // Per op of the kernel: the first phase in which it is computed, which of pointwise ops is where
  // a reader needs it.
  std::vector<std::uint8_t> begins_in;
  std::vector<std::uint8_t> computed;  // per op of the kernel: in how many phases
  std::vector<std::uint64_t> needed;   // per op: how many elements its readers need
  std::vector<std::uint8_t> written;   // per op of the kernel: how many results the outside needs
  std::vector<Use> reads;              // values from outside, each once per storage
  std::uint64_t held_bytes = 0;  // must be on chip at once for every value to be read only once
  bool never_fits = false;       // an op's rows cannot be held
};

class PhaseFinder;

// One kernel with its operands resolved: what its ops read and make, and what is needed outside. It
// refers to memory of the PhaseFinder that made it, and is valid until that resolves another
// kernel; an assertion finds later use.
class ResolvedKernel {
 public:
  // What an op of the kernel reads.
  struct Edge {
    const Outline::Input* input = nullptr;
    std::uint32_t maker = kNone;  // the place of the kernel's op that makes it; kNone: outside
    std::uint32_t value = 0;      // its place in reads, or among the results of the kernel's ops

    bool inside() const { return maker != kNone; }
  };

  const OpGraph& graph() const;
  bool contains(OpId op) const;
  // An op's place in the kernel, in which it must be.
  std::size_t index_of(OpId op) const;
  // Of the op at this place.
  std::span<const Edge> edges_of(std::size_t place) const;
  // Whether an op of the kernel reads a result of the one at this place.
  bool feeds_inside(std::size_t place) const;
  // How many values it reads from outside.
  std::size_t reads() const;
  // How many results its ops have.
  std::size_t results() const;
  // Whether an op outside of the kernel, or the graph's caller, needs this result of the op at this
  // place.
  bool needed_outside(std::size_t place, const Outline::Result& result) const;
  bool needed_outside(TensorId output) const;
  // Worked out when first asked for.
  const Phases& phases() const;

 private:
  friend class PhaseFinder;
  ResolvedKernel(PhaseFinder& finder, std::uint32_t stamp) : finder_(&finder), stamp_(stamp) {}
  // The finder, which must not have resolved another kernel since.
  PhaseFinder& finder() const;

  PhaseFinder* finder_;
  std::uint32_t stamp_;
};

// Works out the phases of kernels of one graph. Keeps scratch memory, so one object serves many
// kernels, one after the other.
class PhaseFinder {
 public:
  explicit PhaseFinder(const OpGraph& graph);

  const OpGraph& graph() const { return graph_; }

  // Resolving the kernel that was resolved last costs nothing.
  ResolvedKernel resolve(const Kernel& kernel);

  // Whether a kernel's result is needed outside of it, where the graph does not tell; else nothing.
  using Needed = std::function<std::optional<bool>(const Outline::Result&)>;
  // Says so of the kernels that are resolved next. Null: the graph tells everything.
  void set_needed(Needed needed) {
    needed_ = std::move(needed);
    kernel_.clear();
  }

 private:
  friend class ResolvedKernel;
  using Edge = ResolvedKernel::Edge;

  bool contains(OpId op) const { return places_[op].stamp == current_; }
  std::size_t index_of(OpId op) const { return places_[op].index; }
  std::span<const Edge> edges_of(std::size_t place) const {
    return {edges_.data() + first_edge_[place], first_edge_[place + 1] - first_edge_[place]};
  }
  bool feeds_inside(std::size_t place) const;
  bool needed_outside(std::size_t place, const Outline::Result& result) const;
  bool needed_outside(TensorId output) const;
  const Phases& phases();

  void fetch_operands(const Kernel& kernel) const;
  void resolve_operands(const Kernel& kernel);
  void run_forward(const Kernel& kernel);
  void add_reduction(OpId id);
  void find_columns(const Kernel& kernel);
  void run_backward(const Kernel& kernel);
  void find_held(const Kernel& kernel);
  Edge edge_of(const Outline::Input& input, std::uint32_t reader);
  static std::uint64_t kept_elements(const Outline::Result& result, std::uint64_t used_inside);
  std::uint64_t kept_elements(std::size_t place, TensorId storage) const;
  bool reads_in_step(std::size_t place, const Outline::Input& input) const;
  bool is_full(std::uint64_t elements) const { return !phases_.rows.empty() && elements >= space_; }

  // What readers inside of the kernel need of a value: in which phases, and of which elements.
  struct Demand {
    std::uint64_t phases = 0;
    bool whole = false;
    std::uint32_t taken = kNone;  // its place in taken_, if that is a part
    std::uint64_t elements = 0;   // known once all readers have been seen
  };
  // What is needed of an op: the phases of its full-size results, and the elements that its inputs
  // serve, those of the result with the largest demand; kMaxCount for all.
  struct OpDemand {
    std::uint64_t phases = 0;
    std::uint64_t elements = 0;
    bool keeps = false;  // its readers need elements that it may leave as they were
    bool all() const { return elements == kMaxCount; }
  };
  OpDemand demand_on(std::size_t place);

  // An index into the kernel; valid if the stamp is the current one.
  struct Slot {
    std::uint32_t stamp = 0;
    std::uint32_t index = 0;
  };
  // A result of one of the kernel's ops.
  struct Made {
    std::uint32_t readers = 0;  // of the kernel's ops
    std::uint32_t last_reader = kNone;
  };
  // The first and the last phase in which ops of the kernel read a value.
  struct PhaseRange {
    std::uint8_t first = std::numeric_limits<std::uint8_t>::max();
    std::uint8_t last = 0;
  };
  // What views show of a value that ops of the kernel read.
  struct Window {
    DType dtype = DType::kF32;
    std::uint64_t touched = 0;  // elements
    PhaseRange read_in;
  };
  Window& window_of(TensorId window);
  // What ops of the kernel take of a value of which none takes all.
  struct Taken {
    std::uint32_t read = kNone;  // its place in phases_.reads, if it is one
    std::uint64_t size = 0;      // of the value
    std::uint64_t apart = 0;     // the sum of what is taken, as if no parts overlapped
    TakenParts parts;
  };
  std::uint32_t made_by(std::size_t place, TensorId value) const;
  void take(std::size_t place, const Edge& edge, const OpDemand& demand);
  void find_parts(std::size_t place, const Edge& edge, const OpDemand& demand);
  bool find_images(std::size_t place, const Edge& edge);
  TakenPart own_part(const Edge& edge) const;
  TakenPart unknown_part(const Edge& edge, std::uint64_t elements) const;
  Taken& taken_of(const Edge& edge);
  std::uint64_t elements_of(const Taken& taken);
  std::uint8_t first_phase(std::size_t place) const;
  void find_read_ranges(const Kernel& kernel);
  std::uint64_t added_apart(const Outline::Input& input, std::uint64_t touched);
  // Whether the op reads as many elements as the kernel loops over.
  bool reads_full(const Outline::Input& input) const {
    return is_full(std::min(input.size, input.elements));
  }

  const OpGraph& graph_;
  const Outline& outline_;
  std::vector<Slot> places_;        // of ops
  std::vector<Slot> slots_;         // of reads, by their storage
  std::vector<Slot> window_slots_;  // of windows, by Tensor::window
  std::uint32_t current_ = 0;
  std::vector<Edge> edges_;  // of the kernel's ops, one after the other, then leftovers
  std::vector<Made> made_;
  // Of each op, and the end.
  std::vector<std::uint32_t> first_edge_;
  std::vector<std::uint32_t> first_made_;
  Needed needed_;
  Kernel kernel_;       // the last one resolved
  bool known_ = false;  // whether its phases are
  Phases phases_;
  std::uint64_t space_ = 0;                 // elements of the rows together
  std::vector<Demand> demands_;             // parallel to made_
  std::vector<std::uint64_t> read_phases_;  // parallel to phases_.reads
  std::vector<PhaseRange> read_ranges_;     // parallel to phases_.reads
  std::vector<PhaseRange> made_ranges_;     // parallel to made_
  std::vector<std::uint8_t> needed_from_;   // parallel to made_: the first phase with a reader
  std::vector<Window> windows_;
  OperandPlaces operand_places_;
  GridUnions unions_;
  std::vector<Slot> taken_slots_;  // of values
  std::vector<Taken> taken_;       // of the first so many
  std::size_t taken_count_ = 0;
  TakenParts parts_;  // what one op takes of an operand
};

inline PhaseFinder& ResolvedKernel::finder() const {
  assert(stamp_ == finder_->current_);
  return *finder_;
}

inline const OpGraph& ResolvedKernel::graph() const { return finder_->graph(); }
inline bool ResolvedKernel::contains(OpId op) const { return finder().contains(op); }
inline std::size_t ResolvedKernel::index_of(OpId op) const { return finder().index_of(op); }
inline std::span<const ResolvedKernel::Edge> ResolvedKernel::edges_of(std::size_t place) const {
  return finder().edges_of(place);
}
inline bool ResolvedKernel::feeds_inside(std::size_t place) const {
  return finder().feeds_inside(place);
}
inline std::size_t ResolvedKernel::reads() const { return finder().phases_.reads.size(); }
inline std::size_t ResolvedKernel::results() const { return finder().made_.size(); }
inline bool ResolvedKernel::needed_outside(std::size_t place, const Outline::Result& result) const {
  return finder().needed_outside(place, result);
}
inline bool ResolvedKernel::needed_outside(TensorId output) const {
  return finder().needed_outside(output);
}
inline const Phases& ResolvedKernel::phases() const { return finder().phases(); }

}  // namespace fusecalc
