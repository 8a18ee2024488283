#pragma once

#include <cstdint>
#include <vector>

#include "codegen/kernel_view.hpp"

namespace fusecalc {

// A full-size value that a later phase needs again: held, it need not be read or made twice. Values
// have the same place where one is made in the phase that reads the other for the last time.
struct Held {
  TensorId tensor = kNone;
  std::size_t place = 0;
};

// `space` is the loop's number of elements, `last` the last phase.
std::vector<Held> find_held(const KernelView& kernel, std::uint64_t space, std::uint8_t last);

// Full-size values that the kernel reads as they lie in memory.
std::vector<Held> find_read(const KernelView& kernel, std::uint64_t space);

// What a held value takes per element: in registers values made here are kept as they were
// computed, in shared memory as they would be stored.
std::uint64_t register_bytes(const KernelView& kernel, TensorId id);
std::uint64_t stored_bytes(const KernelView& kernel, TensorId id);

}  // namespace fusecalc
