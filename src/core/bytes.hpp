#pragma once

#include <cstdint>

namespace fusecalc {

// Memory traffic, predicted or measured. The sum of both is at most kMaxCount.
struct Bytes {
  std::uint64_t read = 0;
  std::uint64_t write = 0;

  std::uint64_t total() const { return read + write; }
  bool operator==(const Bytes&) const = default;
};

}  // namespace fusecalc
