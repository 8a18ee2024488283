#pragma once

#include <string>
#include <string_view>

#include "codegen/scope.hpp"

namespace fusecalc {

// The tensor's element, read from memory; or, where the loop has copied it on chip first, from
// there.
Value load(const Scope& scope, TensorId tensor, const Index& at);
// The element at an address, given as an expression; one of a group of `width` neighbours, if so.
// Not for types of less than a byte.
Value load_from(const Scope& scope, DType dtype, const std::string& address, LanePattern pattern);
// A held value's element, from where an earlier pass or this block has put it.
Value load_held(const Scope& scope, const HeldValue& held);
// Puts the element where the value is held.
void hold(const Scope& scope, const HeldValue& held, const Value& value);
// Combines a value with an element of a tensor that other threads may combine theirs with, where
// the condition `guard` holds.
void combine(const Scope& scope, TensorId tensor, const Index& at, const Value& value, Combine how,
             std::string_view guard = "");
// Writes the element to memory, where the condition `guard` holds. Throws Error (unavailable) for
// types of less than a byte.
void store(const Scope& scope, TensorId tensor, const Index& at, const Value& value,
           std::string_view guard = "");

}  // namespace fusecalc
