#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "codegen/code_block.hpp"
#include "codegen/kernel_parameters.hpp"
#include "codegen/kernel_view.hpp"
#include "codegen/loop.hpp"

namespace fusecalc {

// What all code of one kernel shares: its pointers, unique names, and the variables of
// accumulators and of results of rows. It only grows.
class KernelCode {
 public:
  explicit KernelCode(const KernelView& view)
      : view_(view), parameters_(std::make_shared<KernelParameters>(view.graph())) {}
  // For another part of the same kernel: it takes the same pointers.
  KernelCode(const KernelView& view, const KernelCode& other)
      : view_(view), parameters_(other.parameters_) {}

  const KernelView& view() const { return view_; }
  KernelParameters& parameters() { return *parameters_; }
  const KernelParameters& parameters() const { return *parameters_; }
  // A name that no other variable has.
  std::string fresh(std::string_view prefix);
  // The variable with the op's accumulators, one for each of the loop's group of rows.
  std::string accumulator(OpId id);
  // The results of rows that code was written for.
  std::map<TensorId, Value>& row_results() { return row_results_; }

 private:
  const KernelView& view_;
  std::shared_ptr<KernelParameters> parameters_;
  unsigned names_ = 0;
  std::map<OpId, std::string> accumulators_;
  std::map<TensorId, Value> row_results_;
};

// Where code goes that computes elements: a block in a loop of a kernel. All functions that write
// code take one; only the block and the kernel's shared names and pointers grow.
struct Scope {
  KernelCode& kernel;
  const Loop& loop;
  CodeBlock& block;

  const KernelView& view() const { return kernel.view(); }
  const Op& op(OpId id) const { return view().op(id); }
  const Tensor& tensor(TensorId id) const { return view().tensor(id); }
  std::string fresh(std::string_view prefix) const { return kernel.fresh(prefix); }

  // A new variable: once for the whole group where it is the same in all lanes.
  Value define(ComputeType type, const std::string& text, bool uniform) const;
  // The same as a term of the loop's columns.
  Value define_term(const std::string& text) const;
  Index define_index(const std::string& text, LanePattern pattern, bool aligned) const;
};

}  // namespace fusecalc
