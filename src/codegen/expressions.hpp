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
  // The accumulator that `s` names; empty: the op's, for the row that the loop is at.
  std::string accumulator{};
  // How many elements a mean is of, where that is not the length of the op's rows.
  std::string count{};
};

Value evaluate(const Scope& scope, const Expression& expression);

// The expression of an op's k-th result.
std::string_view device_expression(const Op& op, std::size_t k);

// An element of a pointwise op's k-th result.
Value pointwise(const Scope& scope, OpId id, std::size_t k, std::vector<Value> inputs,
                const Index& at);

}  // namespace fusecalc
