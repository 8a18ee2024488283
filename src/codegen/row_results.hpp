#pragma once

#include <string>

#include "codegen/scope.hpp"

namespace fusecalc {

// Accumulators of rows (the classes of kernels/rows.cuh), what they take in, and the results that
// follow from them, one per row.

// The class of the op's accumulator, and the type that it computes in.
std::string accumulator_class(const KernelView& view, const Op& op);
ComputeType accumulator_type(const KernelView& view, const Op& op);
// Its bytes, at most.
std::uint64_t state_bytes(const KernelView& view, const Op& op);
// Whether that keeps the place of the largest or of the smallest element.
bool finds_place(const Op& op);

// What the op's accumulator takes in for the element at an index of the op's input.
Value accumulator_input(const Scope& scope, OpId id, const Index& at);

// Whether the op reduces, but its rows are single elements: it needs no pass over them.
bool rows_are_single(const Op& op);
// Declares an accumulator for such a row and has it take in its element. Returns the variable.
std::string define_accumulator(const Scope& scope, OpId id, const Value& element);

// The result of the row that the loop is at. Its code goes to the block's `row_results`, once per
// kernel.
Value row_result(const Scope& scope, TensorId tensor);

// What the row that the loop is at adds to the loss that the op ends in.
Value row_loss(const Scope& scope, OpId id);

}  // namespace fusecalc
