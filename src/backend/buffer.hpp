#pragma once

#include <cstdint>

namespace fusecalc {

// A handle of device memory, which the backend owns until release().
struct Buffer {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
};

// A place inside a buffer.
struct BufferAt {
  Buffer buffer;
  std::uint64_t offset = 0;
};

}  // namespace fusecalc
