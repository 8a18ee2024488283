#pragma once

#include <cstdint>

namespace fusecalc {

// The savings of a fused plan over the unfused one, derived from the two byte counts.
struct Savings {
  std::uint64_t unfused_bytes = 0;
  std::uint64_t fused_bytes = 0;

  std::int64_t bytes() const;  // negative if fusion moves more
  double percent() const;      // of the unfused bytes, two decimals; 0 where those are 0
  double speedup() const;      // unfused / fused, two decimals; 0 where fused is 0
};

}  // namespace fusecalc
