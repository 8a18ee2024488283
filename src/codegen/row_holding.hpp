#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel_view.hpp"

namespace fusecalc {

// The full-size values that a later phase needs again: held, they need not be read or made twice.
// `space` is the loop's number of elements, `last` the last phase.
std::vector<TensorId> find_held(const KernelView& kernel, std::uint64_t space, std::uint8_t last);

// What a held value takes per element: in registers values made here are kept as they were
// computed, in shared memory as they would be stored.
std::uint64_t register_bytes(const KernelView& kernel, TensorId id);
std::uint64_t stored_bytes(const KernelView& kernel, TensorId id);

}  // namespace fusecalc
