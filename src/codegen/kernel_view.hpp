#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/op_graph.hpp"
#include "plan/phases.hpp"
#include "plan/row_order.hpp"

namespace fusecalc {

// What is known of a kernel before its code is written: its ops, the passes that they run in, and
// what is needed of it outside. Never changes, and does not depend on what the PhaseFinder that it
// was made with is asked afterwards. The graph must outlive it.
class KernelView {
 public:
  KernelView(const OpGraph& graph, PhaseFinder& finder, const Kernel& kernel);

  const OpGraph& graph() const { return graph_; }
  const Kernel& ops() const { return kernel_; }
  const Phases& phases() const { return phases_; }
  const Op& op(OpId id) const { return graph_.ops[id]; }
  const Tensor& tensor(TensorId id) const { return graph_.tensors[id]; }

  bool contains(OpId id) const;
  // Whether an op of the kernel makes the tensor, or what it is a view of.
  bool makes(TensorId id) const;
  // Whether anything outside of the kernel needs this result of one of its ops.
  bool needed_outside(TensorId output) const { return stored_in_.contains(output); }
  // The passes in which an op of the kernel runs, and in which its result is there.
  std::uint8_t runs_in(OpId id) const { return phases_.runs_in[place_of(id)]; }
  std::uint8_t ready_in(OpId id) const { return phases_.ready_in[place_of(id)]; }
  std::uint8_t begins_in(OpId id) const { return phases_.begins_in[place_of(id)]; }
  // The pass in which a result that is needed outside is stored.
  std::uint8_t stored_in(TensorId output) const { return stored_in_.at(output); }

  // For an op that has the kernel's rows in another order and whole: from an element of its result
  // to the one at the same place of the row that it is made of. Else nullptr.
  const StridedMap* order_of(OpId id) const;

  // Whether the op runs once per row, on the results of reductions.
  bool of_rows(OpId id) const;
  // Whether the tensor, made inside, has one element per row.
  bool is_row_result(TensorId tensor) const;
  // Whether the op accumulates over the elements of rows, and these are the rows of the kernel.
  bool takes_rows(OpId id) const;
  // Whether the op's result is one number, accumulated over all rows.
  bool ends_in_loss(OpId id) const;

 private:
  std::size_t place_of(OpId id) const;

  const OpGraph& graph_;
  Kernel kernel_;
  Phases phases_;
  std::map<TensorId, std::uint8_t> stored_in_;  // of the results that are needed outside
  std::map<OpId, StridedMap> orders_;           // of ops that have rows in another order
};

// The kernel has no code. check_launch() refuses every kernel that reaches this and says why to the
// user; the text here is for us, should it ever not.
struct NoCode {
  std::string why;
};
[[noreturn]] void cannot_generate(const Op& op, std::string_view why);

}  // namespace fusecalc
