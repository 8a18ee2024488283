#pragma once

#include <cstdint>

namespace fusecalc {

// What a fused plan saves against the unfused one. All figures derive from the two byte counts.
struct Savings {
  std::uint64_t unfused_bytes = 0;
  std::uint64_t fused_bytes = 0;

  std::int64_t bytes() const;  // negative where fusion moves more
  double percent() const;      // of the unfused bytes, two decimals; 0 where those are 0
  double speedup() const;      // unfused / fused, two decimals; 0 where fused is 0
};

}  // namespace fusecalc
