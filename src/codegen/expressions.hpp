#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/scope.hpp"

namespace fusecalc {

// An expression of the op table for one element: the op, its operands' elements, and the types that
// it is computed in and that its result has.
struct Expression {
  OpId op = kNone;
  std::string_view device;
  std::string_view quick{};  // the same with the functions of kernels/quick.cuh; may be empty
  std::vector<Value> inputs{};
  Index at{};
  ComputeType computed = ComputeType::kF32;
  ComputeType result = ComputeType::kF32;
  // The result of the op that it is; none for what an accumulator takes of an element.
  TensorId made = kNone;
  // The accumulator that `s` names; empty: the op's, for the row that the loop is at.
  std::string accumulator{};
  // How many elements a mean is of, where that is not the length of the op's rows.
  std::string count{};
};

// A result of a type of less than 32 bits has the low bits that storing it keeps, where anything
// but a store reads it.
Value evaluate(const Scope& scope, const Expression& expression);

// Integers that are stored in less than the 32 bits that they are computed in.
bool is_narrow_integer(DType dtype);
// The low bits of a number, as the narrow integer that has them.
std::string wrapped_to(DType dtype, const std::string& text);

// The expression of an op's k-th result.
std::string_view device_expression(const Op& op, std::size_t k);

// An element of a pointwise op's k-th result.
Value pointwise(const Scope& scope, OpId id, std::size_t k, std::vector<Value> inputs,
                const Index& at);

}  // namespace fusecalc
